//! `flowloom show`: shows a run, one of its steps, or a run as it continues.

use std::sync::Arc;

use flowloom_app::engines::App;
use flowloom_app::runs::details::read_details;
use flowloom_app::runs::family::{ForkParent, RunFamily, find_family};
use flowloom_app::runs::family_tree::{FamilyMember, find_family_tree};
use flowloom_app::runs::finished::read_outcome;
use flowloom_app::runs::retry::parse_step_path;
use flowloom_app::runs::stored::LoadedRun;
use flowloom_app::runs::summary::{self, StepSummary};
use flowloom_app::runs::trigger::{TriggerKind, describe_trigger};
use flowloom_app::runs::watch::Watcher as _;
use flowloom_core::RunId;
use flowloom_core::event::Record;
use flowloom_core::state::RunState;
use flowloom_core::status::Status;
use serde::Serialize;

use super::budget_limits::describe_larger_budget;
use super::display::{describe_uncertain, describe_waiting};
use super::follow::follow_events;
use super::results::print_json;
use crate::cli::{Global, OutputArgs, ShowArgs};
use crate::failure::{CommandError, CommandResult};
use crate::hint;
use crate::print::print_wrapped;
use crate::terminal::details::{DetailLevel, render_details};
use crate::terminal::family::render_family;
use crate::terminal::report;
use crate::terminal::screen::ProgressScreen;
use crate::terminal::width::{stdout_columns, terminal_columns};

/// The fields that `show --json` adds to the summary of a run.
#[derive(Serialize)]
struct RecordFields<'a> {
    #[serde(flatten)]
    relatives: RunFamily,
    /// All runs that come from the same first run.
    family: Vec<FamilyMember>,
    steps: Vec<StepSummary<'a>>,
    events: &'a [Arc<Record>],
    #[serde(skip_serializing_if = "Option::is_none")]
    interruption: Option<String>,
}

pub(crate) async fn show_run(global: &Global, arguments: &ShowArgs) -> CommandResult {
    let app = global.open_existing()?;
    let mut opened = app.runs.open_run(&arguments.run).await?;
    if arguments.follow {
        opened = follow_run(&app, opened, global.json).await?;
    }
    if let Some(path) = &arguments.path {
        return show_step(global, &app, &opened, path).await;
    }
    let interruption = app.runs.explain_standstill(&opened).await?;
    if global.json {
        let past = read_outcome(&app.runs, &opened).await?;
        let summary = summary::summarize_run(opened.id, &opened.plan, &past.state, &past.env);
        let steps = summary::summarize_steps(&past.state);
        let relatives = find_family(&app.store, opened.id, &past.state)?;
        let family = find_family_tree(&app.store, opened.id)?.members;
        let events = &opened.records;
        print_json(&summary.with_fields(RecordFields { relatives, family, steps, events, interruption }));
        return Ok(0);
    }
    let state = opened.state();
    let waterfall = report::render_waterfall(opened.id, &opened.plan, &state, stdout_columns());
    print_wrapped(waterfall.trim_end_matches('\n'), 4);
    let level = if arguments.verbose { DetailLevel::Full } else { DetailLevel::Short };
    let steps = read_details(&app.runs, &opened, None).await?;
    let details = render_details(&steps, level, terminal_columns());
    if !details.is_empty() {
        print_wrapped(details.trim_end_matches('\n'), 4);
    }
    print_origin(opened.id, &find_family(&app.store, opened.id, &state)?);
    print_for_people!("{}", render_family(&find_family_tree(&app.store, opened.id)?, opened.id));
    print_next_command(opened.id, &state, interruption);
    Ok(0)
}

/// Prints the trigger of the run, and the run that it was forked from.
fn print_origin(run: RunId, family: &RunFamily) {
    if let Some(trigger) = family.trigger.as_ref().filter(|trigger| trigger.kind != TriggerKind::Terminal.name()) {
        print_for_people!("\nstarted by {}\n", describe_trigger(trigger));
    }
    if let Some(ForkParent { run_id, at }) = &family.forked_from {
        let at = at.as_ref().map(|at| format!(" at {at}")).unwrap_or_default();
        print_for_people!("\nforked from {run_id}{at}\n  compare: flowloom diff {run_id} {run}\n");
    }
}

/// How the run continues, if it does.
fn print_next_command(run: RunId, state: &RunState, interruption: Option<String>) {
    match state.status {
        Status::Waiting => print_for_people!("\n{}", describe_waiting(run, state)),
        Status::Uncertain => print_for_people!("\n{}", describe_uncertain(run, state)),
        Status::Interrupted if interruption.is_none() => {
            let (resume, cancel) =
                (hint::command_line(&format!("resume {run}")), hint::command_line(&format!("cancel {run}")));
            print_for_people!("\ninterrupted; continue it with {resume}, or end it with {cancel}\n");
        }
        _ => {
            if let Some(larger) = describe_larger_budget(&run.to_string(), state) {
                print_for_people!("\n{larger}\n");
            }
        }
    }
    if let Some(interruption) = interruption {
        print_for_people!("\n{interruption}\n");
    }
}

async fn show_step(global: &Global, app: &App, opened: &LoadedRun, name: &str) -> CommandResult {
    let path = parse_step_path(name);
    let steps = read_details(&app.runs, opened, path.as_ref()).await?;
    if path.is_none() || steps.is_empty() {
        let state = opened.state();
        let known: Vec<&str> = state.steps().iter().map(|step| step.path.as_str()).collect();
        return Err(CommandError::usage(format!("the run has no step {name}; its steps are {}", known.join(", "))));
    }
    if global.json {
        print_json(&steps);
    } else {
        print_wrapped(render_details(&steps, DetailLevel::Full, terminal_columns()).trim_matches('\n'), 4);
    }
    Ok(0)
}

/// Shows the events of a run until it ends or waits, whatever process drives it.
async fn follow_run(app: &App, opened: LoadedRun, is_quiet: bool) -> Result<LoadedRun, CommandError> {
    let mut screen = ProgressScreen::new(&OutputArgs::default(), is_quiet);
    let followed = follow_events(app, opened, &mut |record| screen.on_event(record)).await;
    screen.on_close();
    followed
}
