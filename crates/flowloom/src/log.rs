//! The log of a server on stderr: text for people, or JSON for machines.

use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Format of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Style {
    /// Text lines; requests are not logged
    #[default]
    Text,
    /// One JSON object per line; requests are logged, too
    Json,
}

/// Installs the log.
pub(crate) fn start(style: Style) {
    let registry = tracing_subscriber::registry();
    let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    // Logs only this program's own events; events of libraries are for their developers.
    let own = tracing_subscriber::filter::Targets::new().with_target("flowloom", level(style));
    let started = match style {
        Style::Text => {
            let layer = layer.without_time().with_target(false).with_level(false).with_ansi(false);
            registry.with(layer.with_filter(own)).try_init()
        }
        Style::Json => registry.with(layer.json().flatten_event(true).with_filter(own)).try_init(),
    };
    // Fails if a subscriber is installed already, which only tests do.
    drop(started);
}

fn level(style: Style) -> LevelFilter {
    match style {
        Style::Text => LevelFilter::WARN,
        Style::Json => LevelFilter::INFO,
    }
}
