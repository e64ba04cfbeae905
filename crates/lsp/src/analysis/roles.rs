//! The meaning of the texts of a JSON definition, by their place in it.

use flowloom_core::plan::Format;
use flowloom_formats::{agent, flow, graph, pipeline, steps};

use super::names::{NameKind, Role};
use super::templates::TemplateStyle;

/// The role of a text in a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextRole {
    /// A name.
    Name(NameKind, Role),
    /// A text with references to things of a kind.
    Template(TemplateStyle, NameKind),
    /// Anything else.
    Plain,
}

/// Keys that contain a definition and do not belong to it.
const WRAPPERS: [&str; 5] = ["workflow", "pipeline", "pipeline_json", "definition", "config"];

/// The role of the text at `path`, in which `*` is any position of a list.
pub fn find_role(format: Format, path: &[&str]) -> TextRole {
    let path = match path {
        [first, rest @ ..] if WRAPPERS.contains(first) => rest,
        path => path,
    };
    match format {
        flow::FORMAT => find_flow_role(path),
        steps::FORMAT => find_steps_role(path),
        pipeline::FORMAT => find_pipeline_role(path),
        graph::FORMAT => find_graph_role(path),
        agent::FORMAT => find_agent_role(path),
        _ => TextRole::Plain,
    }
}

fn find_flow_role(path: &[&str]) -> TextRole {
    match path {
        ["steps", "*", "config", "variables", "*", "name"] => TextRole::Name(NameKind::Variable, Role::Declared),
        ["steps", "*", "config", "resultVariable" | "responseVariable"] => {
            TextRole::Name(NameKind::Variable, Role::Written)
        }
        ["steps", "*", "config", "method" | "bodyType" | "captureAs"] => TextRole::Plain,
        ["steps", "*", "config", _, ..] => TextRole::Template(TemplateStyle::DollarBraces, NameKind::Variable),
        _ => TextRole::Plain,
    }
}

fn find_steps_role(path: &[&str]) -> TextRole {
    match path {
        ["steps", "*", "outputVar"] => TextRole::Name(NameKind::Variable, Role::Written),
        ["steps", "*", "functionId"] => TextRole::Name(NameKind::Function, Role::Read),
        ["steps", "*", "promptTemplate"] => TextRole::Template(TemplateStyle::DoubleBraces, NameKind::Variable),
        _ => TextRole::Plain,
    }
}

fn find_pipeline_role(path: &[&str]) -> TextRole {
    match path {
        ["nodes", "*", "id"] => TextRole::Name(NameKind::Node, Role::Declared),
        ["nodes", "*", "block_id"] => TextRole::Name(NameKind::Block, Role::Read),
        ["nodes", "*", "inputs", _, ..] => TextRole::Template(TemplateStyle::DoubleBraces, NameKind::Node),
        ["edges", "*", "from" | "to"] => TextRole::Name(NameKind::Node, Role::Read),
        ["blocks", "*", "id"] => TextRole::Name(NameKind::Block, Role::Declared),
        ["blocks", "*", "prompt_template"] => TextRole::Template(TemplateStyle::Braces, NameKind::Field),
        _ => TextRole::Plain,
    }
}

fn find_graph_role(path: &[&str]) -> TextRole {
    match path {
        ["nodes", "*", "id"] => TextRole::Name(NameKind::Node, Role::Declared),
        ["nodes", "*", "nodeName" | "node_name"] => TextRole::Name(NameKind::Destination, Role::Declared),
        ["nodes", "*", "agentId" | "agent_id"] => TextRole::Name(NameKind::Agent, Role::Read),
        ["edges", "*", "sourceNodeId" | "source_node_id" | "targetNodeId" | "target_node_id"]
        | ["entrypointNodeId" | "entrypoint_node_id"] => TextRole::Name(NameKind::Node, Role::Read),
        ["edges", "*", "conditionValue" | "condition_value"] => TextRole::Name(NameKind::Destination, Role::Read),
        ["agents", "*", "id" | "agentId"] => TextRole::Name(NameKind::Agent, Role::Declared),
        ["agents", "*", "model"] => TextRole::Name(NameKind::Model, Role::Read),
        ["agents", "*", "tools", "*", "functionId" | "function_id"] => TextRole::Name(NameKind::Function, Role::Read),
        _ => TextRole::Plain,
    }
}

fn find_agent_role(path: &[&str]) -> TextRole {
    match path {
        ["tools" | "needsApproval", "*"] => TextRole::Name(NameKind::Tool, Role::Read),
        ["model"] => TextRole::Name(NameKind::Model, Role::Read),
        _ => TextRole::Plain,
    }
}
