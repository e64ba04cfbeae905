//! Definitions as rows of the tables `system_agent_workflow`, `_node` and `_edge`, combined into one object.

use flowloom_core::json::{Node, NodeKind};

pub(super) const WORKFLOW_TABLE: &str = "system_agent_workflow";
pub(super) const NODE_TABLE: &str = "system_agent_workflow_node";
pub(super) const EDGE_TABLE: &str = "system_agent_workflow_edge";

/// The first workflow of `root` with its nodes and edges; `None` if `root` has no such tables.
pub(super) fn join_tables(root: &Node) -> Option<Node> {
    let workflow = root.get(WORKFLOW_TABLE)?.items()?.first()?;
    let id = workflow.get("id").and_then(Node::as_str).map(str::to_owned);
    let mut gathered = workflow.clone();
    let NodeKind::Map(entries) = &mut gathered.kind else { return None };
    for (key, table) in [("nodes", NODE_TABLE), ("edges", EDGE_TABLE)] {
        let Some(list) = root.get(table) else { continue };
        let of_workflow = |row: &&Node| {
            let owner = ["workflow_id", "workflowId"].iter().find_map(|key| row.get(key)?.as_str());
            owner.is_none() || owner == id.as_deref()
        };
        let rows: Vec<Node> = list.items().unwrap_or_default().iter().filter(of_workflow).cloned().collect();
        entries.push((key.to_owned(), list.span, Node { kind: NodeKind::List(rows), span: list.span }));
    }
    if let Some(agents) = root.get("agents") {
        entries.push(("agents".to_owned(), agents.span, agents.clone()));
    }
    Some(gathered)
}
