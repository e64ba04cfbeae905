//! Which agent may call which function. A grant is a prefix of function ids.

use std::collections::BTreeMap;

use super::error::FunctionError;

/// The grants of all agents.
#[derive(Clone, Debug, Default)]
pub struct Capabilities(BTreeMap<String, Vec<String>>);

impl Capabilities {
    /// Grants by agent: prefixes such as `tool::` or `tool::web_fetch`, or `*` for all functions.
    pub fn new(grants: BTreeMap<String, Vec<String>>) -> Capabilities {
        Capabilities(grants)
    }

    /// Fails if there is no agent of this name.
    pub fn check_agent(&self, agent: &str) -> Result<(), FunctionError> {
        if self.0.contains_key(agent) {
            return Ok(());
        }
        Err(FunctionError::UnknownAgent { agent: agent.to_owned(), known: self.0.keys().cloned().collect() })
    }

    /// Checks whether `agent` may call `function`. An unknown agent may call nothing. Fails with
    /// `FunctionError::Denied` if it may not.
    pub fn check_permission(&self, agent: &str, function: &str) -> Result<(), FunctionError> {
        // An empty grant is a mistake and grants nothing, although it is a prefix of every id.
        let grants = |grant: &String| grant == "*" || (!grant.is_empty() && function.starts_with(grant.as_str()));
        if self.0.get(agent).is_some_and(|list| list.iter().any(grants)) {
            return Ok(());
        }
        Err(FunctionError::Denied { agent: agent.to_owned(), function: function.to_owned() })
    }
}
