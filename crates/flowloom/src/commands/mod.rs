//! The commands. Each one returns an exit code; errors are printed here, in one place.

mod agent_tools;
mod audit;
mod author_session;
mod authored;
mod blocks;
mod budget_limits;
mod chat;
mod check;
mod convert;
mod delete;
mod demo;
mod dev;
mod diff;
mod display;
mod doctor;
mod eval;
mod explain;
mod fmt;
mod follow;
mod fork;
mod graph;
mod import;
mod init;
mod keys;
mod list;
mod logs;
mod lsp;
mod maintenance;
mod mcp;
mod models;
mod new;
mod notifications;
mod pipeline_folder;
mod plan;
mod plan_models;
mod remote;
mod result_files;
pub(crate) mod results;
mod resume;
mod run;
mod runs;
mod send;
mod serve;
mod show;
mod spent_budget;
mod sync;
mod test;
mod triggers;
mod usage;
mod user;
mod worker;

use flowloom_app::config::error::ConfigError;
use flowloom_store::RestoreOptions;

use crate::cli::{Cli, Command, EvalCommand, ModelsCommand};
use crate::failure::CommandResult;

/// Runs a command and returns its exit code. `environment` is the result of reading the project's `.env` file.
pub(crate) async fn run_command(cli: Cli, environment: Result<(), ConfigError>) -> u8 {
    let json = cli.global.json;
    let is_run = matches!(
        cli.command,
        Command::Run(_)
            | Command::Resume { .. }
            | Command::Retry(_)
            | Command::Fork(_)
            | Command::Answer(_)
            | Command::Resolve(_)
    );
    let done = match environment {
        Ok(()) => dispatch_command(cli).await,
        Err(error) => Err(error.into()),
    };
    match done {
        Ok(exit) => exit,
        Err(error) => results::report_error(error, json, is_run),
    }
}

async fn dispatch_command(cli: Cli) -> CommandResult {
    let global = cli.global;
    match cli.command {
        Command::Run(arguments) => run::run_definition(&global, &arguments).await,
        Command::Dev(arguments) => dev::run_on_changes(&global, arguments).await,
        Command::Init(arguments) => init::create_project(&global, &arguments),
        Command::Dap => lsp::debug_runs(&global).await,
        Command::Lsp { .. } => lsp::serve_editor(&global).await,
        Command::List { folder } => list::list_workflows(&global, &folder),
        Command::New(arguments) => new::create_pipeline(&global, arguments).await,
        Command::Check(arguments) => check::check_definitions(&global, arguments).await,
        Command::Convert(arguments) => convert::convert_file(&global, &arguments),
        Command::Fmt(arguments) => fmt::format_definitions(&global, arguments),
        Command::Runs(arguments) => runs::list_runs(&global, &arguments).await,
        Command::Show(arguments) => show::show_run(&global, &arguments).await,
        Command::Resume { run, output } => resume::resume_run(&global, &run, &output).await,
        Command::Plan(arguments) => plan::plan_definition(&global, &arguments).await,
        Command::Test(arguments) => test::test_workflows(&global, arguments).await,
        Command::Diff(arguments) => diff::compare(&global, &arguments).await,
        Command::Fork(arguments) => fork::fork_run(&global, arguments).await,
        Command::Retry(arguments) => resume::retry_run(&global, arguments).await,
        Command::Replay { run } => runs::replay_run(&global, &run).await,
        Command::Cancel { run } => resume::cancel_run(&global, &run).await,
        Command::Delete { runs } => delete::delete_runs(&global, &runs).await,
        Command::Answer(arguments) => resume::answer_question(&global, arguments).await,
        Command::Resolve(arguments) => resume::resolve_effect(&global, arguments).await,
        Command::Models { command: ModelsCommand::List } => models::list_models(&global).await,
        Command::Models { command: ModelsCommand::Pull(arguments) } => models::pull_models(&global, &arguments).await,
        Command::Import(arguments) => import::import_hub_item(&global, &arguments),
        Command::Schema { format } => explain::print_schema(&format),
        Command::Chat(arguments) => chat::chat_with_graph(&global, arguments).await,
        Command::Agent(arguments) => chat::chat_with_agent(&global, arguments).await,
        Command::Graph(arguments) => graph::draw_definition(&global, &arguments).await,
        Command::User { command } => user::manage_user(&global, command).await,
        Command::Explain { code } => explain::explain_code(&global, &code),
        Command::Blocks { command, user } => blocks::manage_blocks(&global, &user, command).await,
        Command::Serve { arguments, no_studio } => {
            let studio = if no_studio { serve::StudioUse::None } else { serve::StudioUse::Served };
            serve::serve_folder(&global, arguments, studio).await
        }
        Command::Studio { arguments, no_open } => {
            let studio = if no_open { serve::StudioUse::Served } else { serve::StudioUse::Opened };
            serve::serve_folder(&global, arguments, studio).await
        }
        Command::Worker(arguments) => worker::drive_runs(&global, arguments).await,
        Command::Mcp(arguments) => mcp::serve_mcp(&global, arguments).await,
        Command::Sync(arguments) => sync::sync_folder(&global, arguments).await,
        Command::Schedule { command } => triggers::manage_schedules(&global, command).await,
        Command::Hooks { command } => triggers::manage_hooks(&global, command).await,
        Command::Prune { older, status, dry_run } => {
            maintenance::prune_runs(&global, older.as_deref(), &status, dry_run).await
        }
        Command::Backup { file } => maintenance::back_up_database(&global, &file),
        Command::Restore { file, replace, allow_damage } => {
            let options = RestoreOptions { replaces: replace, allows_damage: allow_damage };
            maintenance::restore_database(&global, &file, options)
        }
        Command::Audit { since, user, limit } => audit::print_audit(&global, since.as_deref(), user, limit),
        Command::Usage { user } => usage::print_usage(&global, &user).await,
        Command::Keys { command } => keys::manage_keys(&global, command).await,
        Command::Doctor { read_data } => doctor::run_doctor(&global, read_data).await,
        Command::Eval { command: EvalCommand::Author(arguments) } => eval::evaluate_author(&global, arguments).await,
        Command::Demo(arguments) => demo::run_demo(&global, arguments).await,
        Command::Logs { run, follow } => logs::print_log(&global, &run, follow).await,
        Command::Notifications { user, limit } => notifications::list_notifications(&global, &user, limit),
        Command::Help { words } => explain::print_help(&global, &words),
        Command::Man { folder } => explain::write_man_pages(&global, &folder),
        Command::Completions { shell } => explain::print_completions(&global, shell),
    }
}
