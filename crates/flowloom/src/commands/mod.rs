//! The commands. Each one returns an exit code; errors are printed here, in one place.

mod blocks;
mod chat;
mod check;
mod demo;
mod doctor;
mod eval;
mod explain;
mod graph;
mod keep;
mod keys;
mod mcp;
mod models;
mod new;
mod out;
mod pipeline_folder;
mod remote;
mod resume;
mod run;
mod runs;
mod serve;
mod starts;
mod sync;
mod user;

use clap::CommandFactory as _;
use flowloom_app::runs::summary;

use crate::cli::{Cli, Command, EvalCommand, ModelsCommand};
use crate::failure::{Failure, Outcome};

/// Runs a command and returns its exit code.
pub(crate) async fn run(cli: Cli) -> u8 {
    let json = cli.global.json;
    let is_run =
        matches!(cli.command, Command::Run(_) | Command::Resume { .. } | Command::Answer(_) | Command::Resolve(_));
    match dispatch(cli).await {
        Ok(exit) => exit,
        Err(Failure { exit, error }) => {
            if json && is_run {
                print(&summary::refused(None, &error));
            }
            eprintln!("error[{}]: {}", error.code, error.message);
            eprintln!("  for details: flowloom explain {}", error.code);
            exit
        }
    }
}

async fn dispatch(cli: Cli) -> Outcome {
    let global = cli.global;
    match cli.command {
        Command::Run(arguments) => run::run(&global, arguments).await,
        Command::New(arguments) => new::new(&global, arguments).await,
        Command::Check(arguments) => check::check(&global, arguments),
        Command::Runs { limit } => runs::list(&global, limit).await,
        Command::Show { run } => runs::show(&global, &run).await,
        Command::Resume { run, output } => resume::resume(&global, &run, &output).await,
        Command::Replay { run } => runs::replay(&global, &run).await,
        Command::Cancel { run } => resume::cancel(&global, &run).await,
        Command::Answer(arguments) => resume::answer(&global, arguments).await,
        Command::Resolve(arguments) => resume::resolve(&global, arguments).await,
        Command::Models { command: ModelsCommand::List } => models::list(&global),
        Command::Models { command: ModelsCommand::Pull } => models::pull(&global).await,
        Command::Import { file, out } => explain::import(&file, out.as_deref()),
        Command::Schema { format } => explain::schema(&format),
        Command::Chat(arguments) => chat::chat(&global, arguments).await,
        Command::Agent(arguments) => chat::agent(&global, arguments).await,
        Command::Graph(arguments) => graph::graph(&global, &arguments),
        Command::User { command } => user::user(&global, command).await,
        Command::Explain { code } => explain::explain(&global, &code),
        Command::Blocks { command, user } => blocks::blocks(&global, &user, command).await,
        Command::Serve(arguments) => serve::serve(&global, arguments).await,
        Command::Mcp(arguments) => mcp::mcp(&global, arguments).await,
        Command::Sync(arguments) => sync::sync(&global, arguments).await,
        Command::Schedule { command } => starts::schedule(&global, command).await,
        Command::Hooks { command } => starts::hooks(&global, command).await,
        Command::Prune { older, status, dry_run } => keep::prune(&global, older.as_deref(), &status, dry_run).await,
        Command::Backup { file } => keep::backup(&global, &file),
        Command::Restore { file, replace } => keep::restore(&global, &file, replace),
        Command::Keys { command } => keys::keys(&global, command).await,
        Command::Doctor => doctor::doctor(&global).await,
        Command::Eval { command: EvalCommand::Author(arguments) } => eval::author(&global, arguments).await,
        Command::Demo(arguments) => demo::demo(&global, arguments).await,
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "flowloom", &mut std::io::stdout());
            Ok(0)
        }
    }
}

/// Prints a JSON value to stdout.
fn print(value: &impl serde::Serialize) {
    println!("{}", summary::indented(value));
}
