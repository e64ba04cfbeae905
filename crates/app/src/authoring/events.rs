//! Converts the journal of an authoring run into AgentFlow's stream events: its names and fields, plus time and cost.

use std::collections::BTreeMap;

use flowloom_core::chat::Usage;
use flowloom_core::event::{Event, Record};
use flowloom_core::path::Path;
use flowloom_core::status::Status;
use flowloom_core::value::{Map, Value};

use crate::authoring::agentflow_event::{AgentFlowEvent, build_fields};
use crate::runs::summary;

/// Converts journal records, starting with the first, into stream events.
#[derive(Default)]
pub struct AuthoringEvents {
    /// Usage of each stage.
    used: BTreeMap<String, Usage>,
    /// Whether the final event was emitted.
    is_over: bool,
    /// The suggested ids of the required blocks that have not passed their trials.
    missing: Vec<String>,
    /// The required block that is being written.
    writing: Option<String>,
}

impl AuthoringEvents {
    /// Converts the next record; `None` if it has no event.
    pub fn convert(&mut self, record: &Record) -> Option<AgentFlowEvent> {
        match &record.event {
            Event::StepFinished { usage: Some(usage), .. } => {
                self.used.entry(stage_of(&record.path)).or_insert_with(Usage::none).add(usage);
                None
            }
            Event::Progress { name, data } => {
                let mut data = data.as_map().cloned().unwrap_or_default();
                self.note_blocks(name, &data);
                if matches!(&**name, "complete" | "error") {
                    self.is_over = true;
                    data.insert("run_id".into(), record.run.to_string().into());
                    data.insert("usage".into(), self.usage());
                }
                Some(AgentFlowEvent::new(name.clone(), record.at, data))
            }
            // A run that was cancelled or ran out of budget emitted no final event itself.
            Event::RunFinished { error, status, failed, .. } if !self.is_over && *status != Status::Succeeded => {
                let code = error.as_ref().map_or(Value::Null, |error| error.code.to_string().into());
                let why = error.as_ref().map_or_else(|| status.name().to_owned(), |error| error.message.clone());
                let data = build_fields([
                    ("run_id", record.run.to_string().into()),
                    ("stage", failed.as_ref().map_or(Value::Null, |path| stage_of(path).into())),
                    ("code", code),
                    ("error", why.into()),
                    ("missing_blocks", Value::list(self.missing.iter().map(|id| id.as_str().into()).collect())),
                    ("usage", self.usage()),
                ]);
                self.is_over = true;
                Some(AgentFlowEvent::new("error", record.at, data))
            }
            _ => None,
        }
    }

    /// Notes which required blocks are missing, for an end that no stage reports.
    fn note_blocks(&mut self, name: &str, data: &Map) {
        let id = || data.get("suggested_id").and_then(Value::as_str).map(str::to_owned);
        match name {
            // A retried stage reports its blocks again.
            "decompose_blocks" => self.missing.clear(),
            "search_missing" => self.missing.extend(id()),
            "creating_block" => self.writing = id(),
            "block_test_passed" => {
                let written = self.writing.take();
                let position = self.missing.iter().position(|id| Some(id) == written.as_ref());
                position.map(|position| self.missing.remove(position));
            }
            _ => {}
        }
    }

    /// The usage in total and by stage.
    pub fn usage(&self) -> Value {
        let mut all = Usage::none();
        self.used.values().for_each(|usage| all.add(usage));
        let stages = self.used.iter().map(|(stage, usage)| (stage.as_str(), summary::usage_to_value(usage)));
        let mut map = summary::usage_to_value(&all).as_map().cloned().unwrap_or_default();
        map.insert("stages".into(), Value::map(stages));
        map.into()
    }
}

/// The name of the stage that a path belongs to.
fn stage_of(path: &Path) -> String {
    path.as_str().split('/').nth(1).unwrap_or_default().to_owned()
}
