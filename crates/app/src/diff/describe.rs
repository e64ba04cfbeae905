//! The meaning of a step, as texts by name. Two steps with the same texts do the same, whatever the formats of their
//! definitions.

use flowloom_core::chat::content::Content;
use flowloom_core::chat::{Role, ToolDeclaration};
use flowloom_core::expr::js::Js;
use flowloom_core::expr::{Data, Expr, Template, TemplatePart};
use flowloom_core::plan::{
    Agent, AgentTool, AppendMessage, Assignment, CallLimit, Composite, Dag, Field, FieldContent, Loop, LoopTest,
    Machine, Merge, OnError, Policy, ScopedSteps, Step, StepKind, Subflow, ToolEffect, Turn, Write,
};
use flowloom_core::render;
use flowloom_core::value::Value;
use flowloom_formats::markdown::compact_expression;

use crate::definitions::conditions::render_condition;

/// Texts by name, in the order in which people read them.
pub(super) type DescribedFields = Vec<(&'static str, String)>;

/// The effect of a step. Empty for a step that only puts others in order.
pub(super) fn describe_step(step: &Step) -> DescribedFields {
    let mut fields = DescribedFields::new();
    match &step.kind {
        StepKind::Leaf(leaf) => describe_fields(&leaf.list_fields(), &mut fields),
        StepKind::Composite(composite) => describe_composite(composite, &mut fields),
    }
    if let Some(condition) = &step.condition {
        fields.push(("condition", render_expression(condition)));
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

/// The texts of the fields of a leaf or of a model call. Empty fields are left out.
fn describe_fields(list: &[Field<'_>], fields: &mut DescribedFields) {
    for field in list {
        push_text(fields, field.name, render_content(&field.content));
    }
}

fn render_content(content: &FieldContent<'_>) -> String {
    match content {
        FieldContent::Fixed(text) => text.clone(),
        FieldContent::Text(text) => render_template(text),
        FieldContent::Data(data) => render_data(data),
        FieldContent::Entries(data) => render_data_lines(data),
        FieldContent::Expr(expr) => render_expression(expr),
        FieldContent::Schema(schema) => render::to_json(schema),
        FieldContent::Messages([(_, only)]) => render_data(only),
        FieldContent::Messages(messages) => {
            let message =
                |(role, data): &(Role, Data)| format!("[{}] {}", format!("{role:?}").to_lowercase(), render_data(data));
            join_lines(messages.iter().map(message))
        }
        FieldContent::TextPairs(pairs) => join_lines(
            pairs.iter().map(|(name, value)| format!("{}: {}", render_template(name), render_template(value))),
        ),
        FieldContent::Arguments(arguments) => {
            join_lines(arguments.iter().map(|(name, value)| format!("{name}: {}", render_expression(value))))
        }
        FieldContent::Variables(rows) => join_lines(rows.iter().map(|(name, variable)| format!("{name}: {variable}"))),
    }
}

fn describe_composite(composite: &Composite, fields: &mut DescribedFields) {
    match composite {
        Composite::Sequence(_) | Composite::Parallel(_) | Composite::Return(_) => {}
        Composite::Dag(dag) => push_text(fields, "needs", describe_needs(dag)),
        Composite::Machine(machine) => describe_machine(machine, fields),
        Composite::Loop(looped) => describe_loop(looped, fields),
        Composite::Branch { arms, .. } => {
            let arm =
                |(condition, step): &(Expr, Step)| format!("{} -> {}", render_expression(condition), step.key.as_str());
            push_text(fields, "arms", join_lines(arms.iter().map(arm)));
        }
        Composite::Subflow(Subflow { plan, inputs }) => {
            fields.push(("workflow", plan.name.clone()));
            push_text(fields, "inputs", render_data_lines(inputs));
        }
        Composite::Scoped(ScopedSteps { provide, gives, .. }) => {
            let row = |(name, value): &(std::sync::Arc<str>, Expr)| format!("{name} = {}", render_expression(value));
            push_text(fields, "provides", join_lines(provide.iter().map(row)));
            push_text(fields, "gives", gives.iter().map(|name| name.to_string()).collect::<Vec<_>>().join(", "));
        }
        Composite::Agent(Agent { generate, tools, available, limit, must_call }) => {
            describe_fields(&generate.list_fields(), fields);
            push_text(fields, "tools", describe_tools(tools));
            push_text(fields, "chosen tools", available.as_ref().map(render_expression).unwrap_or_default());
            push_text(fields, "tool choice", if *must_call { "required".to_owned() } else { String::new() });
            fields.push((
                "limit",
                match limit {
                    CallLimit::Rounds(rounds) => format!("{rounds} rounds of tool calls"),
                    CallLimit::Calls(calls) => format!("{calls} tool calls"),
                },
            ));
        }
        Composite::Turn(Turn { generate, tools, router, .. }) => {
            describe_fields(&generate.list_fields(), fields);
            push_text(fields, "tools", describe_tools(tools));
            let destinations = router.iter().flat_map(|router| &router.destinations);
            push_text(fields, "destinations", destinations.map(|name| name.to_string()).collect::<Vec<_>>().join(", "));
        }
        Composite::Tools(_) => {}
        Composite::AppendMessage(AppendMessage { role, content, .. }) => {
            let text = match content {
                Content::Blocks(blocks) => blocks.iter().map(render_template).collect::<Vec<_>>().join("\n\n"),
                Content::Value(value) | Content::Json(value) => format!("{{{{{}}}}}", render_expression(value)),
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
        fields.push(("until", format!("{} (tested {test} each time)", render_expression(until))));
    }
    fields.push(("iterations", format!("at most {}", looped.max)));
}

fn describe_tools(tools: &[AgentTool]) -> String {
    let tool = |tool: &AgentTool| {
        let approval = if tool.needs_approval { " (needs approval)" } else { "" };
        let place = if matches!(tool.effect, ToolEffect::Client) { " (at the client)" } else { "" };
        let ToolDeclaration { name, description, parameters } = &tool.declaration;
        format!("{name}{approval}{place}: {description} {}", render::to_json(parameters))
    };
    join_lines(tools.iter().map(tool))
}

/// An expression as the definition states it, without its layout and its comments.
fn render_expression(expr: &Expr) -> String {
    match expr {
        Expr::Js(js) => match &**js {
            Js::Placed(_, place) => compact_expression(&place.source),
            _ => render_condition(expr),
        },
        Expr::Script(script) => compact_expression(&script.source),
        expr => render_condition(expr),
    }
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
        TemplatePart::Expr(expr) => format!("{{{{{}}}}}", render_expression(expr)),
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
