//! `[functions]` and `[agents]` of the configuration: functions of the user, and the agents that may call functions.

use std::collections::BTreeMap;
use std::path::Path;

use flowloom_core::json::parse_value;
use flowloom_core::plan::EffectClass;
use flowloom_core::value::Value;
use flowloom_formats::FunctionDeclaration;
use flowloom_formats::json_schema::find_schema_problem;
use serde::{Deserialize, Serialize};

use super::error::{ConfigError, TableProblem};

/// `[agents.ID]`: prefixes of the function ids that an agent may call, and for graphs the folder of its prompt and
/// tools.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentSettings {
    /// Prefixes of the ids of functions that it may call.
    #[serde(default)]
    pub tools: Vec<String>,
    /// Folder with `systemPrompt.md` and `jsonSchema.json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
}

impl AgentSettings {
    /// The folders of agents that have one, resolved against `base`, by agent id.
    pub fn resolve_folders(agents: &BTreeMap<String, AgentSettings>, base: &Path) -> BTreeMap<String, String> {
        let folder =
            |agent: &AgentSettings| agent.folder.as_ref().map(|folder| base.join(folder).display().to_string());
        agents.iter().filter_map(|(id, agent)| Some((id.clone(), folder(agent)?))).collect()
    }
}

/// `[functions.ID]`: a function of the user, either an HTTP endpoint or another workflow.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FunctionSettings {
    /// The address that is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The HTTP method; `POST` if none is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Headers of each request.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The file of the workflow that it runs, relative to the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<String>,
    /// The effect class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<EffectClass>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) timeout_ms: Option<u64>,
    /// Description of the function for models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// JSON Schema of the arguments, for models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<serde_json::Value>,
    /// Whether each call by a model requires approval.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) needs_approval: bool,
    /// Values that the attributes of the function's Markdown action read as `$`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) helpers: BTreeMap<String, serde_json::Value>,
}

impl FunctionSettings {
    /// The helpers of functions that have any, by function id.
    pub(crate) fn collect_helpers(functions: &BTreeMap<String, FunctionSettings>) -> BTreeMap<String, Value> {
        let lending = functions.iter().filter(|(_, function)| !function.helpers.is_empty());
        let helpers = |function: &FunctionSettings| {
            Value::map(function.helpers.iter().map(|(name, helper)| (name.as_str(), to_value(helper))))
        };
        lending.map(|(id, function)| (id.clone(), helpers(function))).collect()
    }

    /// The declarations of the functions for models, by function id.
    pub fn collect_declarations(
        functions: &BTreeMap<String, FunctionSettings>,
    ) -> BTreeMap<String, FunctionDeclaration> {
        let declaration = |function: &FunctionSettings| FunctionDeclaration {
            description: function.description.clone(),
            parameters: function.parameters.as_ref().map(to_value),
            needs_approval: function.needs_approval,
        };
        functions.iter().map(|(id, function)| (id.clone(), declaration(function))).collect()
    }
}

/// Checks the schemas of the functions' arguments.
pub(super) fn validate(functions: &BTreeMap<String, FunctionSettings>) -> Result<(), ConfigError> {
    for (id, function) in functions {
        let parameters = function.parameters.as_ref().map(to_value).unwrap_or_default();
        if let Some(why) = find_schema_problem(&parameters) {
            return Err(ConfigError::in_table(format!("functions.{id:?}"), TableProblem::BadSchema(why.message)));
        }
    }
    Ok(())
}

pub(crate) fn to_value(value: &serde_json::Value) -> Value {
    parse_value(&value.to_string()).unwrap_or_default()
}
