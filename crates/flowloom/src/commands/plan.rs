//! `flowloom plan`: the worst case of a workflow before it runs.

use std::sync::Arc;

use flowloom_app::config::Config;
use flowloom_app::definitions::find::find_definition;
use flowloom_app::definitions::source::{self, LoadedDefinition, Loader};
use flowloom_app::engines::App;
use flowloom_app::estimate::{ConfiguredFigures, Estimate, Maximum, estimate_plan};
use flowloom_app::runs::inputs::parse_duration_ms;
use flowloom_app::typical_case::find_typical_case;
use flowloom_app::wiring::build_default_models;
use flowloom_core::bound::Latencies;
use flowloom_core::diagnostic::LineTable;
use serde_json::json;

use super::agent_tools::attach_tools;
use super::results::print_json;
use super::run::choose_models;
use crate::cli::{Global, PlanArgs};
use crate::failure::{CommandError, CommandResult, print_error};
use crate::inputs::read_inputs;
use crate::terminal::diagnostics;
use crate::terminal::estimate::{OpenEnd, render_estimate};
use crate::terminal::width::stdout_columns;

/// The exit code if the worst case exceeds a maximum.
const EXIT_EXCEEDED: u8 = 5;

pub(crate) async fn plan_definition(global: &Global, arguments: &PlanArgs) -> CommandResult {
    let maxima = arguments.max.iter().map(|text| parse_maximum(text)).collect::<Result<Vec<_>, _>>()?;
    let latencies = parse_latencies(&arguments.latency)?;
    let mut config = global.load_config()?;
    choose_models(&mut config, &arguments.model);
    let file = find_definition(&config, &arguments.file)?;
    let app = open_app(&config)?;
    let format = source::parse_format(arguments.format.as_deref())?;
    let source = Loader { format, ..Loader::new(&config) }.compile(&file);
    let source = attach_tools(&config, app.as_ref(), source, &file, false).await?;
    let Some(plan) = source.compiled.plan.clone() else {
        let message = format!("{} has errors, so it has no plan", source.name());
        return Err(CommandError::report_invalid_definition(&source, message));
    };
    diagnostics::print_diagnostics(&source);
    let is_given = !arguments.input_values.is_empty() || arguments.input.is_some();
    let inputs = match is_given {
        true => Some(read_inputs(&config, &plan, &arguments.input_values, arguments.input.as_deref())?),
        false => None,
    };
    let limits = config.limits.narrow_to(&plan.limits);
    let tools = Some(source.available_tools());
    let figures = ConfiguredFigures { config: &config, models: &build_default_models(&config), tools };
    let estimate = estimate_plan(&plan, inputs.as_ref(), &limits, &figures, latencies);
    let open_ends = list_open_ends(&source, &estimate);
    let typical = match &app {
        Some(app) => find_typical_case(&app.runs, &plan, None).await?,
        None => None,
    };
    if global.json {
        let mut all = estimate.to_json();
        all["unbounded"] = open_ends.iter().map(OpenEnd::to_json).collect();
        all["typical"] = json!(typical);
        print_json(&all);
    } else {
        print!("{}", render_estimate(&plan, &estimate, &open_ends, typical.as_ref(), stdout_columns()));
    }
    let exceeded: Vec<String> = maxima.iter().filter_map(|maximum| estimate.find_excess(maximum)).collect();
    for problem in &exceeded {
        print_error(flowloom_core::code::Code::EstimateExceeded, "", problem);
    }
    Ok(if exceeded.is_empty() { 0 } else { EXIT_EXCEEDED })
}

/// The data of the project; `None` if it has none yet.
fn open_app(config: &Config) -> Result<Option<Arc<App>>, CommandError> {
    Ok(if config.has_data() { Some(Arc::new(App::open(config.clone())?)) } else { None })
}

/// The figures without a bound, with their lines in the definition.
fn list_open_ends(source: &LoadedDefinition, estimate: &Estimate) -> Vec<OpenEnd> {
    let text = String::from_utf8_lossy(source.bytes());
    let lines = LineTable::new(&text);
    let place = |span: flowloom_core::diagnostic::Span| {
        let position = lines.find_position(&text, span.start);
        (span.length > 0).then(|| format!("{}:{position}", source.name()))
    };
    let open_end = |unbounded: &flowloom_core::bound::Unbounded| OpenEnd {
        path: unbounded.path.to_string(),
        place: place(unbounded.span),
        reason: unbounded.reason.clone(),
    };
    estimate.worst.unbounded.iter().map(open_end).collect()
}

fn parse_maximum(text: &str) -> Result<Maximum, CommandError> {
    let wrong = || {
        let advice = "write usd=0.10, tokens=5000, calls=10, requests=20, writes=0 or time=30s";
        CommandError::usage(format!("--max: {text:?} is not a maximum; {advice}"))
    };
    let (name, value) = text.split_once('=').ok_or_else(wrong)?;
    let most = match name {
        "usd" => {
            let usd: f64 = value.parse().map_err(|_| wrong())?;
            if !(0.0..=1e12).contains(&usd) {
                return Err(wrong());
            }
            (usd * 1e6) as u64
        }
        "time" => parse_duration_ms(value).ok_or_else(wrong)?,
        "tokens" | "calls" | "requests" | "writes" => value.parse().map_err(|_| wrong())?,
        _ => return Err(wrong()),
    };
    Ok(Maximum { name: name.to_owned(), most })
}

fn parse_latencies(texts: &[String]) -> Result<Latencies, CommandError> {
    let mut latencies = Latencies::default();
    for text in texts {
        let wrong = || {
            let advice = "write model=2s, request=300ms, function=300ms or block=200ms";
            CommandError::usage(format!("--latency: {text:?} is not a latency; {advice}"))
        };
        let (name, value) = text.split_once('=').ok_or_else(wrong)?;
        let ms = parse_duration_ms(value).ok_or_else(wrong)?;
        match name {
            "model" => latencies.model_ms = ms,
            "request" => latencies.request_ms = ms,
            "function" => latencies.function_ms = ms,
            "block" => latencies.block_ms = ms,
            _ => return Err(wrong()),
        }
    }
    Ok(latencies)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maxima_have_units() {
        let most = |text: &str| parse_maximum(text).ok().map(|maximum| maximum.most);
        assert_eq!((most("usd=0.10"), most("time=2m"), most("calls=3")), (Some(100_000), Some(120_000), Some(3)));
        assert_eq!((most("usd=x"), most("usd=-1"), most("time=2"), most("cost=1")), (None, None, None, None));
    }
}
