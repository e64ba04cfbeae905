//! Lists workflows as MCP tools: pages and annotations.

use flowloom_app::tools::descriptor::ToolDescriptor;
use flowloom_core::plan::Plan;
use rmcp::model::{ListToolsResult, Tool, ToolAnnotations};

/// Maximum number of tools per page.
const PAGE_TOOLS: usize = 1000;

/// A page of the list, starting at `cursor`; `None` if the cursor is invalid.
pub(crate) fn list_page(descriptors: &[ToolDescriptor], cursor: Option<&str>) -> Option<ListToolsResult> {
    let begin =
        cursor.map_or(Some(0), |cursor| cursor.parse().ok().filter(|begin| (1..descriptors.len()).contains(begin)))?;
    let end = descriptors.len().min(begin + PAGE_TOOLS);
    let mut page = ListToolsResult::with_all_items(descriptors[begin..end].iter().map(to_mcp_tool).collect());
    page.next_cursor = (end < descriptors.len()).then(|| end.to_string());
    Some(page)
}

fn to_mcp_tool(descriptor: &ToolDescriptor) -> Tool {
    let declaration = &descriptor.declaration;
    let schema = serde_json::to_value(&declaration.parameters).ok();
    let schema = schema.and_then(|schema| schema.as_object().cloned()).unwrap_or_default();
    Tool::new(declaration.name.clone(), declaration.description.clone(), schema)
        .with_title(descriptor.plan.name.clone())
        .with_annotations(derive_annotations(&descriptor.plan))
}

/// Derives annotations from a definition. Effects of functions, code blocks and servers are unknown and therefore count
/// as destructive.
fn derive_annotations(plan: &Plan) -> ToolAnnotations {
    // Conversations are stored, and the tools of an agent are known only at call time.
    let (mut only_reads, mut stays_here) = (plan.thread.is_none(), plan.format != flowloom_formats::agent::FORMAT);
    plan.root.visit(&mut |step| {
        only_reads &= step.kind.is_read_only();
        stays_here &= step.kind.is_closed_world();
    });
    ToolAnnotations::new().read_only(only_reads).destructive(!only_reads).open_world(!stays_here)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use flowloom_formats::{Sources, compile};

    use super::*;

    /// Compiles `text` as `file` and returns the tool of the workflow `id`.
    fn tool_of(id: &str, file: &str, text: &str) -> ToolDescriptor {
        let files = BTreeMap::from([(file.to_owned(), text.as_bytes().to_vec())]);
        let sources = Sources { files, source_bytes: 1 << 20, ..Sources::default() };
        let compiled = compile(file, &sources, None);
        ToolDescriptor::new(id, Arc::new(compiled.plan.unwrap_or_else(|| panic!("{:?}", compiled.diagnostics))))
    }

    #[test]
    fn a_long_list_has_pages() {
        let one = tool_of("one", "list.json", include_str!("../../../../examples/steps/refine.json"));
        let all = vec![one; PAGE_TOOLS + 1];
        let first = list_page(&all, None).expect("a page");
        assert_eq!((first.tools.len(), first.next_cursor.as_deref()), (PAGE_TOOLS, Some("1000")));
        let last = list_page(&all, first.next_cursor.as_deref()).expect("a page");
        assert_eq!((last.tools.len(), last.next_cursor), (1, None));
        assert!(["1001", "-1", "x", "0"].iter().all(|cursor| list_page(&all, Some(cursor)).is_none()));
        assert_eq!(list_page(&[], None).expect("a page").tools.len(), 0);
    }

    /// Read only, destructive, and open world.
    fn annotations_of(file: &str, text: &str) -> [Option<bool>; 3] {
        let annotations = derive_annotations(&tool_of("one", file, text).plan);
        [annotations.read_only_hint, annotations.destructive_hint, annotations.open_world_hint]
    }

    #[test]
    fn what_a_workflow_may_do_is_reported() {
        let asks = annotations_of("list.json", include_str!("../../../../examples/steps/refine.json"));
        assert_eq!(asks, [Some(true), Some(false), Some(false)]);
        let call = |method: &str| {
            let flow = format!(
                r#"{{"name": "n", "steps": [{{"type": "apiCall", "config": {{"url": "http://a.example/", "method": "{method}", "headers": []}}}}]}}"#
            );
            annotations_of("flow.json", &flow)
        };
        assert_eq!(call("GET"), [Some(true), Some(false), Some(true)]);
        assert_eq!(call("DELETE"), [Some(false), Some(true), Some(true)]);
        let sets = r#"{"name": "n", "steps": [{"name": "s", "functionId": "memory::set", "mode": "sequential", "promptTemplate": "{{input}}"}]}"#;
        assert_eq!(annotations_of("list.json", sets)[0], Some(false));
    }
}
