//! The differences between two definitions by what they mean, also between formats.

use flowloom_core::path::Path;
use flowloom_core::plan::{Format, Input, Inputs, Plan};
use flowloom_core::render;
use flowloom_formats::flow;
use serde::Serialize;

use super::FieldChange;
use super::called::{ComparedDefinition, WorkflowChange, compare_called};
use super::matching::{DescribedStep, describe_steps, find_moved, match_steps};

/// The differences between two definitions.
#[derive(Debug, Serialize)]
pub struct DefinitionDiff {
    /// Whether they mean the same.
    pub same: bool,
    /// The differences of the definitions as a whole.
    pub fields: Vec<FieldChange>,
    /// Inputs that differ, by name.
    pub inputs: Vec<InputChange>,
    /// Steps that differ, in the order of the second definition; removed steps come last.
    pub steps: Vec<StepChange>,
    /// Workflows that functions run, and that differ.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub workflows: Vec<WorkflowChange>,
}

/// An input that differs.
#[derive(Debug, Serialize)]
pub struct InputChange {
    /// Its name.
    pub name: String,
    /// The differences.
    pub fields: Vec<FieldChange>,
}

/// A step that differs.
#[derive(Debug, Serialize)]
pub struct StepChange {
    /// How it differs: `added` or `removed`, or some of `changed`, `moved` and `renamed`.
    pub changes: Vec<&'static str>,
    /// The kind of the step.
    pub kind: &'static str,
    /// Its path in the first definition.
    pub a: Option<Path>,
    /// Its path in the second definition.
    pub b: Option<Path>,
    /// Its differences, or all of its fields if it was added or removed.
    pub fields: Vec<FieldChange>,
}

/// Compares two definitions, with the workflows that their functions run.
pub fn compare_definitions(a: &ComparedDefinition, b: &ComparedDefinition) -> DefinitionDiff {
    let workflows = compare_called(a, b);
    let diff = compare_plans(&a.plan, &b.plan).with_active(a.is_active, b.is_active);
    DefinitionDiff { same: diff.same && workflows.is_empty(), workflows, ..diff }
}

impl DefinitionDiff {
    /// Adds whether agents may call the definitions, if it differs and both have a switch for that ([`find_active`]).
    pub fn with_active(mut self, before: Option<bool>, after: Option<bool>) -> DefinitionDiff {
        if let (Some(before), Some(after)) = (before, after) {
            self.fields.extend(FieldChange::between("active", Some(before.to_string()), Some(after.to_string())));
            self.same &= self.fields.is_empty();
        }
        self
    }
}

/// Whether agents may call the definition in a text, if its format has a switch for that.
pub fn find_active(format: Format, text: &[u8]) -> Option<bool> {
    (format == flow::FORMAT).then(|| flow::is_text_active(&String::from_utf8_lossy(text)))
}

/// Compares two definitions whose functions are the same.
pub fn compare_plans(a: &Plan, b: &Plan) -> DefinitionDiff {
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let fields = [
        ("name", text(&a.name), text(&b.name)),
        ("description", text(&a.description), text(&b.description)),
        ("conversation", find_thread(a), find_thread(b)),
        ("variables", describe_variables(a), describe_variables(b)),
    ];
    // Formats write conversations differently.
    let is_across = a.format != b.format;
    let fields = fields.into_iter().filter(|(name, ..)| !is_across || *name != "conversation");
    let fields: Vec<FieldChange> =
        fields.filter_map(|(name, before, after)| FieldChange::between(name, before, after)).collect();
    let inputs = compare_inputs(a, b);
    let steps = compare_steps(&describe_steps(a, is_across), &describe_steps(b, is_across));
    let same = fields.is_empty() && inputs.is_empty() && steps.is_empty();
    DefinitionDiff { same, fields, inputs, steps, workflows: Vec::new() }
}

