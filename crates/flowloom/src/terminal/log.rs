//! The log of a server on stderr: text for people, or JSON for machines.

use std::io::{self, Write};
use std::sync::Arc;

use flowloom_app::config::server::LogStyle;
use flowloom_runtime::redact::Redactor;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::failure::CommandResult;

/// Installs the log. `redactor` removes secrets from it: a message can repeat what a server answered.
pub(crate) fn start_logging(style: LogStyle, redactor: Option<Arc<dyn Redactor>>) {
    let registry = tracing_subscriber::registry();
    let layer = tracing_subscriber::fmt::layer().with_writer(move || RedactedStderr { redactor: redactor.clone() });
    // Logs only this program's own events; events of libraries are for their developers.
    let own = tracing_subscriber::filter::Targets::new()
        .with_target("flowloom", level_filter(style))
        // The beginning of an outage is a warning, and its end belongs to it.
        .with_target("flowloom_runtime::outage_log", LevelFilter::INFO);
    let started = match style {
        LogStyle::Text => {
            let layer = layer.without_time().with_target(false).with_level(false).with_ansi(false);
            registry.with(layer.with_filter(own)).try_init()
        }
        LogStyle::Json => registry.with(layer.json().flatten_event(true).with_filter(own)).try_init(),
    };
    // Fails if a subscriber is installed already, which only tests do.
    drop(started);
}

/// Writes to stderr, without secrets. Each event arrives in one piece.
struct RedactedStderr {
    redactor: Option<Arc<dyn Redactor>>,
}

impl Write for RedactedStderr {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        match &self.redactor {
            Some(redactor) => {
                let text = String::from_utf8_lossy(event);
                io::stderr().write_all(redactor.redact_text(&text).as_bytes())?;
            }
            None => io::stderr().write_all(event)?,
        }
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// The result of a command that logs for machines: an error is a line of the log, too.
pub(crate) fn report_in_style(style: LogStyle, result: CommandResult) -> CommandResult {
    match result {
        Err(error) if style == LogStyle::Json => {
            tracing::error!(code = %error.code, "{}", error.message);
            Ok(error.exit)
        }
        result => result,
    }
}

fn level_filter(style: LogStyle) -> LevelFilter {
    match style {
        LogStyle::Text => LevelFilter::WARN,
        LogStyle::Json => LevelFilter::INFO,
    }
}
