//! What a step means, as texts by name. Two steps with the same texts do the same, whatever the formats of their definitions.

use flowloom_core::chat::GenerateOptions;
use flowloom_core::chat::content::Content;
use flowloom_core::expr::{Data, Expr, Template, TemplatePart};
use flowloom_core::plan::{
    Agent, AgentTool, AppendMessage, Assignment, Block, BlockCode, BodySpec, CallLimit, Capture, Composite, Dag,
    FunctionCall, Generate, HttpSpec, Leaf, Loop, LoopTest, Machine, Merge, OnError, Policy, ScopedSteps, Scrape, Step,
    StepKind, Subflow, Turn, Write,
};
use flowloom_core::render;
use flowloom_core::value::Value;

use crate::definitions::conditions::render_condition;

/// Texts by name, in the order in which people read them.
pub(super) type DescribedFields = Vec<(&'static str, String)>;

/// What a step does. Empty for a step that only puts others in order.
pub(super) fn describe_step(step: &Step) -> DescribedFields {
    let mut fields = DescribedFields::new();
    match &step.kind {
        StepKind::Leaf(leaf) => describe_leaf(leaf, &mut fields),
        StepKind::Composite(composite) => describe_composite(composite, &mut fields),
    }
    if let Some(condition) = &step.condition {
        fields.push(("condition", render_condition(condition)));
    }
    describe_policy(&step.policy, &mut fields);
    if let Some(capability) = &step.capability {
        fields.push(("capability", capability.to_string()));
    }
    let writes = join_lines(step.writes.iter().map(describe_write));
    push_text(&mut fields, "writes", writes);
    fields
}

fn push_text(fields: &mut DescribedFields, name: &'static str, text: String) {
    if !text.is_empty() {
        fields.push((name, text));
    }
}

fn join_lines(lines: impl Iterator<Item = String>) -> String {
    lines.collect::<Vec<_>>().join("\n")
}

fn describe_policy(policy: &Policy, fields: &mut DescribedFields) {
    if let Some(timeout) = policy.timeout_ms {
        fields.push(("timeout", format!("{timeout} ms")));
    }
    if let Some(retry) = &policy.retry {
        fields.push(("retries", format!("{}, after {} to {} ms", retry.max, retry.base_ms, retry.cap_ms)));
    }
    if policy.on_error == OnError::Continue {
        fields.push(("on error", "continue".to_owned()));
    }
}

fn describe_write(write: &Write) -> String {
    let names: Vec<String> = write.names.iter().map(render_template).collect();
    let name = names.join(" or ");
    if write.merge == Merge::Append { format!("{name} (appended)") } else { name }
}

fn describe_leaf(leaf: &Leaf, fields: &mut DescribedFields) {
    match leaf {
        Leaf::Fail { code, message } => fields.push(("fails with", format!("{code}: {message}"))),
        Leaf::Generate(generate) => describe_generate(generate, fields),
        Leaf::Http(http) => describe_http(http, fields),
        Leaf::Scrape(scrape) => describe_scrape(scrape, fields),
        Leaf::Call(call) => describe_call(call, fields),
        Leaf::Block(block) => describe_block(block, fields),
        Leaf::Memory(memory) => {
            fields.push(("operation", format!("{:?}", memory.operation).to_lowercase()));
            push_text(fields, "prompt", render_template(&memory.prompt));
        }
        Leaf::Ask { question, schema } => {
            fields.push(("question", render_template(question)));
            push_schema(fields, "schema", schema.as_ref());
        }
        Leaf::Wait { duration_ms } => fields.push(("duration", format!("{duration_ms} ms"))),
    }
}

fn push_schema(fields: &mut DescribedFields, name: &'static str, schema: Option<&Value>) {
    if let Some(schema) = schema {
        fields.push((name, render::to_json(schema)));
    }
}

fn describe_generate(generate: &Generate, fields: &mut DescribedFields) {
    if let Some(model) = &generate.model {
        fields.push(("model", render_template(model)));
    }
    if let Some(system) = &generate.system {
        push_text(fields, "system", render_data(system));
    }
    let messages = generate.messages.iter().map(|(role, data)| match generate.messages.len() {
        1 => render_data(data),
        _ => format!("[{}] {}", format!("{role:?}").to_lowercase(), render_data(data)),
    });
    push_text(fields, "prompt", join_lines(messages));
    push_schema(fields, "schema", generate.schema.as_ref());
    push_text(fields, "options", describe_options(&generate.options));
    if let Some(computed) = &generate.computed {
        fields.push(("computed options", render_condition(computed)));
    }
    if let Some(thread) = &generate.thread {
        fields.push(("conversation", thread.to_string()));
    }
}

fn describe_options(options: &GenerateOptions) -> String {
    match serde_json::to_value(options) {
        Ok(serde_json::Value::Object(map)) if map.values().any(|value| !value.is_null()) => {
            let given = map.into_iter().filter(|(_, value)| !value.is_null());
            join_lines(given.map(|(name, value)| format!("{name}: {value}")))
        }
        _ => String::new(),
    }
}

fn describe_http(http: &HttpSpec, fields: &mut DescribedFields) {
    let method = render_template(&http.method);
    fields.push(("method", if method.is_empty() { "GET".to_owned() } else { method }));
    fields.push(("url", render_template(&http.url)));
    let row = |(name, value): &(Template, Template)| format!("{}: {}", render_template(name), render_template(value));
    push_text(fields, "headers", join_lines(http.headers.iter().map(row)));
    let body = match &http.body {
        BodySpec::None => String::new(),
        BodySpec::JsonText(text) | BodySpec::Text(text) => render_template(text),
        BodySpec::JsonValue(data) => render_data(data),
        BodySpec::Form(rows) => join_lines(rows.iter().map(row)),
    };
    push_text(fields, "body", body);
}

fn describe_scrape(scrape: &Scrape, fields: &mut DescribedFields) {
    fields.push(("url", render_template(&scrape.url)));
    fields.push(("capture", if scrape.capture == Capture::Html { "html" } else { "text" }.to_owned()));
    if let Some(selector) = &scrape.selector {
        push_text(fields, "selector", render_template(selector));
    }
    if scrape.summary.is_some() {
        fields.push(("summary", "if the page does not fit the model's window".to_owned()));
    }
}

fn describe_call(call: &FunctionCall, fields: &mut DescribedFields) {
    fields.push(("function", call.function.to_string()));
    push_text(fields, "prompt", render_template(&call.prompt));
    let arguments = call.arguments.iter().flatten().map(|(name, value)| format!("{name}: {}", render_condition(value)));
    push_text(fields, "arguments", join_lines(arguments));
    push_text(fields, "extra", join_lines(call.extra.iter().map(|(name, variable)| format!("{name}: {variable}"))));
}

fn describe_block(block: &Block, fields: &mut DescribedFields) {
    fields.push(("block", block.id.to_string()));
    match &block.code {
        BlockCode::Python { source, .. } => fields.push(("code", source.to_string())),
        BlockCode::Prompt { generate, .. } => describe_generate(generate, fields),
        BlockCode::Function(function) => fields.push(("function", function.to_string())),
    }
    push_text(fields, "inputs", render_data_lines(&block.inputs));
    push_schema(fields, "input schema", block.input_schema.as_ref());
    push_schema(fields, "output schema", block.output_schema.as_ref());
}

fn describe_composite(composite: &Composite, fields: &mut DescribedFields) {
    match composite {
        Composite::Sequence(_) | Composite::Parallel(_) | Composite::Return(_) => {}
        Composite::Dag(dag) => push_text(fields, "needs", describe_needs(dag)),
        Composite::Machine(machine) => describe_machine(machine, fields),
        Composite::Loop(looped) => describe_loop(looped, fields),
        Composite::Branch { arms, .. } => {
            let arm =
                |(condition, step): &(Expr, Step)| format!("{} -> {}", render_condition(condition), step.key.as_str());
            push_text(fields, "arms", join_lines(arms.iter().map(arm)));
        }
        Composite::Subflow(Subflow { plan, inputs }) => {
            fields.push(("workflow", plan.name.clone()));
            push_text(fields, "inputs", render_data_lines(inputs));
        }
        Composite::Scoped(ScopedSteps { provide, gives, .. }) => {
            let row = |(name, value): &(std::sync::Arc<str>, Expr)| format!("{name} = {}", render_condition(value));
            push_text(fields, "provides", join_lines(provide.iter().map(row)));
            push_text(fields, "gives", gives.iter().map(|name| name.to_string()).collect::<Vec<_>>().join(", "));
        }
        Composite::Agent(Agent { generate, tools, limit, .. }) => {
            describe_generate(generate, fields);
            push_text(fields, "tools", describe_tools(tools));
            fields.push((
                "limit",
                match limit {
                    CallLimit::Rounds(rounds) => format!("{rounds} rounds of tool calls"),
                    CallLimit::Calls(calls) => format!("{calls} tool calls"),
                },
            ));
        }
        Composite::Turn(Turn { generate, tools, router, .. }) => {
            describe_generate(generate, fields);
            push_text(fields, "tools", describe_tools(tools));
            let destinations = router.iter().flat_map(|router| &router.destinations);
            push_text(fields, "destinations", destinations.map(|name| name.to_string()).collect::<Vec<_>>().join(", "));
        }
        Composite::Tools(_) => {}
        Composite::AppendMessage(AppendMessage { role, content, .. }) => {
            let text = match content {
                Content::Blocks(blocks) => blocks.iter().map(render_template).collect::<Vec<_>>().join("\n\n"),
                Content::Value(value) | Content::Json(value) => format!("{{{{{}}}}}", render_condition(value)),
            };
            fields.push(("says", format!("[{}] {text}", format!("{role:?}").to_lowercase())));
        }
        Composite::Assign(rows) => {
            let row = |row: &Assignment| {
                let condition = if row.only_if_falsy { " (if it is not set)" } else { "" };
                format!("{} = {}{condition}", render_template(&row.name), render_data(&row.value))
            };
            push_text(fields, "sets", join_lines(rows.iter().map(row)));
        }
    }
}

fn describe_needs(dag: &Dag) -> String {
    let key = |index: &usize| dag.nodes.get(*index).map_or("?", |node| node.step.key.as_str());
    let needing = dag.nodes.iter().filter(|node| !node.needs.is_empty());
    join_lines(needing.map(|node| {
        let needs: Vec<&str> = node.needs.iter().map(key).collect();
        format!("{} after {}", node.step.key.as_str(), needs.join(", "))
    }))
}

fn describe_machine(machine: &Machine, fields: &mut DescribedFields) {
    let key = |index: usize| machine.nodes.get(index).map_or("?", |node| node.key.as_str());
    fields.push(("starts at", key(machine.entry).to_owned()));
    let edges = machine.edges.iter().filter(|edge| edge.label.is_some()).map(|edge| {
        let label = edge.label.as_deref().filter(|label| !label.is_empty());
        let label = label.map(|label| format!(" if {label}")).unwrap_or_default();
        format!("{} -> {}{label}", key(edge.from), edge.to.map_or("the end", key))
    });
    push_text(fields, "edges", join_lines(edges));
    fields.push(("visits", format!("at most {}", machine.max_visits)));
}

fn describe_loop(looped: &Loop, fields: &mut DescribedFields) {
    if let Some(until) = &looped.until {
        let test = if looped.test == LoopTest::Before { "before" } else { "after" };
        fields.push(("until", format!("{} (tested {test} each time)", render_condition(until))));
    }
    fields.push(("iterations", format!("at most {}", looped.max)));
}

fn describe_tools(tools: &[AgentTool]) -> String {
    let tool = |tool: &AgentTool| {
        let approval = if tool.needs_approval { " (needs approval)" } else { "" };
        format!("{}{approval}: {}", tool.declaration.name, tool.declaration.description)
    };
    join_lines(tools.iter().map(tool))
}

/// A template with its references in double braces, in every format.
pub(super) fn render_template(template: &Template) -> String {
    let part = |part: &TemplatePart| match part {
        TemplatePart::Text(text) => text.to_string(),
        TemplatePart::Ref(reference) => {
            let path: String = reference.path.iter().map(ToString::to_string).collect();
            format!("{{{{{}{path}}}}}", reference.name)
        }
        TemplatePart::Secret(name) => format!("{{{{secret.{name}}}}}"),
        TemplatePart::Expr(expr) => format!("{{{{{}}}}}", render_condition(expr)),
    };
    template.parts.iter().map(part).collect()
}

fn render_data(data: &Data) -> String {
    match data {
        Data::Constant(Value::String(text)) => text.to_string(),
        Data::Constant(value) => render::to_json(value),
        Data::Text(template) => render_template(template),
        Data::List(items) => format!("[{}]", items.iter().map(render_data).collect::<Vec<_>>().join(", ")),
        Data::Map(entries) => {
            let entry = |(name, data): &(std::sync::Arc<str>, Data)| format!("{name}: {}", render_data(data));
            format!("{{{}}}", entries.iter().map(entry).collect::<Vec<_>>().join(", "))
        }
    }
}

/// The entries of an object, one in each line.
fn render_data_lines(data: &Data) -> String {
    match data {
        Data::Map(entries) => join_lines(entries.iter().map(|(name, data)| format!("{name}: {}", render_data(data)))),
        data => render_data(data),
    }
}
