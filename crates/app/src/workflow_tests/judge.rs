//! Questions about values that a model answers.

use std::sync::Arc;

use flowloom_core::chat::{GenerateOptions, Role, Usage};
use flowloom_core::expr::{Data, Template};
use flowloom_core::hash::Hash;
use flowloom_core::path::Key;
use flowloom_core::plan::{Generate, Inputs, Leaf, Plan, Step};
use flowloom_core::render::{self, TextStyle};
use flowloom_core::value::{Map, Value};
use flowloom_runtime::{Engine, RunOutcome, StartOptions};

use super::execute::{TestProblem, list_checked_values};
use super::file::TestFile;

/// Asks the default model whether the values are as the test says. Returns what the model used.
pub(super) async fn ask_judge(
    engine: &Engine,
    test: &TestFile,
    plan: &Arc<Plan>,
    outcome: &RunOutcome,
    problems: &mut Vec<TestProblem>,
) -> Usage {
    let mut used = Usage::none();
    for (place, value, expectations) in list_checked_values(test, plan, outcome) {
        let Some(value) = value else { continue };
        for question in expectations.iter().filter_map(|expectation| expectation.judge.as_deref()) {
            let (answer, usage) = ask_model(engine, plan, question, &value).await;
            used.add(&usage);
            match answer {
                Ok(answer) if is_yes(&answer) => {}
                Ok(answer) => problems.push(TestProblem {
                    place: place.clone(),
                    message: format!("a model does not answer yes to {question:?}"),
                    expected: Some("yes".to_owned()),
                    found: Some(answer),
                }),
                Err(message) => {
                    problems.push(TestProblem { place: place.clone(), message, expected: None, found: None })
                }
            }
        }
    }
    used
}

fn is_yes(answer: &str) -> bool {
    answer.trim_start_matches(|c: char| !c.is_alphanumeric()).to_lowercase().starts_with("yes")
}

async fn ask_model(engine: &Engine, plan: &Plan, question: &str, value: &Value) -> (Result<String, String>, Usage) {
    let text = render::render_text(value, TextStyle::Json);
    let prompt = format!("Answer with yes or no, and give the reason.\n\nQuestion: {question}\n\nText:\n{text}");
    let generate = Generate {
        model: None,
        system: None,
        thread: None,
        messages: vec![(Role::User, Data::Text(Template::from_literal(&prompt)))],
        schema: None,
        options: GenerateOptions::default(),
        computed: None,
    };
    let inputs = Inputs::Named { declared: Vec::new(), defaults: Map::new(), accepts_others: true };
    let root = Step::new(Key::numbered_key("judge", 1), Leaf::Generate(generate));
    let plan = Arc::new(Plan { inputs, root, functions: Vec::new(), thread: None, ..plan.clone() });
    let start = StartOptions::new(plan.clone(), Hash::of_bytes(b"judge"), Map::new().into(), "local");
    let outcome = match engine.start_run(start) {
        Ok(run) => run.drive_to_end().await,
        Err(error) => return (Err(error.to_string()), Usage::none()),
    };
    let answer = match outcome.find_error() {
        Some(error) => Err(format!("the model that judges failed: {}", error.message)),
        None => {
            let output = outcome.state.steps().first().and_then(|step| step.output.clone()).unwrap_or_default();
            Ok(render::render_text(&output, TextStyle::Json))
        }
    };
    (answer, outcome.state.usage)
}
