//! Which agent may call which function: grants are prefixes of function ids.

use std::collections::BTreeMap;

use flowloom_core::code::Code;
use flowloom_core::error::StepError;

/// The grants of every agent.
#[derive(Clone, Debug, Default)]
pub struct Capabilities(BTreeMap<String, Vec<String>>);

impl Capabilities {
    /// Grants by agent: prefixes such as `tool::` or `tool::web_fetch`, and `*` for everything.
    pub fn new(grants: BTreeMap<String, Vec<String>>) -> Capabilities {
        Capabilities(grants)
    }

    /// Whether `agent` may call `function`. An agent that nothing is known of may call nothing.
    pub fn permit(&self, agent: &str, function: &str) -> Result<(), StepError> {
        // An empty grant is a slip, not a grant of everything, although it is a prefix of all.
        let grants = |grant: &String| grant == "*" || (!grant.is_empty() && function.starts_with(grant.as_str()));
        if self.0.get(agent).is_some_and(|list| list.iter().any(grants)) {
            return Ok(());
        }
        Err(StepError::new(Code::CapabilityDenied, format!("Agent {agent} denied: {function}")))
    }
}