/// The variables that are set before the first step, and that are no inputs.
fn describe_variables(plan: &Plan) -> Option<String> {
    let Inputs::Named { declared, defaults, .. } = &plan.inputs else { return None };
    let is_own = |name: &str| !declared.iter().any(|input| input.name == name);
    let own = defaults.iter().filter(|(name, _)| is_own(name));
    let lines: Vec<String> = own.map(|(name, value)| format!("{name}: {}", render::to_json(value))).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

fn find_thread(plan: &Plan) -> Option<String> {
    plan.thread.as_deref().map(str::to_owned)
}

fn compare_inputs(a: &Plan, b: &Plan) -> Vec<InputChange> {
    let (declared_a, declared_b) = (list_inputs(a), list_inputs(b));
    let mut names: Vec<&String> = declared_a.iter().chain(&declared_b).map(|input| &input.name).collect();
    let mut seen = std::collections::HashSet::new();
    names.retain(|name| seen.insert(*name));
    let find = |inputs: &[Input], name: &str| inputs.iter().find(|input| input.name == name).map(describe_input);
    let change = |name: &String| {
        let (before, after) = (find(&declared_a, name), find(&declared_b, name));
        let fields: Vec<_> = FieldChange::between("input", before, after).into_iter().collect();
        (!fields.is_empty()).then(|| InputChange { name: name.clone(), fields })
    };
    names.into_iter().filter_map(change).collect()
}

fn list_inputs(plan: &Plan) -> Vec<Input> {
    match &plan.inputs {
        Inputs::Named { declared, .. } => declared.clone(),
        Inputs::Whole(name) => vec![Input { name: name.to_string(), ..Input::default() }],
    }
}

fn describe_input(input: &Input) -> String {
    let mut text = format!("{:?}", input.kind).to_lowercase();
    if input.required {
        text += ", required";
    }
    if let Some(default) = &input.default {
        text += &format!(", default {}", render::to_json(default));
    }
    if let Some(description) = &input.description {
        text += &format!(", {description}");
    }
    text
}

fn compare_steps(a: &[DescribedStep], b: &[DescribedStep]) -> Vec<StepChange> {
    let pairs = match_steps(a, b);
    let moved = find_moved(&pairs);
    let mut by_b: Vec<Option<(usize, bool)>> = vec![None; b.len()];
    let mut is_kept = vec![false; a.len()];
    for ((in_a, in_b), moved) in pairs.iter().zip(moved) {
        by_b[*in_b] = Some((*in_a, moved));
        is_kept[*in_a] = true;
    }
    let mut changes = Vec::new();
    for (step, paired) in b.iter().zip(by_b) {
        changes.extend(match paired {
            Some((in_a, moved)) => compare_step(&a[in_a], step, moved),
            None => Some(whole_step("added", None, Some(step))),
        });
    }
    let removed = a.iter().zip(is_kept).filter(|(_, kept)| !kept);
    changes.extend(removed.map(|(step, _)| whole_step("removed", Some(step), None)));
    changes
}

/// How a step that both definitions have differs; `None` if it does not.
fn compare_step(a: &DescribedStep, b: &DescribedStep, is_moved: bool) -> Option<StepChange> {
    let mut fields = Vec::new();
    for (name, before) in &a.fields {
        let after = b.fields.iter().find(|(other, _)| other == name).map(|(_, text)| text.clone());
        fields.extend(FieldChange::between(name, Some(before.clone()), after));
    }
    for (name, after) in &b.fields {
        if !a.fields.iter().any(|(other, _)| other == name) {
            fields.push(FieldChange { name, before: None, after: Some(after.clone()) });
        }
    }
    let mut changes = Vec::new();
    if !fields.is_empty() {
        changes.push("changed");
    }
    if is_moved || a.outer_place() != b.outer_place() {
        changes.push("moved");
    }
    if a.place != b.place && a.outer_place() == b.outer_place() {
        changes.push("renamed");
    }
    let (path_a, path_b) = (Some(a.path.clone()), Some(b.path.clone()));
    (!changes.is_empty()).then_some(StepChange { changes, kind: b.kind, a: path_a, b: path_b, fields })
}

fn whole_step(change: &'static str, a: Option<&DescribedStep>, b: Option<&DescribedStep>) -> StepChange {
    let text = |step: Option<&DescribedStep>, name: &str| {
        step.and_then(|step| step.fields.iter().find(|(other, _)| *other == name).map(|(_, text)| text.clone()))
    };
    let all = a.or(b).map(|step| (step.kind, step.fields.as_slice()));
    let (kind, fields) = all.unwrap_or(("step", &[]));
    let fields = fields.iter().map(|(name, _)| FieldChange { name, before: text(a, name), after: text(b, name) });
    StepChange {
        changes: vec![change],
        kind,
        a: a.map(|step| step.path.clone()),
        b: b.map(|step| step.path.clone()),
        fields: fields.collect(),
    }
}
