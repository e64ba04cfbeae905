//! Checksums of rows. Every read verifies them, so that damage is reported and never shown as data. A checksum covers the
//! place of its row (the run and the position, or the key) next to the content, so that it also finds a row that moved.

use flowloom_core::event::{ParentStep, RunProject};
use flowloom_core::hash::Hasher;
use flowloom_core::id::RunId;
use flowloom_core::trigger::RunTrigger;

/// The columns of an event that its checksum covers, next to its run and position.
pub(crate) struct EventColumns<'a> {
    pub(crate) at: u64,
    pub(crate) path: &'a str,
    pub(crate) attempt: u64,
    pub(crate) kind: &'a str,
    pub(crate) data: Option<&'a str>,
    /// Hash of an output that is stored on its own.
    pub(crate) output: Option<&'a str>,
}

impl EventColumns<'_> {
    pub(crate) fn checksum(&self, run: RunId, seq: u64) -> i64 {
        let mut hasher = Hasher::new();
        hasher.add_number(seq).add_number(self.at).add_number(self.attempt);
        add_run(&mut hasher, run).add_text(self.path).add_text(self.kind);
        add_optional(&mut hasher, self.data);
        add_optional(&mut hasher, self.output);
        truncate_hash(&mut hasher)
    }
}

/// The columns of a run that never change.
pub(crate) struct RunColumns<'a> {
    pub(crate) id: RunId,
    pub(crate) created_at: u64,
    pub(crate) format: &'a str,
    pub(crate) name: &'a str,
    pub(crate) user: &'a str,
    pub(crate) bundle: &'a str,
    pub(crate) workflow: Option<&'a str>,
    pub(crate) thread_key: Option<&'a str>,
    pub(crate) parent: Option<&'a ParentStep>,
    pub(crate) project: Option<&'a RunProject>,
    pub(crate) forked_from: Option<RunId>,
    pub(crate) trigger: Option<&'a RunTrigger>,
}

impl RunColumns<'_> {
    pub(crate) fn checksum(&self) -> i64 {
        let mut hasher = Hasher::new();
        add_run(&mut hasher, self.id).add_number(self.created_at);
        hasher.add_text(self.format).add_text(self.name).add_text(self.user).add_text(self.bundle);
        add_optional(&mut hasher, self.workflow);
        add_optional(&mut hasher, self.thread_key);
        if let Some(parent) = self.parent {
            add_run(&mut hasher, parent.run).add_text(parent.path.as_str());
        }
        if let Some(RunProject { name, config }) = self.project {
            hasher.add_text(name).add_text(config);
        }
        if let Some(run) = self.forked_from {
            add_run(&mut hasher, run);
        }
        if let Some(RunTrigger { kind, id, .. }) = self.trigger {
            hasher.add_text(kind);
            add_optional(&mut hasher, id.as_deref());
        }
        truncate_hash(&mut hasher)
    }
}

/// The columns of a run that change together with its status.
#[derive(Clone, Copy)]
pub(crate) struct StatusColumns<'a> {
    pub(crate) status: &'a str,
    pub(crate) finished_at: Option<u64>,
    /// Position of the last event when the status was set.
    pub(crate) seq: u64,
}

impl StatusColumns<'_> {
    pub(crate) fn checksum(&self, run: RunId) -> i64 {
        let mut hasher = Hasher::new();
        add_run(&mut hasher, run).add_text(self.status).add_number(self.seq);
        hasher.add_number(self.finished_at.is_some().into()).add_number(self.finished_at.unwrap_or_default());
        truncate_hash(&mut hasher)
    }
}

/// The checksum of an entry of a memory.
pub(crate) fn memory_checksum(namespace: &str, key: &str, value: &str) -> i64 {
    truncate_hash(Hasher::new().add_text(namespace).add_text(key).add_text(value))
}

fn add_run(hasher: &mut Hasher, run: RunId) -> &mut Hasher {
    let id = run.0.as_u128();
    hasher.add_number((id >> 64) as u64).add_number(id as u64)
}

fn add_optional(hasher: &mut Hasher, text: Option<&str>) {
    hasher.add_number(text.is_some().into()).add_text(text.unwrap_or_default());
}

/// 64 bits are enough against accidents, and fit into an integer column.
fn truncate_hash(hasher: &mut Hasher) -> i64 {
    let [a, b, c, d, e, f, g, h, ..] = *hasher.finish().as_bytes();
    i64::from_le_bytes([a, b, c, d, e, f, g, h])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_counts() {
        let (run, other) = (RunId::new(1, [1; 10]), RunId::new(1, [2; 10]));
        let event = || EventColumns { at: 7, path: "/a", attempt: 1, kind: "asked", data: Some("{}"), output: None };
        let changed = [
            event().checksum(other, 3),
            event().checksum(run, 4),
            EventColumns { at: 8, ..event() }.checksum(run, 3),
            EventColumns { path: "/b", ..event() }.checksum(run, 3),
            EventColumns { attempt: 2, ..event() }.checksum(run, 3),
            EventColumns { kind: "asks", ..event() }.checksum(run, 3),
            EventColumns { data: None, ..event() }.checksum(run, 3),
            EventColumns { data: Some(""), ..event() }.checksum(run, 3),
            EventColumns { output: Some(""), ..event() }.checksum(run, 3),
            EventColumns { output: Some("{}"), data: None, ..event() }.checksum(run, 3),
        ];
        let mut all: Vec<i64> = changed.into_iter().chain([event().checksum(run, 3)]).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 11);
    }
}
