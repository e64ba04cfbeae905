//! The definitions in recorded cases, for tests that do something else with a definition than to judge its run.

use std::collections::BTreeMap;

use flowloom_core::plan::{Format, Plan};
use flowloom_core::render;
use flowloom_core::value::Value;
use flowloom_formats::{Compiled, Sources, compile, flow, graph, markdown, pipeline, steps};

use crate::{CaseKind, TestCase};

/// The definition of a case.
#[derive(Clone)]
pub struct CaseDefinition {
    /// Its format.
    pub format: Format,
    /// The path of the definition among the files.
    pub entry: String,
    /// All files.
    pub files: BTreeMap<String, Vec<u8>>,
    /// The functions that the definition may call.
    pub functions: Vec<String>,
    /// The input of the run.
    pub input: Value,
}

impl CaseDefinition {
    /// A definition in one file.
    pub fn new(format: Format, entry: &str, text: String) -> CaseDefinition {
        let files = [(entry.to_owned(), text.into_bytes())].into();
        CaseDefinition { format, entry: entry.to_owned(), files, functions: Vec::new(), input: Value::Null }
    }

    /// The text of the definition.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.files[&self.entry]).unwrap_or_default()
    }

    /// The same definition with another text.
    pub fn with_text(&self, text: String) -> CaseDefinition {
        let mut changed = self.clone();
        changed.files.insert(self.entry.clone(), text.into_bytes());
        changed
    }

    /// Everything that compiling the definition may read.
    pub fn sources(&self) -> Sources {
        Sources {
            files: self.files.clone(),
            functions: self.functions.clone(),
            configured: self.functions.clone(),
            source_bytes: 1 << 20,
            ..Sources::default()
        }
    }

    /// Compiles the definition.
    pub fn compile(&self) -> Compiled {
        compile(&self.entry, &self.sources(), Some(self.format))
    }
}

impl TestCase {
    /// The definitions of the case; empty if it is not about a definition.
    pub fn definitions(&self) -> Vec<CaseDefinition> {
        let part = |key: &str| self.content.get(key).cloned().unwrap_or_default();
        let definition = part("definition");
        let of_pipeline = |body: &Value| {
            let blocks = definition.get("blocks").cloned().unwrap_or_default();
            let file = Value::map([("pipeline", body.clone()), ("blocks", blocks)]);
            CaseDefinition::new(pipeline::FORMAT, "pipeline.json", render::to_json(&file))
        };
        match self.case_kind() {
            CaseKind::Flow => {
                let made = CaseDefinition::new(flow::FORMAT, "flow.json", render::to_json(&part("flow")));
                vec![CaseDefinition { input: part("args"), ..made }]
            }
            CaseKind::StepsRun => {
                let listed = definition.get("steps").and_then(Value::as_list).unwrap_or_default();
                let functions = listed.iter().filter_map(|step| step.get("functionId")?.as_str()).map(str::to_owned);
                let made = CaseDefinition::new(steps::FORMAT, "steps.json", render::to_json(&definition));
                vec![CaseDefinition { functions: functions.collect(), input: part("input"), ..made }]
            }
            CaseKind::Graph => {
                let file = Value::map([("workflow", definition), ("agents", part("agents"))]);
                let made = CaseDefinition::new(graph::FORMAT, "graph.json", render::to_json(&file));
                vec![CaseDefinition { input: part("input"), ..made }]
            }
            CaseKind::Pipeline => definition.get("pipeline").into_iter().map(of_pipeline).collect(),
            CaseKind::PipelineMulti => {
                let all = definition.get("pipelines").and_then(Value::as_map);
                all.into_iter().flat_map(|all| all.values()).map(of_pipeline).collect()
            }
            CaseKind::MarkdownRun | CaseKind::MarkdownCheck => {
                let files = part("files").as_map().cloned().unwrap_or_default();
                let bytes = |text: &Value| text.as_str().unwrap_or_default().as_bytes().to_vec();
                let made = CaseDefinition::new(markdown::FORMAT, "main.mdx", String::new());
                let files = files.iter().map(|(name, text)| (name.to_string(), bytes(text))).collect();
                vec![CaseDefinition { files, input: part("inputs"), ..made }]
            }
            CaseKind::Registered(format) => {
                let text = definition.as_str().map_or_else(|| render::to_json(&definition), str::to_owned);
                let file = self.content.get("file").and_then(Value::as_str).unwrap_or("definition.json");
                vec![CaseDefinition { input: part("input"), ..CaseDefinition::new(format, file, text) }]
            }
            CaseKind::Resolver
            | CaseKind::Sources
            | CaseKind::Clarify
            | CaseKind::Thinker
            | CaseKind::StepsPage
            | CaseKind::Unknown(_) => Vec::new(),
        }
    }
}

/// A plan as text, without places in the source. Equal texts mean equal plans.
pub fn describe_plan(plan: &Plan) -> String {
    let mut text = format!("{plan:?}");
    for (start, end) in [("Span { start: ", " }"), ("ExpressionPlace { at: ", ", source")] {
        let mut out = String::with_capacity(text.len());
        let mut rest = text.as_str();
        while let Some(found) = rest.find(start) {
            out.push_str(&rest[..found + start.len()]);
            rest = &rest[found + start.len()..];
            rest = rest.find(end).map_or("", |at| &rest[at..]);
        }
        out.push_str(rest);
        text = out;
    }
    text
}
