//! Writes steps as agents: each is a node of a graph, or a part of the instructions of one agent.

use flowloom_core::expr::Template;
use flowloom_core::plan::Format;
use flowloom_core::render::to_json;
use flowloom_core::value::Value;
use flowloom_formats::{agent, find_built_in_parameters, graph, list_built_in_functions, tool_name};

use super::parts::{join_instructions, own_instructions};
use super::{Abilities, Emitter};
use crate::calls::{Call, read_call};
use crate::draft::{Item, ItemKind, Prompt};
use crate::json_text::{ObjectBuilder, Row, write_definition};
use crate::names::read_inputs;
use crate::text::{Piece, read_pieces, to_identifier};
use crate::turns::describe_graph_limits;

/// A step as an agent does it.
struct Task {
    /// The id of the agent.
    id: String,
    instructions: String,
    model: Option<String>,
    /// The tools that it may call.
    tools: Vec<Value>,
    comments: Vec<String>,
}

impl Emitter<'_> {
    pub(super) fn emit_agents(&mut self, items: &[Item<'_>], to: Format) -> Option<String> {
        let is_conversation = self.plan.thread.is_some();
        for input in read_inputs(self.plan, items).iter().filter(|_| !is_conversation) {
            let message = format!("the input {}: a conversation has only the message of the user", input.name);
            self.report.add_loss(input.span, message);
        }
        let mut tasks = Vec::new();
        let mut losses = Vec::new();
        for item in items {
            self.push_task(item, to, &mut tasks, &mut losses);
        }
        if tasks.is_empty() {
            self.report_nothing_left(to);
            return None;
        }
        Some(if to == agent::FORMAT { self.write_agent(&tasks, losses) } else { self.write_graph(&tasks, losses) })
    }

    /// Adds the task of a step. Notes outside of tasks are added to the comments of the next one.
    fn push_task(&mut self, item: &Item<'_>, to: Format, tasks: &mut Vec<Task>, losses: &mut Vec<String>) {
        if self.stop.is_stopped() {
            return;
        }
        let mark = self.report.mark();
        let title = item.title().to_owned();
        let task = match &item.kind {
            ItemKind::Prompt(prompt) => self.prompt_task(item, prompt, to),
            ItemKind::Http(_) | ItemKind::Scrape(_) | ItemKind::Call(_) | ItemKind::Block(_) => {
                self.call_task(item, to)
            }
            ItemKind::Fanout(members) => {
                self.report.add_loss(item.span, "the steps of a fan-out: agents work one after another");
                losses.extend(self.loss_comments(mark));
                return members.iter().for_each(|member| self.push_task(member, to, tasks, losses));
            }
            ItemKind::Repeat(_, body) => {
                self.report
                    .add_loss(item.span, format!("the loop {title}: agents have no loops, so its step runs once"));
                losses.extend(self.loss_comments(mark));
                return self.push_task(body, to, tasks, losses);
            }
            ItemKind::Group(group) => {
                self.report_group(item, group);
                losses.extend(self.loss_comments(mark));
                let inner = group.scopes.iter().flat_map(|scope| &scope.items);
                return inner.for_each(|inner| self.push_task(inner, to, tasks, losses));
            }
            ItemKind::Defaults(rows) => {
                self.lose_defaults(item, rows);
                None
            }
            ItemKind::Memory(_) => {
                self.report.add_loss(item.span, format!("the step {title}: agents have no tool for the memory"));
                None
            }
            ItemKind::Ask(_) => {
                self.report.add_loss(item.span, format!("the question {title}: agents ask only in a conversation"));
                None
            }
            ItemKind::Text => {
                self.report.add_loss(item.span, "text that no model answers: agents have none");
                None
            }
            ItemKind::Other(what) => {
                self.report.add_loss(item.span, format!("{what}: agents have none"));
                None
            }
        };
        if task.is_some() {
            self.check_policy(item, Abilities { answer: true, ..Abilities::default() });
        }
        let comments = self.loss_comments(mark);
        match task {
            Some(task) => tasks.push(Task { comments: losses.drain(..).chain(comments).collect(), ..task }),
            None => losses.extend(comments),
        }
    }

    /// A prompt as the instructions of an agent; `None`, with a loss, if it has no text.
    fn prompt_task(&mut self, item: &Item<'_>, prompt: &Prompt<'_>, to: Format) -> Option<Task> {
        let (span, title) = (item.span, item.title().to_owned());
        let generate = prompt.generate;
        let is_graph = to == graph::FORMAT;
        let message = match is_graph {
            true => format!("the model call of {title}: its prompt is the instructions of an agent in a conversation"),
            false => format!("the model call of {title}: its prompt is a part of the instructions of one agent"),
        };
        self.report.add_loss(span, message);
        if generate.schema.is_some() {
            self.report.add_loss(span, format!("the schema of {title}: an agent answers with text"));
        }
        self.check_options(item, generate);
        let tools = prompt.tools.iter().filter_map(|tool| self.tool_record(tool)).collect();
        // In a conversation, the messages are no part of the instructions.
        let text = if self.plan.thread.is_some() { own_instructions(prompt) } else { join_instructions(prompt) };
        let instructions = self.task_text(&text, item);
        if instructions.trim().is_empty() {
            self.report.add_loss(span, format!("the prompt of {title} is empty: an agent needs instructions"));
            return None;
        }
        let model = generate.model.as_ref().and_then(Template::as_literal).filter(|model| !model.is_empty());
        let is_computed = generate.model.as_ref().is_some_and(|model| model.as_literal().is_none());
        if is_computed || (!is_graph && model.is_some()) {
            self.report.add_loss(span, format!("the model of {title}: the default model is asked here"));
        }
        let model = model.map(str::to_owned);
        Some(Task { id: self.task_id(item), instructions, model, tools, comments: Vec::new() })
    }

    /// A call as instructions to call a tool; `None`, with a loss, if models cannot call the function.
    fn call_task(&mut self, item: &Item<'_>, to: Format) -> Option<Task> {
        let (span, title) = (item.span, item.title().to_owned());
        let Some(call) = read_call(item) else {
            self.report.add_loss(span, format!("the block {title}: agents run no code"));
            return None;
        };
        let function = call.function.clone();
        if !is_tool(&function) {
            self.report.add_loss(span, format!("the call of {function} by {title}: no model can call this function"));
            return None;
        }
        self.check_call(item, &call);
        let message = format!("the call of {function} by {title}: a model is told to make it, and may do otherwise");
        self.report.add_loss(span, message);
        let instructions = self.call_text(item, &call);
        let id = self.task_id(item);
        let tool = if to == agent::FORMAT { function.as_str().into() } else { function_record(&function) };
        Some(Task { id, instructions, model: None, tools: vec![tool], comments: Vec::new() })
    }

    fn call_text(&mut self, item: &Item<'_>, call: &Call) -> String {
        let arguments = self.write_arguments(call, &|emitter, text| emitter.task_text(text, item));
        let tool = tool_name(&call.function);
        format!("Call the tool {tool} with these arguments, and give its result:\n\n{}", to_json(&arguments.into()))
    }

    /// A text with the names of variables in the place of their values.
    fn task_text(&mut self, template: &Template, item: &Item<'_>) -> String {
        let mut out = String::new();
        for piece in read_pieces(template) {
            match piece {
                Piece::Text(text) => out.push_str(&text),
                Piece::Value(reference) => {
                    let message = format!("{}: instructions hold no values, so it is text here", reference.source);
                    self.report.add_loss(item.span, message);
                    out.push_str(&reference.source);
                }
                Piece::Secret(_) | Piece::Expression(_) => {
                    self.report.add_loss(item.span, "a secret or an expression: instructions hold no values");
                    out.push('…');
                }
            }
        }
        out
    }

    fn task_id(&mut self, item: &Item<'_>) -> String {
        let base = to_identifier(item.variable.as_deref().unwrap_or(item.title()), "step");
        self.names.take_name(&base)
    }

    /// One agent that works through all tasks.
    fn write_agent(&mut self, tasks: &[Task], losses: Vec<String>) -> String {
        let instructions = match tasks {
            [only] => only.instructions.clone(),
            _ => {
                let numbered = tasks.iter().zip(1..).map(|(task, number)| format!("{number}. {}", task.instructions));
                format!("Work through these parts in order.\n\n{}", numbered.collect::<Vec<_>>().join("\n\n"))
            }
        };
        let comments = tasks.iter().flat_map(|task| task.comments.iter().cloned()).chain(losses).collect();
        let mut rows = vec![Row { comments, value: None }];
        for tool in tasks.iter().flat_map(|task| &task.tools) {
            let tool = Some(tool.clone());
            if rows.iter().all(|row| row.value != tool) {
                rows.push(Row { comments: Vec::new(), value: tool });
            }
        }
        let head = ObjectBuilder::default()
            .with_some("id", self.plan.id.as_deref())
            .with("name", self.plan.name.as_str())
            .with_text("description", &self.plan.description)
            .with("systemPrompt", instructions)
            .build();
        write_definition(agent::FORMAT, head, &[("tools", &rows)], self.has_comments)
    }

    /// A graph in which an agent does each task and hands over to the next one.
    fn write_graph(&mut self, tasks: &[Task], losses: Vec<String>) -> String {
        let message = format!("{}: the definition has none of them", describe_graph_limits());
        self.report.add_change(self.plan.root.span, message);
        let head = ObjectBuilder::default()
            .with_some("id", self.plan.id.as_deref())
            .with("name", self.plan.name.as_str())
            .with_text("description", &self.plan.description)
            .with("isConversational", false)
            .with("entrypointNodeId", tasks.first().map(|task| task.id.clone()).unwrap_or_default())
            .build();
        let has_tools = tasks.iter().any(|task| !task.tools.is_empty());
        let executor = self.names.take_name("tools");
        let mut nodes: Vec<Row> = tasks.iter().map(|task| node_row(&task.id, "AGENT", Some(&task.id))).collect();
        nodes.extend(has_tools.then(|| node_row(&executor, "TOOL_EXECUTOR", None)));
        nodes.push(Row { comments: losses, value: None });
        let mut edges = Vec::new();
        for (index, task) in tasks.iter().enumerate() {
            if !task.tools.is_empty() {
                edges.push(edge_row(&task.id, &executor, "CONDITIONAL", Some(&executor)));
            }
            edges.extend(tasks.get(index + 1).map(|next| edge_row(&task.id, &next.id, "ALWAYS", None)));
        }
        let agents: Vec<Row> = tasks.iter().map(agent_row).collect();
        let lists = [("nodes", &nodes[..]), ("edges", &edges[..]), ("agents", &agents[..])];
        write_definition(graph::FORMAT, head, &lists, self.has_comments)
    }
}

