//! The events of an authoring, read from its run's record: names and fields as AgentFlow's stream has them, with the time
//! and what it cost.

use std::collections::BTreeMap;

use flowloom_core::event::{Event, Record};
use flowloom_core::path::Path;
use flowloom_core::request::Usage;
use flowloom_core::status::Status;
use flowloom_core::value::Value;

use crate::authoring::happened::{Happened, fields};
use crate::runs::summary;

/// Reads a record from its beginning.
#[derive(Default)]
pub struct Telling {
    /// What each stage used.
    used: BTreeMap<String, Usage>,
    /// Whether the last word was said.
    is_over: bool,
}

impl Telling {
    /// What the next event of the record means to who follows the authoring.
    pub fn hear(&mut self, record: &Record) -> Option<Happened> {
        match &record.event {
            Event::StepFinished { usage: Some(usage), .. } => {
                self.used.entry(stage_of(&record.path)).or_insert_with(Usage::none).add(usage);
                None
            }
            Event::Told { name, data } => {
                let mut data = data.as_map().cloned().unwrap_or_default();
                if matches!(&**name, "complete" | "error") {
                    self.is_over = true;
                    data.insert("run_id".into(), record.run.to_string().into());
                    data.insert("usage".into(), self.usage());
                }
                Some(Happened::new(name.clone(), record.at, data))
            }
            // One that was cancelled, or had no budget left, has said nothing.
            Event::RunFinished { error, status, .. } if !self.is_over && *status != Status::Succeeded => {
                let code = error.as_ref().map_or(Value::Null, |error| error.code.to_string().into());
                let why = error.as_ref().map_or_else(|| status.name().to_owned(), |error| error.message.clone());
                let data = fields([
                    ("run_id", record.run.to_string().into()),
                    ("code", code),
                    ("error", why.into()),
                    ("missing_blocks", Value::list(Vec::new())),
                    ("usage", self.usage()),
                ]);
                self.is_over = true;
                Some(Happened::new("error", record.at, data))
            }
            _ => None,
        }
    }

    /// What was used: altogether, and by each stage.
    pub fn usage(&self) -> Value {
        let mut all = Usage::none();
        self.used.values().for_each(|usage| all.add(usage));
        let stages = self.used.iter().map(|(stage, usage)| (stage.as_str(), summary::usage(usage)));
        let mut map = summary::usage(&all).as_map().cloned().unwrap_or_default();
        map.insert("stages".into(), Value::map(stages));
        map.into()
    }
}

/// The stage that a path is in.
fn stage_of(path: &Path) -> String {
    path.as_str().split('/').nth(1).unwrap_or_default().to_owned()
}
