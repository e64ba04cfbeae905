//! What is reported as kept sends the same, also where other parts of the definition are lost, and where steps fail.

use std::collections::{BTreeMap, HashSet};

use conformance::{CaseDefinition, StepRequest, observe_requests, observe_run};
use flowloom_convert::{Conversion, Fate};
use flowloom_core::diagnostic::Span;
use flowloom_core::expr::Expr;
use flowloom_core::plan::{Format, Inputs, Plan};
use flowloom_core::status::Status;
use flowloom_core::value::{Map, Value};
use flowloom_formats::{find_format, formats};

use crate::subjects::{Subject, all_subjects, has_plain_inputs, map_inputs};

/// The kinds of whole steps, as reports name them.
const STEP_KINDS: [&str; 8] =
    ["model call", "request", "page", "function call", "memory access", "question", "block", "loop"];

/// Lower bounds for the number of compared requests of steps that are kept, by whether something else is lost.
const MIN_COMPARED: [usize; 2] = [35, 6];

/// A world in which every model answers the same, so that what is lost before a step does not change its request.
fn constant_world(subject: &Subject, answer: &str) -> Value {
    let mut case = subject.case.as_map().cloned().unwrap_or_default();
    case.insert("mock_llm".into(), Value::list(vec![answer.into(); 60]));
    case.into()
}

/// Answers with which conditions are false, and with which they are true.
fn list_answers(plan: &Plan) -> Vec<String> {
    let mut texts = Vec::new();
    plan.root.visit(&mut |step| {
        if let Some(Expr::Contains(_, text)) = &step.condition {
            texts.push(text.to_string());
        }
    });
    let no = "An answer.".to_owned();
    if texts.is_empty() { vec![no] } else { vec![no, texts.join(" ")] }
}

/// The keys of the steps at the places of everything that is kept as a whole.
fn list_kept_keys(plan: &Plan, conversion: &Conversion) -> HashSet<String> {
    let is_step = |construct: &str| STEP_KINDS.contains(&construct);
    let kept: Vec<Span> = conversion
        .findings
        .iter()
        .filter(|finding| finding.fate == Fate::Kept && is_step(finding.construct))
        .map(|finding| finding.span)
        .collect();
    let mut keys = HashSet::new();
    plan.root.visit(&mut |step| {
        if kept.contains(&step.span) {
            keys.insert(step.key.as_str().to_owned());
        }
    });
    keys
}

fn declared_names(plan: &Plan) -> impl Iterator<Item = &str> {
    let declared = match &plan.inputs {
        Inputs::Named { declared, .. } => declared.as_slice(),
        Inputs::Whole(_) => &[],
    };
    declared.iter().map(|input| input.name.as_str())
}

/// How often each request was sent.
fn count_requests<'r>(requests: impl Iterator<Item = &'r StepRequest>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    requests.for_each(|request| *counts.entry(request.text.clone()).or_default() += 1);
    counts
}

/// The number of requests of kept steps that the result sends too; an error lists those that it does not send.
fn compare_kept(subject: &Subject, to: Format, conversion: &Conversion) -> Result<usize, String> {
    let keys = list_kept_keys(&subject.plan, conversion);
    let Some(text) = conversion.text.as_ref().filter(|_| !keys.is_empty()) else { return Ok(0) };
    let Some(plan) = subject.converted(to, text).compile().plan else { return Ok(0) };
    let inputs = &subject.definition.input;
    // Defaults can be lost, and then only runs without these inputs differ.
    let is_given = declared_names(&subject.plan).all(|name| inputs.get(name).is_some());
    if !is_given || !has_plain_inputs(&subject.plan, inputs) {
        return Ok(0);
    }
    let mut compared = 0;
    for answer in list_answers(&subject.plan) {
        let case = constant_world(subject, &answer);
        let Some(before) = observe_requests(&case, &subject.plan, inputs.clone()) else { continue };
        let Some(after) = observe_requests(&case, &plan, map_inputs(&subject.plan, &plan, inputs)) else { continue };
        // Another end is due to what is lost.
        if before.status != after.status {
            continue;
        }
        let is_kept = |request: &&StepRequest| request.keys().any(|key| keys.contains(key));
        let wanted = count_requests(before.requests.iter().filter(is_kept));
        let sent = count_requests(after.requests.iter());
        for (request, count) in wanted {
            compared += count;
            if sent.get(&request).copied().unwrap_or_default() < count {
                return Err(format!("{} to {to}: {request} is not sent\n{sent:#?}\n{text}", subject.id));
            }
        }
    }
    Ok(compared)
}

