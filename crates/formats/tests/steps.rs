//! Prompts and files of step lists.

use flowloom_core::plan::{Composite, Plan, StepKind};
use flowloom_formats::{Compiled, Sources, compile};

fn compile_text(file: &str, text: &str) -> Compiled {
    let files = [(file.to_owned(), text.as_bytes().to_vec())];
    let sources = Sources { files: files.into(), source_bytes: 1 << 20, ..Sources::default() };
    compile(file, &sources, None)
}

/// The references of all steps.
fn list_references(plan: &Plan) -> String {
    let StepKind::Composite(Composite::Sequence(steps)) = &plan.root.kind else { panic!("no sequence") };
    format!("{steps:?}")
}

#[test]
fn empty_prompt_is_the_default() {
    let steps = r#"{"name": "x", "steps": [
        {"name": "a", "functionId": "agent::chat", "mode": "fanout", "promptTemplate": ""},
        {"name": "b", "functionId": "agent::chat", "mode": "collect", "promptTemplate": ""}]}"#;
    let compiled = compile_text("x.json", steps);
    let plan = compiled.plan.unwrap_or_else(|| panic!("{:?}", compiled.diagnostics));
    let references = list_references(&plan);
    assert!(references.contains("{{input}}") && references.contains("{{__fanout}}"), "{references}");
}

#[test]
fn variable_with_a_dot_is_referred_to() {
    let steps = r#"{"name": "x", "steps": [
        {"name": "a", "functionId": "agent::chat", "mode": "sequential", "outputVar": "a.b"},
        {"name": "b", "functionId": "agent::chat", "mode": "sequential", "promptTemplate": "{{a.b}} {{a.b.c}}"}]}"#;
    let compiled = compile_text("x.json", steps);
    assert!(compiled.diagnostics.is_empty(), "{:?}", compiled.diagnostics);
    let references = list_references(&compiled.plan.expect("a plan"));
    assert!(references.contains(r#"name: "a.b", path: []"#), "{references}");
    assert!(references.contains(r#"name: "a.b", path: [Field("c")]"#), "{references}");
}

#[test]
fn yaml_is_named() {
    let compiled = compile_text("x.yaml", "name: x\nsteps:\n  - name: a\n");
    let [problem] = &compiled.diagnostics[..] else { panic!("{:?}", compiled.diagnostics) };
    assert!(problem.message.contains("YAML") && problem.help.as_deref().is_some_and(|help| help.contains("yq")));
    assert!(compile_text("x.yaml", r#"{"name": "x", "steps": []}"#).format.is_some());
}
