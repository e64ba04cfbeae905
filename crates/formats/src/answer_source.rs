//! Determines the step whose text is the output of a run, word for word, if that is known before the run: its text can
//! then be streamed. Otherwise the text is known only when the run has ended.

use flowloom_core::chat::content;
use flowloom_core::path::{Key, Path};
use flowloom_core::plan::{AppendMessage, Composite, Leaf, OnError, Plan, Step, StepKind};
use flowloom_core::value::Value;

/// The step whose text is the output of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct AnswerSource {
    /// The path of the model call.
    pub path: Path,
    /// The text that precedes the step's text in the output.
    pub before: String,
}

/// Of a list of steps, where the output is what the last step gave, or the first that ends the run by itself.
pub(crate) fn of_last_step(plan: &Plan) -> Option<AnswerSource> {
    let StepKind::Composite(Composite::Sequence(steps)) = &plan.root.kind else { return None };
    let ends =
        steps.iter().find(|step| matches!(step.kind, StepKind::Composite(Composite::Return(_)))).or(steps.last())?;
    let asks = if let StepKind::Composite(Composite::Return(step)) = &ends.kind { step } else { ends };
    is_single_text(asks).then(|| plain_source(Path::root().child_path(&ends.key)))
}

fn plain_source(path: Path) -> AnswerSource {
    AnswerSource { path, before: String::new() }
}

/// Whether the output of a step is the text of one model call. An answer parsed as JSON is rendered differently, and a
/// retried answer must not be streamed.
fn is_single_text(step: &Step) -> bool {
    let StepKind::Leaf(Leaf::Generate(generate)) = &step.kind else { return false };
    generate.schema.is_none() && step.policy.retry.is_none() && step.policy.on_error == OnError::Fail
}

/// The only answer of a document that runs nothing else: text precedes it, and nothing follows.
pub(crate) fn of_only_answer(plan: &Plan, inputs: &Value) -> Option<AnswerSource> {
    let StepKind::Composite(Composite::Sequence(phases)) = &plan.root.kind else { return None };
    let [phase] = phases.as_slice() else { return None };
    let StepKind::Composite(Composite::Sequence(steps)) = &phase.kind else { return None };
    let [before, asks, answer] = steps.as_slice() else { return None };
    let (
        StepKind::Composite(Composite::AppendMessage(message_step)),
        StepKind::Composite(Composite::AppendMessage(AppendMessage { in_transcript: true, .. })),
    ) = (&before.kind, &answer.kind)
    else {
        return None;
    };
    if !before.scripts.is_empty() || !is_single_text(asks) {
        return None;
    }
    let text = content::join_texts(&message_step.content.render_parts(&plan.initial_env(inputs)).ok()?);
    let before = if text.is_empty() { text } else { format!("{text}\n\n") };
    Some(AnswerSource { path: Path::root().child_path(&phase.key).child_path(&asks.key), before })
}

