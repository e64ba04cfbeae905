//! `flowloom demo`: runs bundled definitions on a real, small model, with web pages served by the demo itself.

mod authored;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::routing::{get, post};
use flowloom_app::definitions::bundle::Bundle;
use flowloom_app::definitions::source::Loader;
use flowloom_app::engines::App;
use flowloom_app::runs::summary;
use flowloom_core::code::Code;
use flowloom_core::value::Value;
use flowloom_formats::render_result;
use flowloom_store::SHARED_USER;
use tokio::net::TcpListener;

use super::results::print_json;
use crate::cli::{DemoArgs, Global, OutputArgs, SMALL_MODEL};
use crate::commands::run::run_workflow;
use crate::failure::{CommandError, CommandResult, print_failure};
use crate::hint;
use crate::terminal::{report, screen};

/// A bundled example and its inputs.
struct Example {
    file: &'static str,
    text: &'static str,
    /// Further files of the definition, by path.
    extra_files: &'static [(&'static str, &'static str)],
    /// Whether dangling edges are ignored.
    is_lenient: bool,
    /// Script with recorded answers, for examples that are too hard for the small model.
    script: Option<&'static str>,
    inputs: fn(&str) -> Value,
}

/// Description of the small model.
const SMALL_MODEL_DESCRIPTION: &str = "a model of 135 million parameters";

/// Includes an example file under its own path.
macro_rules! example {
    ($file:literal) => {
        ($file, include_str!(concat!("../../../../../", $file)))
    };
}

const DEMO_EXAMPLES: [Example; 7] = [
    Example {
        file: "examples/flow/summarize-page.json",
        text: include_str!("../../../../../examples/flow/summarize-page.json"),
        extra_files: &[],
        is_lenient: false,
        script: None,
        inputs: |base| Value::map([("url", Value::from(format!("{base}/lamp.html")))]),
    },
    Example {
        file: "examples/flow/weather-report.json",
        text: include_str!("../../../../../examples/flow/weather-report.json"),
        extra_files: &[],
        is_lenient: false,
        script: None,
        inputs: |base| Value::map([("base", Value::from(base))]),
    },
    Example {
        file: "examples/steps/review-document.json",
        text: include_str!("../../../../../examples/steps/review-document.json"),
        extra_files: &[],
        is_lenient: false,
        script: None,
        inputs: |_| include_str!("../../../../../examples/site/review.txt").into(),
    },
    Example {
        file: "examples/markdown/poem.mdx",
        text: include_str!("../../../../../examples/markdown/poem.mdx"),
        extra_files: &[],
        is_lenient: false,
        script: None,
        inputs: |_| Value::map::<&str>([]),
    },
    Example {
        file: "examples/pipeline/analyse-review.json",
        text: include_str!("../../../../../examples/pipeline/analyse-review.json"),
        extra_files: &[
            example!("examples/pipeline/blocks/count_words.json"),
            example!("examples/pipeline/blocks/shorten.json"),
            example!("examples/pipeline/blocks/find_city.json"),
            example!("examples/pipeline/blocks/report.json"),
        ],
        is_lenient: false,
        script: None,
        inputs: |_| Value::map::<&str>([]),
    },
    Example {
        file: "examples/graph/helpdesk.json",
        text: include_str!("../../../../../examples/graph/helpdesk.json"),
        extra_files: &[
            example!("examples/graph/agents/triage/jsonSchema.json"),
            example!("examples/graph/agents/triage/systemPrompt.md"),
            example!("examples/graph/agents/orders/jsonSchema.json"),
            example!("examples/graph/agents/orders/systemPrompt.md"),
            example!("examples/graph/agents/refunds/jsonSchema.json"),
            example!("examples/graph/agents/refunds/systemPrompt.md"),
        ],
        is_lenient: false,
        script: Some(include_str!("../../../../../examples/graph/helpdesk.script.json")),
        inputs: |_| Value::map([("message", "Where is my order 4711?".into())]),
    },
    Example {
        file: "examples/seeds/graph/01.json",
        text: include_str!("../../../../../examples/seeds/graph/01.json"),
        extra_files: &[],
        is_lenient: true,
        script: Some(include_str!("../../../../../examples/graph/2nchat.script.json")),
        inputs: |_| Value::map([("message", "Do these two parts fit together?".into())]),
    },
];

