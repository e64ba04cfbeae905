//! JSON definitions of any size that are slow to check for a compiler with quadratic running time.

/// A kind of definition, and how to write one of about so many bytes.
pub(crate) struct HostileDefinition {
    /// Its parts.
    pub(crate) name: &'static str,
    /// Its format, if it must be named.
    pub(crate) format: Option<&'static str>,
    /// Writes it.
    pub(crate) write: fn(usize) -> String,
}

/// The kinds of definitions.
pub(crate) fn hostile_definitions() -> Vec<HostileDefinition> {
    [step_lists(), pipelines(), graphs(), flows()].into_iter().flatten().collect()
}

fn new(name: &'static str, write: fn(usize) -> String) -> HostileDefinition {
    HostileDefinition { name, format: None, write }
}

/// Step lists.
fn step_lists() -> Vec<HostileDefinition> {
    vec![
        new("empty steps", |bytes| fill(r#"{"name":"x","steps":["#, |_| "{}".into(), "]}", bytes)),
        new("steps with one name", |bytes| {
            let step = r#"{"name":"a","functionId":"agent::chat","mode":"sequential","promptTemplate":"{{nobody}}"}"#;
            fill(STEPS_HEAD, |_| step.into(), "]}", bytes)
        }),
        new("steps that set variables", |bytes| {
            let step = |n| {
                format!(
                    r#"{{"name":"s{n}","functionId":"agent::chat","mode":"sequential","outputVar":"variable{n}","promptTemplate":"{{{{variable{}}}}}"}}"#,
                    n + 1
                )
            };
            fill(STEPS_HEAD, step, "]}", bytes)
        }),
        new("fan-out into one variable", |bytes| {
            let step = r#"{"name":"a","functionId":"agent::chat","mode":"fanout","outputVar":"v"}"#;
            fill(STEPS_HEAD, |_| step.into(), "]}", bytes)
        }),
        new("unknown functions and modes", |bytes| {
            let step =
                |n| format!(r#"{{"name":"s{n}","functionId":"tool::fetch{n}","mode":"{}"}}"#, ["loop", "lop"][n % 2]);
            fill(STEPS_HEAD, step, "]}", bytes)
        }),
        new("references in one prompt", |bytes| {
            let head = format!(
                r#"{STEPS_HEAD}{{"name":"a","functionId":"agent::chat","mode":"sequential","promptTemplate":""#
            );
            fill(&head, |n| format!("{{{{v{n}}}}} "), r#""}]}"#, bytes).replace("} ,", "} ")
        }),
    ]
}

/// Pipelines.
fn pipelines() -> Vec<HostileDefinition> {
    vec![
        new("nodes with one id", |bytes| {
            fill(PIPELINE_HEAD, |_| r#"{"id":"a","block_id":"b","inputs":{}}"#.into(), "]}", bytes)
        }),
        new("bad edges", |bytes| {
            let head = format!("{PIPELINE_HEAD}{}],\"edges\":[", nodes(bytes / 2));
            fill(&head, |n| format!(r#"{{"from":"x{n}","to":"y{n}"}}"#), "]}", bytes)
        }),
        new("chain", |bytes| fill(CHAIN_HEAD, chain_node, "]}", bytes)),
        new("chain with edges", |bytes| {
            let half = fill(CHAIN_HEAD, chain_node, "],\"edges\":[", bytes / 2);
            fill(&half, |n| format!(r#"{{"from":"n{n}","to":"n{}"}}"#, n + 1), "]}", bytes)
        }),
        new("circle", |bytes| {
            let head = format!(r#"{CHAIN_HEAD}{{"id":"first","block_id":"b","inputs":{{"q":"{{{{n1.x}}}}"}}}},"#);
            fill(&head, |n| chain_node(n).replace("{{n0", "{{first"), "]}", bytes).replace("{{n2.", "{{n3.")
        }),
        new("unknown fields", |bytes| fill(CHAIN_HEAD, |n| chain_node(n).replace(".out", ".other"), "]}", bytes)),
        new("undeclared memory keys", |bytes| {
            let keys: Vec<String> = (0..bytes / 40).map(|n| format!("\"declared{n}\"")).collect();
            let head = format!("{{\"memory_keys\":[{}],\"nodes\":[", keys.join(","));
            let node = |n| format!(r#"{{"id":"n{n}","block_id":"b","inputs":{{"q":"{{{{memory.k{n}}}}}"}}}}"#);
            fill(&head, node, "]}", bytes)
        }),
        new("one node with a long id", |bytes| {
            let id = "a".repeat(bytes / 4);
            let head = format!(r#"{{"memory_keys":["z"],"nodes":[{{"id":"{id}","block_id":"b","inputs":{{"#);
            fill(&head, |n| format!(r#""i{n}":"{{{{memory.k}}}}""#), "}}]}", bytes)
        }),
        new("blocks that nobody knows", |bytes| {
            fill(PIPELINE_HEAD, |n| format!(r#"{{"id":"n{n}","block_id":"block{n}","inputs":{{}}}}"#), "]}", bytes)
        }),
        new("nodes of one large block", |bytes| {
            let source = "x = 1\\n".repeat(bytes / 16);
            let head = format!(
                r#"{{"blocks":[{{"id":"b","name":"b","execution_type":"python","source_code":"{source}"}}],"pipeline":{{"nodes":["#
            );
            fill(&head, |n| format!(r#"{{"id":"n{n}","block_id":"b","inputs":{{}}}}"#), "]}}", bytes)
        }),
    ]
}

/// Graphs.
fn graphs() -> Vec<HostileDefinition> {
    vec![
        HostileDefinition {
            format: Some("graph"),
            ..new("rows of a graph", |bytes| {
                let head =
                    r#"{"system_agent_workflow":[{"id":"w","entrypoint_node_id":"n0"}],"system_agent_workflow_node":["#;
                let row = |n| format!(r#"{{"id":"n{n}","workflow_id":"w","node_name":"name","node_type":"AGENT"}}"#);
                let half = fill(head, row, "],\"system_agent_workflow_edge\":[", bytes / 2);
                let edge = |n| {
                    format!(r#"{{"id":"e{n}","workflow_id":"w","source_node_id":"n{n}","target_node_id":"gone{n}"}}"#)
                };
                fill(&half, edge, "]}", bytes)
            })
        },
        new("graph with many ways from one node", |bytes| {
            let half = fill(GRAPH_HEAD, graph_node, "],\"edges\":[", bytes / 3);
            let edge = |n| {
                format!(
                    r#"{{"sourceNodeId":"n0","targetNodeId":"n{}","conditionType":"CONDITIONAL","conditionValue":"v{}"}}"#,
                    n % 100,
                    n / 2
                )
            };
            fill(&half, edge, "]}", bytes)
        }),
        new("graph as a line", |bytes| {
            let half = fill(GRAPH_HEAD, graph_node, "],\"edges\":[", bytes / 2);
            fill(&half, |n| format!(r#"{{"sourceNodeId":"n{n}","targetNodeId":"n{}"}}"#, n + 1), "]}", bytes)
        }),
        new("graph with many executors", |bytes| {
            let node =
                |n| format!(r#"{{"id":"n{n}","nodeType":"{}","agentId":"a"}}"#, ["AGENT", "TOOL_EXECUTOR"][n % 2]);
            fill(GRAPH_HEAD, node, "],\"edges\":[]}", bytes)
        }),
        new("agents of a graph", |bytes| {
            let head = r#"{"entrypointNodeId":"n0","edges":[],"agents":["#;
            let half = fill(head, |n| format!(r#"{{"id":"a{n}","systemPrompt":"x"}}"#), "],\"nodes\":[", bytes / 2);
            fill(&half, |n| format!(r#"{{"id":"n{n}","agentId":"b{n}"}}"#), "]}", bytes)
        }),
    ]
}

/// Flows, and files of every format.
fn flows() -> Vec<HostileDefinition> {
    vec![
        new("references in a flow", |bytes| {
            let variables: Vec<String> = (0..bytes / 80).map(|n| format!(r#"{{"name":"variable{n}"}}"#)).collect();
            let head = format!(
                r#"{{"name":"x","steps":[{{"type":"start","config":{{"variables":[{}]}}}},"#,
                variables.join(",")
            );
            let step =
                |n| format!(r#"{{"type":"llmInstruction","config":{{"instruction":"${{other{n}}} {{{{a}}}}"}}}}"#);
            fill(&head, step, "]}", bytes)
        }),
        new("references in one instruction", |bytes| {
            let head = r#"{"name":"x","steps":[{"type":"llmInstruction","config":{"instruction":""#;
            fill(head, |n| format!("${{v{n}}} ${{secret.S{n}}} "), r#""}}]}"#, bytes)
        }),
        new("flow in a string", |bytes| {
            let inner = fill(r#"{"name":"x","steps":["#, |_| r#"{"type":"strat","config":{}}"#.into(), "]}", bytes);
            format!(r#"{{"item":{{"name":"x","flow":"{}"}}}}"#, inner.replace('"', "\\\""))
        }),
        new("segments of one reference", |bytes| {
            let tail = r#"}}"}]}"#;
            let segments = ".a".repeat((bytes.saturating_sub(STEPS_HEAD.len())) / 2);
            let step = r#"{"name":"s","functionId":"agent::chat","outputVar":"a.b","promptTemplate":"{{a"#;
            format!("{STEPS_HEAD}{step}{segments}{tail}")
        }),
        new("references in one input", |bytes| {
            let head = format!(r#"{PIPELINE_HEAD}{{"id":"n","block_id":"http_request","inputs":{{"url":""#);
            fill(&head, |n| format!("{{{{n.x{n}}}}} {{{{other.y}}}}"), r#""}}]}"#, bytes)
        }),
        new("unknown keys", |bytes| fill(r#"{"name":"x","steps":[],"#, |n| format!(r#""key{n}":1"#), "}", bytes)),
        new("one key", |bytes| fill(r#"{"name":"x","steps":[],"#, |_| r#""a":1"#.into(), "}", bytes)),
        new("long lines of a list", |bytes| fill(r#"{"name":"x","steps":["#, |_| "\n7".into(), "]}", bytes)),
    ]
}

const STEPS_HEAD: &str = r#"{"name":"x","description":"","steps":["#;

const PIPELINE_HEAD: &str = r#"{"name":"x","nodes":["#;

const CHAIN_HEAD: &str = concat!(
    r#"{"blocks":[{"id":"b","name":"b","execution_type":"python","source_code":"x","input_schema":{"required":["q"]},"#,
    r#""output_schema":{"properties":{"out":{}}}}],"nodes":["#
);

const GRAPH_HEAD: &str = r#"{"entrypointNodeId":"n0","isConversational":false,"nodes":["#;

/// Repeats items, separated by commas, up to a size.
fn fill(head: &str, item: impl Fn(usize) -> String, tail: &str, bytes: usize) -> String {
    let mut text = head.to_owned();
    for n in 0.. {
        if n > 0 {
            text.push(',');
        }
        text.push_str(&item(n));
        if text.len() + tail.len() >= bytes {
            break;
        }
    }
    text + tail
}

fn nodes(bytes: usize) -> String {
    fill("", |n| format!(r#"{{"id":"node{n}","block_id":"b","inputs":{{}}}}"#), "", bytes)
}

fn chain_node(n: usize) -> String {
    let input = if n == 0 { "start".to_owned() } else { format!("{{{{n{}.out}}}}", n - 1) };
    format!(r#"{{"id":"n{n}","block_id":"b","inputs":{{"q":"{input}"}}}}"#)
}

fn graph_node(n: usize) -> String {
    format!(r#"{{"id":"n{n}","nodeType":"AGENT","agentId":"a"}}"#)
}