#[test]
fn kept_steps_send_the_same_whatever_is_lost() {
    let mut failed = Vec::new();
    let mut compared = [0, 0];
    for subject in all_subjects() {
        for to in formats().filter(|to| *to != subject.plan.format) {
            let conversion = subject.convert(to);
            match compare_kept(&subject, to, &conversion) {
                Ok(count) => compared[usize::from(conversion.has_losses())] += count,
                Err(problem) => failed.push(problem),
            }
        }
    }
    assert!(failed.is_empty(), "{} failed\n{}", failed.len(), failed.join("\n"));
    let is_enough = compared.iter().zip(MIN_COMPARED).all(|(count, least)| *count >= least);
    assert!(is_enough, "only {compared:?} requests of kept steps were compared");
}

/// A definition in a world in which something fails.
fn failing_subject(format: &str, text: &str, case: &str) -> Subject {
    let case = flowloom_core::json::parse_value(case).expect("JSON");
    let functions = vec!["crm::note".to_owned()];
    let definition = CaseDefinition {
        input: "lamps".into(),
        functions,
        ..CaseDefinition::new(find_format(format).expect("a format"), "failing.json", text.to_owned())
    };
    let plan = definition.compile().plan.unwrap_or_else(|| panic!("{:?}", definition.compile().diagnostics));
    Subject { id: "failing".into(), case, definition, plan }
}

fn convert_to(subject: &Subject, to: &str) -> (Conversion, Plan) {
    let to = find_format(to).expect("a format");
    let conversion = subject.convert(to);
    let text = conversion.text.clone().unwrap_or_else(|| panic!("{:#?}", conversion.findings));
    let plan = subject.converted(to, &text).compile().plan.expect("valid");
    (conversion, plan)
}

/// The messages of everything with this fate.
fn messages(conversion: &Conversion, fate: Fate) -> Vec<&str> {
    let found = conversion.findings.iter().filter(|finding| finding.fate == fate);
    found.map(|finding| finding.message.as_str()).collect()
}

/// A pipeline of calls of a function: each node with the node that it reads, if it does.
fn pipeline_text(nodes: &[Option<usize>]) -> String {
    let node = |(index, needed): (usize, &Option<usize>)| {
        let text = needed.map_or("first".to_owned(), |node| format!("{{{{n{node}.answer}}}}"));
        let inputs = Value::map([("prompt", Value::from(text))]);
        Value::map([("id", Value::from(format!("n{index}"))), ("block_id", "note".into()), ("inputs", inputs)])
    };
    let nodes = nodes.iter().enumerate().map(node).collect();
    let block = Value::map([
        ("id", Value::from("note")),
        ("execution_type", "function".into()),
        ("function_id", "crm::note".into()),
    ]);
    let pipeline = Value::map([("id", Value::from("p")), ("name", "P".into()), ("nodes", Value::list(nodes))]);
    flowloom_core::render::to_json(&Value::map([("pipeline", pipeline), ("blocks", Value::list(vec![block]))]))
}

#[test]
fn a_failed_node_of_a_pipeline_ends_the_run_of_a_step_list() {
    // The nodes, and those whose failure is reported as another one.
    let cases: [(&[Option<usize>], &[&str]); 4] =
        [(&[None], &[]), (&[None, Some(0)], &[]), (&[None, None], &["n0"]), (&[None, Some(0), Some(0)], &["n1"])];
    for (nodes, expected) in cases {
        let case = r#"{"script": {"crm::note": [{"throw": "it is closed"}]}}"#;
        let subject = failing_subject("pipeline", &pipeline_text(nodes), case);
        for to in ["steps", "graph", "agent"] {
            let (conversion, plan) = convert_to(&subject, to);
            let lost = messages(&conversion, Fate::Lost);
            let others: Vec<&str> =
                lost.iter().filter_map(|message| message.strip_prefix("the failure of ")?.split(':').next()).collect();
            assert_eq!(others, expected, "{nodes:?} to {to}: {lost:?}");
            assert!(!lost.iter().any(|message| message.contains("may fail")), "{lost:?}");
            if to == "steps" && expected.is_empty() {
                let observe = |plan| observe_run(&subject.case, plan, "lamps".into()).expect("it ends");
                let [before, after] = [&subject.plan, &plan].map(observe);
                assert_eq!((before.status, after.status), (Status::Failed, Status::Failed), "{nodes:?}");
                assert_eq!([before.requests.len(), after.requests.len()], [1, 1], "{before:?} {after:?}");
            }
        }
    }
}

