//! The distributed trace that a run belongs to, in W3C's form (`traceparent`).

use serde::{Deserialize, Serialize};

use crate::hash::Hash;
use crate::id::RunId;
use crate::path::Path;

/// Length of a `traceparent` of version 00, in characters.
const HEADER_CHARS: usize = 55;

/// The trace of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceContext {
    /// Id of the trace: 32 hexadecimal digits.
    pub trace: String,
    /// The span that started the run: 16 hexadecimal digits; `None` if the trace begins with the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Whether the spans of the trace are recorded.
    pub is_sampled: bool,
    /// Whether this installation exports the spans of the run. If it does not, what a run calls continues the span that
    /// started the run.
    pub is_exported: bool,
    /// How often the run ended before it was reopened. A reopened run and the steps that run again have spans of their own,
    /// because those of the earlier end are exported already.
    #[serde(skip)]
    pub earlier_ends: u32,
}

impl TraceContext {
    /// A trace that begins with a run; it has the run's id.
    pub fn of_run(run: RunId) -> TraceContext {
        let trace = run.0.as_simple().to_string();
        TraceContext { trace, parent: None, is_sampled: true, is_exported: true, earlier_ends: 0 }
    }

    /// Parses the header `traceparent` of a request that starts a run; `None` if it is invalid.
    pub fn parse(header: &str) -> Option<TraceContext> {
        let header = header.trim();
        let is_hex = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let is_id = |text: &str, chars: usize| text.len() == chars && is_hex(text) && text.bytes().any(|b| b != b'0');
        let mut parts = header.split('-');
        let (version, trace, parent, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        // Later versions may append fields, and never change these.
        let has_good_length = if version == "00" { header.len() == HEADER_CHARS } else { version != "ff" };
        let is_valid = has_good_length && version.len() == 2 && is_hex(version) && flags.len() == 2 && is_hex(flags);
        if !is_valid || !is_id(trace, 32) || !is_id(parent, 16) {
            return None;
        }
        let is_sampled = u8::from_str_radix(flags, 16).ok()? & 1 == 1;
        Some(TraceContext {
            trace: trace.to_owned(),
            parent: Some(parent.to_owned()),
            is_sampled,
            is_exported: false,
            earlier_ends: 0,
        })
    }

    /// The id of the span of a step, or of the run itself at the root path.
    pub fn span_id(&self, run: RunId, path: &Path) -> [u8; 8] {
        let first = format!("span {run} {}", path.as_str());
        let name = if self.earlier_ends == 0 { first } else { format!("{first} {}", self.earlier_ends) };
        let hash = Hash::of_bytes(name.as_bytes());
        let mut id = [0; 8];
        id.copy_from_slice(&hash.as_bytes()[..8]);
        id
    }

    /// The span that continues what a step calls; `None` if there is none.
    fn current_span(&self, run: RunId, path: &Path) -> Option<String> {
        match self.is_exported {
            true => Some(self.span_id(run, path).iter().map(|byte| format!("{byte:02x}")).collect()),
            false => self.parent.clone(),
        }
    }

    /// The header `traceparent` of what a step sends; `None` if it would name no span.
    pub fn to_header(&self, run: RunId, path: &Path) -> Option<String> {
        let flags = u8::from(self.is_sampled);
        Some(format!("00-{}-{}-{flags:02x}", self.trace, self.current_span(run, path)?))
    }

    /// The trace of a child run that a step starts: its spans are below that of the step.
    pub fn of_child(&self, run: RunId, path: &Path) -> TraceContext {
        TraceContext { parent: self.current_span(run, path), earlier_ends: 0, ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_header_is_parsed_or_ignored() {
        let parsed = TraceContext::parse(HEADER).expect("valid");
        assert_eq!((parsed.trace.as_str(), parsed.is_sampled), ("4bf92f3577b34da6a3ce929d0e0e4736", true));
        let later = format!("{}-more", HEADER.replacen("00", "01", 1));
        assert!(TraceContext::parse(&later).is_some());
        for wrong in [
            "",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "00-4bf92f3577b34da6a3ce929d0e0e473é-00f067aa0ba902b7-01",
        ] {
            assert_eq!(TraceContext::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_a_step_sends_continues_its_span_or_the_one_that_started_the_run() {
        let (run, path) = (RunId::new(1, [2; 10]), Path::root());
        let given = TraceContext::parse(HEADER).expect("valid");
        assert_eq!(given.to_header(run, &path).as_deref(), Some(HEADER));
        let exported = TraceContext { is_exported: true, ..given };
        let sent = exported.to_header(run, &path).expect("a header");
        let again = TraceContext::parse(&sent).expect("valid");
        assert_eq!(again.trace, exported.trace);
        assert_ne!(again.parent, exported.parent);
        let reopened = TraceContext { earlier_ends: 1, ..exported.clone() };
        assert_ne!(reopened.span_id(run, &path), exported.span_id(run, &path));
        let of_child = exported.of_child(run, &path);
        assert_eq!((&of_child.parent, of_child.is_exported), (&again.parent, true));
    }
}
