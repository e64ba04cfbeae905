//! `flowloom logs`: prints the events of a run, one line each.

use flowloom_core::event::{Event, Record};

use super::follow::follow_events;
use super::results::{print_json, print_json_line};
use crate::cli::Global;
use crate::failure::CommandResult;
use crate::style::{Style, paint_text};
use crate::terminal::measure::fit_line;
use crate::terminal::report::clean_line;
use crate::terminal::width::stdout_columns;

pub(crate) async fn print_log(global: &Global, name: &str, follows: bool) -> CommandResult {
    let app = global.open_existing()?;
    let opened = app.runs.open_run(name).await?;
    let start = opened.records.first().map_or(0, |record| record.at);
    if global.json && !follows {
        print_json(&opened.records.iter().map(|record| &**record).collect::<Vec<_>>());
        return Ok(0);
    }
    let mut print = |record: &Record| match global.json {
        true => print_json_line(record),
        false => match stdout_columns() {
            Some(columns) => println!("{}", fit_line(&render_event(record, start), columns)),
            None => println!("{}", render_event(record, start)),
        },
    };
    if follows {
        follow_events(&app, opened, &mut print).await?;
    } else {
        opened.records.iter().for_each(|record| print(record));
    }
    Ok(0)
}

/// An event as a line: the time since the start of the run, the kind, the step, the detail.
fn render_event(record: &Record, start: u64) -> String {
    let seconds = record.at.saturating_sub(start) as f64 / 1000.0;
    let time = paint_text(Style::Dim, &format!("{seconds:>9.3}s"));
    let path = if record.path.as_str() == "/" { String::new() } else { format!("  {}", record.path) };
    let attempt = if record.attempt > 1 { format!(" (attempt {})", record.attempt) } else { String::new() };
    let detail = describe_event(&record.event).map(|detail| format!("  {}", clean_line(&detail)));
    format!("{time}  {:<15}{path}{attempt}{}", record.event.name(), detail.unwrap_or_default()).trim_end().to_owned()
}

fn describe_event(event: &Event) -> Option<String> {
    Some(match event {
        Event::RunCreated(created) => format!("{} ({}) for {}", created.name, created.format.name(), created.user),
        Event::StepStarted { target, .. } => target.to_string(),
        Event::StepFailed { error, .. } => format!("{}: {}", error.code, error.message),
        Event::StepSkipped { reason } | Event::StepAborted { reason } => reason.clone(),
        Event::EdgeTaken { to } => to.clone().unwrap_or_else(|| "end".to_owned()),
        Event::Asked(request) => request.question.clone(),
        Event::Progress { name, data } => format!("{name} {}", flowloom_core::render::to_json(data)),
        Event::RunSuspended { status } => status.name().to_owned(),
        Event::RunFinished { status, error, .. } => match error {
            Some(error) => format!("{}: {}: {}", status.name(), error.code, error.message),
            None => status.name().to_owned(),
        },
        _ => return None,
    })
}