fn node_row(id: &str, kind: &str, agent: Option<&str>) -> Row {
    let node = ObjectBuilder::default().with("id", id).with("nodeType", kind).with("nodeName", id);
    Row { comments: Vec::new(), value: Some(node.with_some("agentId", agent).build()) }
}

fn edge_row(from: &str, to: &str, kind: &str, value: Option<&str>) -> Row {
    let edge = ObjectBuilder::default().with("sourceNodeId", from).with("targetNodeId", to).with("conditionType", kind);
    Row { comments: Vec::new(), value: Some(edge.with_some("conditionValue", value).build()) }
}

fn agent_row(task: &Task) -> Row {
    let tools = (!task.tools.is_empty()).then(|| Value::list(task.tools.clone()));
    let record = ObjectBuilder::default()
        .with("id", task.id.as_str())
        .with("systemPrompt", task.instructions.as_str())
        .with_some("model", task.model.as_deref())
        .with_some("tools", tools);
    Row { comments: task.comments.clone(), value: Some(record.build()) }
}

/// A function as a tool of a graph.
fn function_record(function: &str) -> Value {
    let own = Value::map([
        ("name", Value::from(tool_name(function))),
        ("description", format!("Calls {function}").into()),
        ("parameters", Value::map([("type", Value::from("object"))])),
    ]);
    let record = ObjectBuilder::default().with("type", "function").with("function", own);
    record.with("functionId", function).build()
}

/// Whether a model can call a function: not those that are kinds of steps or stages of the planner.
fn is_tool(function: &str) -> bool {
    let is_built_in = list_built_in_functions().iter().any(|(id, _)| id == function);
    !is_built_in || find_built_in_parameters(function).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_call_only_tools() {
        let cases = [("tool::web_fetch", true), ("crm::lookup", true), ("agent::chat", false), ("author::wire", false)];
        for (function, expected) in cases {
            assert_eq!(is_tool(function), expected, "{function}");
        }
    }
}
