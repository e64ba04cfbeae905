//! `flowloom demo`: real definitions on a real, small model, with pages that the demo serves itself.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use flowloom_core::value::Value;
use flowloom_formats::{Sources, compile, present};
use flowloom_runtime::Start;
use tokio::net::TcpListener;

use crate::app::App;
use crate::cli::{DemoArgs, Global, OutputArgs};
use crate::config::Config;
use crate::failure::{Failure, Outcome};
use crate::{progress, report};

/// A bundled example and what it is given.
struct Example {
    file: &'static str,
    text: &'static str,
    inputs: fn(&str) -> Value,
}

const EXAMPLES: [Example; 3] = [
    Example {
        file: "examples/flow/summarize-page.json",
        text: include_str!("../../../../examples/flow/summarize-page.json"),
        inputs: |base| Value::map([("url", Value::from(format!("{base}/lamp.html")))]),
    },
    Example {
        file: "examples/flow/weather-report.json",
        text: include_str!("../../../../examples/flow/weather-report.json"),
        inputs: |base| Value::map([("base", Value::from(base))]),
    },
    Example {
        file: "examples/steps/review-document.json",
        text: include_str!("../../../../examples/steps/review-document.json"),
        inputs: |_| include_str!("../../../../examples/site/review.txt").into(),
    },
];

pub(crate) async fn demo(global: &Global, arguments: DemoArgs) -> Outcome {
    let mut config = Config::load(global)?;
    let address = serve().await?;
    config.egress.allow.push(address.clone());
    config.default_model.value = Some(arguments.model.clone());
    eprintln!("Model: {}. The pages come from this demo ({address}).", arguments.model);
    if arguments.model.starts_with("local:") {
        eprintln!("Nothing leaves this machine.");
    } else {
        eprintln!("Prompts are sent to that provider; nothing else leaves this machine.");
    }
    let app = App::open(config)?;
    let mut rows = Vec::new();
    for example in &EXAMPLES {
        eprintln!("\n── {}", example.file);
        rows.push(show(global, &app, example, &format!("http://{address}")).await?);
    }
    println!("\n{:<38} {:<10} {:>6} {:>8}", "definition", "status", "steps", "time");
    for row in &rows {
        println!("{:<38} {:<10} {:>6} {:>8}", row.file, row.status, row.steps, row.took);
    }
    println!("\nAnswered by {}. Every step is recorded: flowloom show last", arguments.model);
    println!("Next: flowloom run {} --input examples/site/review.txt", EXAMPLES[2].file);
    Ok(u8::from(rows.iter().any(|row| row.status != "succeeded")))
}

struct Row {
    file: &'static str,
    status: &'static str,
    steps: usize,
    took: String,
}

async fn show(global: &Global, app: &App, example: &Example, base: &str) -> Result<Row, Failure> {
    let files = BTreeMap::from([(example.file.to_owned(), example.text.as_bytes().to_vec())]);
    let compiled =
        compile(example.file, &Sources { files: files.clone(), source_bytes: u64::MAX, ..Sources::default() }, None);
    let Some(plan) = compiled.plan.map(Arc::new) else {
        let why = compiled.diagnostics.first().map(|problem| problem.message.clone()).unwrap_or_default();
        return Err(Failure::usage(format!("{} does not compile: {why}", example.file)));
    };
    let bundle = app.bundle(example.file, &files, plan.format)?;
    let engine = app.engine(&bundle)?;
    let start = Start {
        plan: plan.clone(),
        bundle: app.store.keep_bundle(&bundle.text()?),
        inputs: (example.inputs)(base),
        owner: "local".to_owned(),
        agent: None,
        limits: app.config.limits.clone(),
        depth: 0,
        id: None,
    };
    let run = engine.start(start)?;
    let shown =
        progress::follow(run.subscribe(), engine.journal().clone(), run.id(), &OutputArgs::default(), global.json);
    let shown = tokio::spawn(shown);
    let started = Instant::now();
    let outcome = run.drive().await;
    drop(engine);
    // An error would only say that showing the last lines failed.
    let _ = shown.await;
    println!("{}", report::for_people(&present(&plan, &outcome.state, &outcome.env).output));
    if let Some(error) = &outcome.state.error {
        eprintln!("error[{}]: {}", error.code, error.message);
    }
    let steps = outcome.state.steps().iter().filter(|step| step.kind.is_some()).count();
    let took = report::duration(started.elapsed().as_millis() as u64);
    Ok(Row { file: example.file, status: outcome.state.status.name(), steps, took })
}

/// Serves the demo's pages on a free loopback port; the address as `host:port`.
async fn serve() -> Result<String, Failure> {
    let failed = |error: std::io::Error| {
        Failure::from(StepError::new(Code::StoreFailed, format!("the demo cannot serve its pages: {error}")))
    };
    let page = |kind: &'static str, text: &'static str| get(move || async move { ([(CONTENT_TYPE, kind)], text) });
    let router = Router::new()
        .route("/lamp.html", page("text/html; charset=utf-8", include_str!("../../../../examples/site/lamp.html")))
        .route("/weather.json", page("application/json", include_str!("../../../../examples/site/weather.json")));
    let listener = TcpListener::bind("127.0.0.1:0").await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    tokio::spawn(async move {
        // It ends with the process.
        let _ = axum::serve(listener, router).await;
    });
    Ok(address.to_string())
}