pub(crate) async fn run_demo(global: &Global, arguments: DemoArgs) -> CommandResult {
    let mut config = global.load_config()?;
    let address = serve_pages().await?;
    config.egress.allow.push(address.clone());
    config.tools.base_url = Some(format!("http://{address}"));
    config.default_model.value = Some(arguments.model.clone());
    // Some examples name the small model themselves, because their format requires a model.
    config.aliases.push((SMALL_MODEL.to_owned(), arguments.model.clone()));
    eprintln!("Model: {}. Web pages are served by this demo ({address}).", arguments.model);
    if arguments.model.starts_with("local:") {
        eprintln!("Nothing leaves this machine.");
    } else {
        eprintln!("Prompts are sent to that provider; nothing else leaves this machine.");
    }
    let app = App::open(config)?;
    let mut rows = Vec::new();
    for example in &DEMO_EXAMPLES {
        eprintln!("\n── {}", example.file);
        rows.push(run_example(global, &app, example, &format!("http://{address}")).await?);
    }
    rows.push(authored::run_authoring(global, &app).await?);
    let exit = u8::from(rows.iter().any(|row| row.status != "succeeded"));
    if global.json {
        print_json(&rows.iter().map(ExampleResult::to_json).collect::<Vec<_>>());
        return Ok(exit);
    }
    println!("\n{:<38} {:<10} {:>6} {:>8}", "definition", "status", "steps", "time");
    for row in &rows {
        println!("{:<38} {:<10} {:>6} {:>8}", row.file, row.status, row.steps, row.took);
    }
    println!("\nAnswered by {}. Every step is recorded: {}", arguments.model, hint::command_line("show last"));
    println!("Next: flowloom run {} --input examples/site/review.txt", DEMO_EXAMPLES[2].file);
    Ok(exit)
}

struct ExampleResult {
    file: &'static str,
    status: &'static str,
    steps: usize,
    took: String,
}

impl ExampleResult {
    fn to_json(&self) -> serde_json::Value {
        serde_json::json!({"definition": self.file, "status": self.status, "steps": self.steps, "time": self.took})
    }
}

async fn run_example(global: &Global, app: &App, example: &Example, base: &str) -> Result<ExampleResult, CommandError> {
    let all = example.extra_files.iter().copied().chain([(example.file, example.text)]);
    let files: BTreeMap<String, Vec<u8>> =
        all.map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec())).collect();
    let loader = Loader { lenient: example.is_lenient, ..Loader::new(&app.config) };
    let compiled = loader.compile_files(example.file, files.clone()).compiled;
    let Some(plan) = compiled.plan.map(Arc::new) else {
        let why = compiled.diagnostics.first().map(|problem| problem.message.clone()).unwrap_or_default();
        return Err(CommandError::usage(format!("{} does not compile: {why}", example.file)));
    };
    let mut bundle =
        Bundle { lenient: example.is_lenient, ..app.engines.build_bundle(example.file, &files, plan.format) };
    if example.is_lenient {
        eprintln!("Three of its edges name a missing node and are ignored.");
    }
    if let Some(script) = example.script {
        eprintln!("These answers come from a script: {} is too small for this.", SMALL_MODEL_DESCRIPTION);
        let file = app.store.folder().join("demo.script.json");
        std::fs::write(&file, script).map_err(|error| CommandError::usage(format!("{}: {error}", file.display())))?;
        bundle.model = Some(format!("scripted:{}", file.display()));
    }
    let started = Instant::now();
    let watcher = Box::new(screen::ProgressScreen::new(&OutputArgs::default(), global.json));
    let (workflow, limits) = (app.engines.prepare_definition(plan, &bundle)?, app.config.limits.clone());
    let outcome = run_workflow(app, &workflow, (example.inputs)(base), SHARED_USER, limits, watcher).await?;
    if !global.json {
        println!("{}", summary::render_output(&render_result(&workflow.plan, &outcome.state, &outcome.env).output));
    }
    if let Some(error) = &outcome.state.error {
        print_failure(error.code, "", &error.message);
    }
    let steps = outcome.state.steps().iter().filter(|step| step.kind.is_some()).count();
    let took = report::format_duration(started.elapsed().as_millis() as u64);
    Ok(ExampleResult { file: example.file, status: outcome.state.status.name(), steps, took })
}

/// Serves the demo's pages on a free loopback port. Returns the address as `host:port`.
async fn serve_pages() -> Result<String, CommandError> {
    let failed = |error: std::io::Error| {
        CommandError::new(Code::StoreFailed, format!("cannot serve the pages of the demo: {error}"))
    };
    let page = |kind: &'static str, text: &'static str| get(move || async move { ([(CONTENT_TYPE, kind)], text) });
    let router = Router::new()
        .route("/lamp.html", page("text/html; charset=utf-8", include_str!("../../../../../examples/site/lamp.html")))
        .route(
            "/orders/status",
            post(|| async { ([(CONTENT_TYPE, "application/json")], r#"{"order":"4711","state":"on its way"}"#) }),
        )
        .route("/weather.json", page("application/json", include_str!("../../../../../examples/site/weather.json")));
    let listener = TcpListener::bind("127.0.0.1:0").await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    tokio::spawn(async move {
        // The server ends with the process.
        let _ = axum::serve(listener, router).await;
    });
    Ok(address.to_string())
}
