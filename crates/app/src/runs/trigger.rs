//! The interfaces through which runs are started.

use flowloom_core::trigger::RunTrigger;

/// An interface through which runs are started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriggerKind {
    /// A command in a terminal or a script.
    Terminal,
    /// Flowloom's own HTTP API, which the studio uses too.
    Api,
    /// The routes of the OpenAI API.
    OpenAi,
    /// A tool call over the Model Context Protocol.
    Mcp,
    /// A schedule.
    Schedule,
    /// A webhook.
    Webhook,
    /// The routes of AgentFlow.
    AgentFlow,
    /// The routes of AgentOS.
    AgentOs,
    /// The routes of AnythingLLM.
    AnythingLlm,
}

/// All kinds.
const KINDS: [TriggerKind; 9] = [
    TriggerKind::Terminal,
    TriggerKind::Api,
    TriggerKind::OpenAi,
    TriggerKind::Mcp,
    TriggerKind::Schedule,
    TriggerKind::Webhook,
    TriggerKind::AgentFlow,
    TriggerKind::AgentOs,
    TriggerKind::AnythingLlm,
];

impl TriggerKind {
    /// The name in the journal and the API.
    pub const fn name(self) -> &'static str {
        match self {
            TriggerKind::Terminal => "terminal",
            TriggerKind::Api => "api",
            TriggerKind::OpenAi => "openai",
            TriggerKind::Mcp => "mcp",
            TriggerKind::Schedule => "schedule",
            TriggerKind::Webhook => "webhook",
            TriggerKind::AgentFlow => "agentflow",
            TriggerKind::AgentOs => "agentos",
            TriggerKind::AnythingLlm => "anythingllm",
        }
    }

    const fn describe_kind(self) -> &'static str {
        match self {
            TriggerKind::Terminal => "the terminal",
            TriggerKind::Api => "the API",
            TriggerKind::OpenAi => "the OpenAI API",
            TriggerKind::Mcp => "an MCP client",
            TriggerKind::Schedule => "the schedule",
            TriggerKind::Webhook => "the webhook",
            TriggerKind::AgentFlow => "an AgentFlow client",
            TriggerKind::AgentOs => "an AgentOS client",
            TriggerKind::AnythingLlm => "an AnythingLLM client",
        }
    }

    /// The trigger of a call through this interface.
    pub fn to_trigger(self) -> RunTrigger {
        RunTrigger { kind: self.name().into(), id: None, call: None, background: false }
    }

    /// The trigger of the schedule or webhook `id`.
    pub fn to_trigger_of(self, id: &str) -> RunTrigger {
        RunTrigger { id: Some(id.to_owned()), ..self.to_trigger() }
    }
}

/// Reads a trigger as a filter names it: `KIND` for all that were started through an interface, or `KIND:ID` for those of a
/// schedule or webhook. Fails with a message that lists the kinds.
pub fn parse_trigger(text: &str) -> Result<RunTrigger, String> {
    let (name, id) = match text.split_once(':') {
        Some((name, id)) => (name, Some(id)),
        None => (text, None),
    };
    let Some(kind) = KINDS.into_iter().find(|kind| kind.name() == name) else {
        let known: Vec<&str> = KINDS.iter().map(|kind| kind.name()).collect();
        return Err(format!("there is no trigger {name:?}; it is one of {}", known.join(", ")));
    };
    match id {
        None => Ok(kind.to_trigger()),
        Some(id) if matches!(kind, TriggerKind::Schedule | TriggerKind::Webhook) => Ok(kind.to_trigger_of(id)),
        Some(_) => Err(format!("only schedule and webhook have an id, not {name}")),
    }
}

/// A trigger for people: `the schedule nightly`, `the API`. Other versions may have other kinds.
pub fn describe_trigger(trigger: &RunTrigger) -> String {
    let known = KINDS.into_iter().find(|kind| kind.name() == trigger.kind);
    let kind: &str = known.map_or(&trigger.kind, |kind| kind.describe_kind());
    trigger.id.as_ref().map_or_else(|| kind.to_owned(), |id| format!("{kind} {id}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_names_an_interface_or_one_schedule() {
        assert_eq!(parse_trigger("api"), Ok(TriggerKind::Api.to_trigger()));
        assert_eq!(parse_trigger("schedule:a:b"), Ok(TriggerKind::Schedule.to_trigger_of("a:b")));
        assert!(parse_trigger("cron").is_err_and(|message| message.contains("terminal, api, openai")));
        assert!(parse_trigger("api:1").is_err_and(|message| message.contains("only schedule and webhook")));
    }

    #[test]
    fn a_trigger_of_a_later_version_is_described_by_its_name() {
        assert_eq!(describe_trigger(&TriggerKind::Schedule.to_trigger_of("nightly")), "the schedule nightly");
        let later = RunTrigger { kind: "queue".into(), ..TriggerKind::Webhook.to_trigger_of("orders") };
        assert_eq!(describe_trigger(&later), "queue orders");
    }
}