/// The only agent of a graph without further agents: it can only answer.
pub(crate) fn of_only_agent(plan: &Plan) -> Option<AnswerSource> {
    let StepKind::Composite(Composite::Machine(machine)) = &plan.root.kind else { return None };
    let entry = machine.nodes.get(machine.entry)?;
    let StepKind::Composite(Composite::Turn(turn)) = &entry.kind else { return None };
    let is_continued = machine.edges.iter().any(|edge| edge.from == machine.entry && edge.to.is_some());
    // An agent that can name an unknown destination may be called again.
    let is_asked_again = turn.router.as_ref().is_some_and(|router| !router.destinations.is_empty());
    if is_continued || is_asked_again || entry.policy.retry.is_some() {
        return None;
    }
    Some(plain_source(
        Path::root().child_path(&entry.key).visit_path(1).child_path(&Key::numbered_key("turn", 1)).iteration_path(0),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Sources, compile, find_answer_source};

    fn answer_source_of(name: &str, text: &str, inputs: Value) -> Option<(String, String)> {
        let files = [(name.to_owned(), text.as_bytes().to_vec())].into();
        let functions = vec!["agent::chat".to_owned()];
        let sources = Sources { files, functions, source_bytes: 1 << 20, ..Sources::default() };
        let compiled = compile(name, &sources, None);
        let plan = compiled.plan.unwrap_or_else(|| panic!("{:?}", compiled.diagnostics));
        find_answer_source(&plan, &inputs)
            .map(|answer_source| (answer_source.path.as_str().to_owned(), answer_source.before))
    }

    fn steps_source(error_mode: &str) -> Option<(String, String)> {
        let step = |name: &str, error_mode: &str| {
            format!(
                r#"{{"name": "{name}", "functionId": "agent::chat", "mode": "sequential", "errorMode": "{error_mode}", "promptTemplate": "x"}}"#
            )
        };
        let steps = format!("{}, {}", step("a", "fail"), step("b", error_mode));
        answer_source_of(
            "s.json",
            &format!(r#"{{"id": "s", "name": "s", "description": "d", "steps": [{steps}]}}"#),
            "x".into(),
        )
    }

    #[test]
    fn the_last_step_of_a_list_says_what_the_run_gives() {
        assert_eq!(steps_source("fail"), Some(("/b".to_owned(), String::new())));
        assert_eq!(steps_source("retry"), None, "what a first try says is not the answer");
        assert_eq!(steps_source("skip"), None, "if it fails, the step before it is the answer");
    }

    #[test]
    fn the_first_block_that_ends_a_flow_says_what_the_run_gives() {
        let block = |direct: bool| {
            format!(
                r#"{{"type": "llmInstruction", "config": {{"instruction": "x", "resultVariable": "r", "directOutput": {direct}}}}}"#
            )
        };
        let flow = |first, last| {
            let text = format!(r#"{{"name": "f", "steps": [{}, {}]}}"#, block(first), block(last));
            answer_source_of("f.json", &text, Value::Null).map(|(path, _)| path)
        };
        let paths = [flow(true, false), flow(false, false)];
        assert!(paths[0].is_some() && paths[1].is_some() && paths[0] != paths[1], "{paths:?}");
    }

    #[test]
    fn a_document_with_one_answer_begins_with_its_text() {
        let document = "---\ninput:\n  topic: {type: text, message: 'What?'}\n---\n\nSay {topic}.\n\n<GenText as=\"a\" model=\"m\" />\n";
        let inputs = || Value::map([("topic", Value::from("hi"))]);
        assert_eq!(
            answer_source_of("d.mdx", document, inputs()),
            Some(("/phase~1/a".to_owned(), "Say hi.\n\n".to_owned()))
        );
        let more = format!("{document}\nAnd then?\n");
        assert_eq!(answer_source_of("d.mdx", &more, inputs()), None, "text stands behind the answer");
    }

    #[test]
    fn a_graph_speaks_while_only_one_agent_can() {
        let node = |id: &str| format!(r#"{{"id": "{id}", "nodeName": "{id}", "nodeType": "AGENT", "agentId": "a"}}"#);
        let graph = |nodes: &str, edges: &str| {
            let text = format!(
                r#"{{"workflow": {{"id": "w", "isConversational": true, "entrypointNodeId": "n", "nodes": [{nodes}], "edges": [{edges}]}}, "agents": [{{"id": "a"}}]}}"#
            );
            answer_source_of("g.json", &text, Value::Null).map(|(path, _)| path)
        };
        assert_eq!(graph(&node("n"), "").as_deref(), Some("/n#1/turn~1[0]"));
        let edge = r#"{"id": "e", "sourceNodeId": "n", "targetNodeId": "m", "conditionType": "ALWAYS"}"#;
        assert_eq!(graph(&format!("{}, {}", node("n"), node("m")), edge), None);
    }
}
