//! Questions about values that a model answers.

use std::sync::Arc;

use flowloom_core::chat::{GenerateOptions, Role, Usage};
use flowloom_core::expr::{Data, Template};
use flowloom_core::hash::Hash;
use flowloom_core::limits::Limits;
use flowloom_core::path::Key;
use flowloom_core::plan::{Generate, Inputs, Leaf, Plan, Step};
use flowloom_core::render::{self, TextStyle};
use flowloom_core::value::{Map, Value};
use flowloom_runtime::{Engine, StartOptions};

use super::execute::CheckedValue;
use super::outcome::{SkippedQuestion, TestProblem};

/// Asks models whether the values are as the test expects, within these limits. Returns what they used.
pub(super) async fn ask_judge(
    engine: &Engine,
    mut limits: Limits,
    plan: &Arc<Plan>,
    checked: &[CheckedValue<'_>],
    problems: &mut Vec<TestProblem>,
) -> Usage {
    let mut used = Usage::none();
    for checked in checked {
        let Some(value) = &checked.value else { continue };
        for expectation in checked.expectations {
            let Some(question) = expectation.judge.as_deref() else { continue };
            let Ok(part) = expectation.select_part(value) else { continue };
            let model = expectation.model.as_deref();
            let (answer, usage) = ask_model(engine, limits.clone(), plan, build_question(model, question, &part)).await;
            used.add(&usage);
            limits = limits.without(&usage);
            match answer {
                Ok(answer) if is_yes(&answer) => {}
                Ok(answer) => {
                    let problem =
                        TestProblem::new(&checked.place, format!("a model does not answer yes to {question:?}"));
                    problems.push(problem.with_texts("yes".to_owned(), answer));
                }
                Err(message) => problems.push(TestProblem::new(&checked.place, message)),
            }
        }
    }
    used
}

/// The questions that no model is asked, because the models are not live.
pub(super) fn list_questions(checked: &[CheckedValue<'_>]) -> Vec<SkippedQuestion> {
    let of = |checked: &CheckedValue<'_>| {
        let questions = checked.expectations.iter().filter_map(|expectation| expectation.judge.clone());
        questions.map(|question| SkippedQuestion { place: checked.place.clone(), question }).collect::<Vec<_>>()
    };
    checked.iter().flat_map(of).collect()
}

fn is_yes(answer: &str) -> bool {
    answer.trim_start_matches(|c: char| !c.is_alphanumeric()).to_lowercase().starts_with("yes")
}

fn build_question(model: Option<&str>, question: &str, value: &Value) -> Generate {
    let text = render::render_text(value, TextStyle::Json);
    let prompt = format!("Answer with yes or no, and give the reason.\n\nQuestion: {question}\n\nText:\n{text}");
    Generate {
        model: model.map(Template::from_literal),
        system: None,
        thread: None,
        messages: vec![(Role::User, Data::Text(Template::from_literal(&prompt)))],
        schema: None,
        options: GenerateOptions::default(),
        computed: None,
    }
}

async fn ask_model(
    engine: &Engine,
    limits: Limits,
    plan: &Plan,
    generate: Generate,
) -> (Result<String, String>, Usage) {
    let inputs = Inputs::Named { declared: Vec::new(), defaults: Map::new(), accepts_others: true };
    let root = Step::new(Key::numbered_key("judge", 1), Leaf::Generate(generate));
    let plan = Arc::new(Plan { inputs, root, functions: Vec::new(), thread: None, ..plan.clone() });
    let inputs = Map::new().into();
    let start = StartOptions { limits, ..StartOptions::new(plan.clone(), Hash::of_bytes(b"judge"), inputs, "local") };
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
