//! What a server says of itself while it serves: lines for people, or JSON for machines, on stderr.

use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// How it is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Style {
    /// Lines for people; calls are not told.
    #[default]
    Text,
    /// One JSON object for each line; calls are told, too.
    Json,
}

/// Writes it from now on.
pub(crate) fn start(style: Style) {
    let registry = tracing_subscriber::registry();
    let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    // Only this program's own lines: what libraries say is for their developers.
    let own = tracing_subscriber::filter::Targets::new().with_target("flowloom", level(style));
    let started = match style {
        Style::Text => {
            let layer = layer.without_time().with_target(false).with_level(false).with_ansi(false);
            registry.with(layer.with_filter(own)).try_init()
        }
        Style::Json => registry.with(layer.json().flatten_event(true).with_filter(own)).try_init(),
    };
    // Another has been started already, which only tests do.
    drop(started);
}

fn level(style: Style) -> LevelFilter {
    match style {
        Style::Text => LevelFilter::WARN,
        Style::Json => LevelFilter::INFO,
    }
}