/// A step list whose first step has these properties, and whose second one has none.
fn steps_text(properties: &str) -> String {
    format!(
        r#"{{"id": "s", "name": "S", "description": "d", "steps": [
        {{"name": "a", "functionId": "agent::chat", "mode": "sequential", "promptTemplate": "A.", "outputVar": "a"{properties}}},
        {{"name": "b", "functionId": "agent::chat", "mode": "sequential", "promptTemplate": "B.", "outputVar": "b"}}]}}"#
    )
}

#[test]
fn a_step_that_fails_does_not_go_on_in_another_format_unless_it_is_reported() {
    // The properties of the first step, and what is lost of them.
    let cases = [
        ("", None),
        (r#", "errorMode": "skip""#, Some("that a may fail")),
        (r#", "errorMode": "retry", "maxRetries": 1"#, Some("the retries of a")),
    ];
    for (properties, lost) in cases {
        let case = r#"{"mock_llm": [{"error": "busy"}, "fine", "fine"]}"#;
        let subject = failing_subject("steps", &steps_text(properties), case);
        for to in ["flow", "markdown", "pipeline"] {
            let (conversion, plan) = convert_to(&subject, to);
            let all = messages(&conversion, Fate::Lost);
            assert_eq!(all.iter().any(|message| lost.is_some_and(|lost| message.contains(lost))), lost.is_some());
            let kept = messages(&conversion, Fate::Kept);
            assert_eq!(kept.contains(&"the step a"), lost.is_none(), "{to}{properties}: {kept:?} {all:?}");
            assert!(kept.contains(&"the step b"), "{to}{properties}: {kept:?} {all:?}");
            let inputs = |plan: &Plan| map_inputs(&subject.plan, plan, &"lamps".into());
            let observe = |plan: &Plan| observe_run(&subject.case, plan, inputs(plan)).expect("it ends");
            let (before, after) = (observe(&subject.plan), observe(&plan));
            let is_same = before.status == after.status && before.model_calls == after.model_calls;
            assert_eq!(is_same, lost.is_none(), "{to}{properties}: {before:?} {after:?}");
        }
    }
}

#[test]
fn a_condition_that_is_kept_chooses_the_same_steps() {
    for (answer, count) in [("a complaint", 2), ("praise", 1)] {
        let text = r#"{"id": "s", "name": "S", "description": "d", "steps": [
            {"name": "a", "functionId": "agent::chat", "mode": "sequential", "promptTemplate": "About {{input}}.",
             "outputVar": "a", "errorMode": "fail"},
            {"name": "b", "functionId": "agent::chat", "errorMode": "fail", "mode": "conditional", "condition": "complaint",
             "promptTemplate": "B.", "outputVar": "b"}]}"#;
        let mut case = Map::new();
        case.insert("mock_llm".into(), Value::list(vec![answer.into(), "fine".into()]));
        let subject = Subject { case: case.into(), ..failing_subject("steps", text, "{}") };
        let (conversion, plan) = convert_to(&subject, "markdown");
        assert!(messages(&conversion, Fate::Kept).contains(&"the step a"), "{:#?}", conversion.findings);
        let all = messages(&conversion, Fate::Lost);
        assert!(!all.iter().any(|message| message.starts_with("the condition of")), "{all:?}");
        let observe = |plan: &Plan, inputs| observe_run(&subject.case, plan, inputs).expect("it ends").model_calls;
        let before = observe(&subject.plan, "lamps".into());
        assert_eq!(before, observe(&plan, map_inputs(&subject.plan, &plan, &"lamps".into())), "{answer}");
        assert_eq!(before.len(), count, "{answer}");
    }
}
