//! The tool catalog: workflows as tools for models and MCP clients, with names, parameters, and the conversion of
//! arguments to inputs of a run.

use std::collections::BTreeMap;
use std::sync::Arc;

use flowloom_core::chat::ToolDeclaration;
use flowloom_core::code::Code;
use flowloom_core::error::StepFailure;
use flowloom_core::hash::Hash;
use flowloom_core::plan::{Format, Input, InputKind, Inputs, Plan};
use flowloom_core::render::to_json;
use flowloom_core::value::{Map, Value};
use flowloom_formats::flow;
use flowloom_runtime::schema::validation_errors;

use crate::config::FunctionSettings;

/// Maximum length of a tool name, in characters.
const MAX_TOOL_NAME_CHARS: usize = 64;

/// Length of the hash that makes a tool name unique, in characters.
const SHORT_HASH_CHARS: usize = 8;

/// Maximum length of a tool description, in characters: the limit of model providers.
const MAX_DESCRIPTION_CHARS: usize = 1024;

/// The argument of a conversation: the user's message.
const MESSAGE_ARGUMENT: &str = "message";

/// The argument of a workflow whose input is a single value.
const INPUT_ARGUMENT: &str = "input";

/// The properties of a file argument.
const FILE_PROPERTIES: [(&str, &str); 3] =
    [("name", "Its name"), ("mime", "Its media type"), ("base64", "Its bytes, encoded in base64")];

/// A workflow as a tool.
#[derive(Clone)]
pub struct ToolDescriptor {
    /// Id of the workflow to run.
    pub workflow: String,
    /// Name, description and parameters. The parameters are a plain JSON Schema object, without references or unions.
    pub declaration: ToolDeclaration,
    /// The compiled workflow.
    pub plan: Arc<Plan>,
}

/// Makes tool names unique by appending a hash of the workflow id, which does not depend on the other tools.
pub fn make_names_unique(mut descriptors: Vec<ToolDescriptor>) -> Vec<ToolDescriptor> {
    // A hashed name may collide with another name by chance or on purpose, so longer hashes follow.
    for digits in [SHORT_HASH_CHARS, 16, 32] {
        let mut count: BTreeMap<String, usize> = BTreeMap::new();
        descriptors.iter().for_each(|descriptor| *count.entry(descriptor.declaration.name.clone()).or_default() += 1);
        for descriptor in descriptors.iter_mut().filter(|descriptor| count[&descriptor.declaration.name] > 1) {
            descriptor.declaration.name = append_hash(&descriptor.declaration.name, &descriptor.workflow, digits);
        }
    }
    descriptors
}

impl ToolDescriptor {
    /// Builds the tool of the workflow `id`.
    pub fn new(id: &str, plan: Arc<Plan>) -> ToolDescriptor {
        let own = (plan.format == flow::FORMAT).then(|| flow::flow_tool(&plan, id));
        let (name, description) = match own {
            Some(own) => (own.name, own.description),
            None if plan.description.is_empty() => (tool_name(id), format!("Run the workflow: {}", plan.name)),
            None => (tool_name(id), plan.description.clone()),
        };
        let description = description.chars().take(MAX_DESCRIPTION_CHARS).collect();
        let declaration = ToolDeclaration { name, description, parameters: build_parameters(&plan).into() };
        ToolDescriptor { workflow: id.to_owned(), declaration, plan }
    }

    /// The declaration for the agents of the folder: that of a flow has the form of its original system.
    pub(crate) fn declare_for_agents(&self) -> ToolDeclaration {
        match self.plan.format {
            flow::FORMAT => flow::flow_tool(&self.plan, &self.workflow),
            _ => self.declaration.clone(),
        }
    }

    /// Converts the arguments of a call to the inputs of a run. Fails with `InputInvalid` if they violate the
    /// parameters.
    pub fn to_inputs(&self, arguments: &Value) -> Result<Value, StepFailure> {
        let none = Value::from(Map::new());
        let arguments = if matches!(arguments, Value::Null) { &none } else { arguments };
        if let Some(problem) = validation_errors(&self.declaration.parameters, arguments) {
            let message = format!("invalid arguments of {}: {problem}", self.declaration.name);
            return Err(StepFailure::new(Code::InputInvalid, message));
        }
        let declared = match &self.plan.inputs {
            _ if self.plan.thread.is_some() => return Ok(arguments.clone()),
            Inputs::Whole(_) => return Ok(arguments.get(INPUT_ARGUMENT).cloned().unwrap_or_default()),
            Inputs::Named { declared, .. } => declared,
        };
        let mut inputs = arguments.as_map().cloned().unwrap_or_default();
        for input in declared.iter().filter(|input| input.kind == InputKind::File) {
            if let Some(given) = inputs.get_mut(input.name.as_str()) {
                *given = Value::map([("$file", given.clone())]);
            }
        }
        Ok(inputs.into())
    }
}

/// Describes a function to models by the inputs of its workflow, where the configuration does not. The arguments of a
/// function are the inputs themselves, so an input of any shape and a file have no parameters.
pub(crate) fn describe_function(function: &mut FunctionSettings, id: &str, plan: Arc<Plan>) {
    let is_named = match &plan.inputs {
        Inputs::Whole(_) => plan.thread.is_some(),
        Inputs::Named { declared, .. } => declared.iter().all(|input| input.kind != InputKind::File),
    };
    let declaration = ToolDescriptor::new(id, plan).declaration;
    function.description.get_or_insert(declaration.description);
    if is_named && function.parameters.is_none() {
        function.parameters = serde_json::from_str(&to_json(&declaration.parameters)).ok();
    }
}

/// Converts an id to a valid tool name. An id in another script keeps little of itself, so a hash of it is appended.
fn tool_name(id: &str) -> String {
    let clean = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') { c } else { '_' };
    let name: String = id.chars().map(clean).take(MAX_TOOL_NAME_CHARS).collect();
    if id.is_ascii() { name } else { append_hash(&name, id, SHORT_HASH_CHARS) }
}

/// The name with the first characters of the id's hash.
fn append_hash(name: &str, id: &str, chars: usize) -> String {
    let hash: String = Hash::of_bytes(id.as_bytes()).to_string().chars().take(chars).collect();
    let name: String = name.chars().take(MAX_TOOL_NAME_CHARS - 1 - hash.len()).collect();
    format!("{name}_{hash}")
}

/// The JSON Schema of a tool's parameters.
fn build_parameters(plan: &Plan) -> Map {
    let declared = match &plan.inputs {
        _ if plan.thread.is_some() => {
            let message = typed_schema("string", "What the user says");
            return object_schema(build_map([(MESSAGE_ARGUMENT, message.into())]), [MESSAGE_ARGUMENT]);
        }
        Inputs::Whole(_) => {
            let any = build_map([("description", "What it works on: any value".into())]);
            let required = plan.reads_whole_input().then_some(INPUT_ARGUMENT);
            return object_schema(build_map([(INPUT_ARGUMENT, any.into())]), required);
        }
        Inputs::Named { declared, .. } => declared,
    };
    let name = |input: &Input| (input.name.as_str().into(), build_property(plan.format, input));
    let required = declared.iter().filter(|input| input.required).map(|input| input.name.as_str());
    object_schema(declared.iter().map(name).collect(), required)
}

fn build_property(format: Format, input: &Input) -> Value {
    let defaults = || format!("Value for variable {}", input.name);
    let description = input.description.clone().unwrap_or_else(defaults);
    let mut property = match &input.kind {
        // The types of flow variables are not declared; they are written as text.
        InputKind::Any if format != flow::FORMAT => build_map([("description", description.into())]),
        InputKind::Any | InputKind::Text => typed_schema("string", description),
        InputKind::Number => typed_schema("number", description),
        InputKind::Boolean => typed_schema("boolean", description),
        InputKind::List => {
            let mut list = typed_schema("array", description);
            list.insert("items".into(), Map::new().into());
            list
        }
        InputKind::File => {
            let mut file = object_schema(
                build_map(FILE_PROPERTIES.map(|(name, text)| (name, typed_schema("string", text).into()))),
                FILE_PROPERTIES.map(|it| it.0),
            );
            file.insert("description".into(), description.into());
            file
        }
        InputKind::OneOf(options) => {
            let mut one = typed_schema("string", description);
            one.insert("enum".into(), Value::list(options.iter().map(|option| option.as_str().into()).collect()));
            one
        }
    };
    // Initial values of flow variables are private, and often API keys.
    if let Some(default) = input.default.as_ref().filter(|_| format != flow::FORMAT) {
        property.insert("default".into(), default.clone());
    }
    property.into()
}

fn typed_schema(kind: &str, description: impl Into<Value>) -> Map {
    build_map([("type", kind.into()), ("description", description.into())])
}

/// A JSON Schema object with these properties and no others.
fn object_schema<'a>(properties: Map, required: impl IntoIterator<Item = &'a str>) -> Map {
    build_map([
        ("type", "object".into()),
        ("properties", properties.into()),
        ("required", Value::list(required.into_iter().map(Value::from).collect())),
        ("additionalProperties", false.into()),
    ])
}

fn build_map<const N: usize>(entries: [(&str, Value); N]) -> Map {
    entries.into_iter().map(|(key, value)| (key.into(), value)).collect()
}

#[cfg(test)]
mod tests {

    use flowloom_core::json::parse_value;
    use flowloom_formats::{Sources, compile};

    use super::*;

    /// Compiles `text` as `file` and returns the tool of the workflow `id`.
    fn compile_tool(id: &str, file: &str, text: &str) -> ToolDescriptor {
        let files = BTreeMap::from([(file.to_owned(), text.as_bytes().to_vec())]);
        let sources = Sources { files, source_bytes: 1 << 20, ..Sources::default() };
        let compiled = compile(file, &sources, None);
        ToolDescriptor::new(id, Arc::new(compiled.plan.unwrap_or_else(|| panic!("{:?}", compiled.diagnostics))))
    }

    fn flow_tool(id: &str, name: &str) -> ToolDescriptor {
        let text = r#"{"name": "NAME", "description": "Sends it.", "steps": [{"type": "start", "config": {"variables":
            [{"name": "text", "value": "sk-123", "description": "What is sent"}, {"name": "to"}]}}]}"#;
        compile_tool(id, "a.json", &text.replace("NAME", name))
    }

    const MARKDOWN_DEFINITION: &str = "---
input:
  city: {type: text}
  count: {type: text, format: number, default: 3}
  size: {type: select, options: [s, m], required: false}
  list: {type: array, required: false}
  photo: {type: file, fileType: image, required: false}
---
A poem about {city}.

<GenText as=\"poem\" model=\"scripted:echo\" />
";

    fn rejection(descriptor: &ToolDescriptor, arguments: &str) -> String {
        descriptor.to_inputs(&parse_value(arguments).expect("JSON")).expect_err("refused").message
    }

    #[test]
    fn a_flow_as_a_tool_has_no_parameter_for_what_its_variables_start_with() {
        let descriptor = flow_tool("u1", "Send Message!");
        assert_eq!(
            (descriptor.declaration.name.as_str(), descriptor.declaration.description.as_str()),
            ("send_message", "Sends it.")
        );
        let parameters = serde_json::to_string(&descriptor.declaration.parameters).expect("JSON");
        let text = r#""text":{"type":"string","description":"What is sent"}"#;
        let to = r#""to":{"type":"string","description":"Value for variable to"}"#;
        let expected =
            format!(r#"{{"type":"object","properties":{{{text},{to}}},"required":[],"additionalProperties":false}}"#);
        assert_eq!(parameters, expected);
        assert_eq!(descriptor.to_inputs(&Value::Null).expect("taken"), Map::new().into());
    }

    #[test]
    fn arguments_are_held_to_the_parameters() {
        let descriptor = compile_tool("markdown.poem", "poem.mdx", MARKDOWN_DEFINITION);
        assert_eq!(descriptor.declaration.name, "markdown_poem");
        let file = r#"{"name": "a.png", "mime": "image/png", "base64": "AAAA"}"#;
        let inputs = descriptor.to_inputs(
            &parse_value(&format!(r#"{{"city": "Bonn", "count": 2, "size": "m", "list": [1], "photo": {file}}}"#))
                .expect("JSON"),
        );
        assert_eq!(
            inputs.expect("taken").get("photo").and_then(|photo| photo.get("$file")?.get("name")),
            Some(&"a.png".into())
        );
        assert!(rejection(&descriptor, r#"{"city": 5}"#).contains("/city"));
        assert!(rejection(&descriptor, r#"{"town": "Bonn"}"#).contains("town"));
        assert!(rejection(&descriptor, r#"{"city": "Bonn", "size": "xl"}"#).contains("/size"));
        assert!(rejection(&descriptor, r#"{"city": "Bonn", "photo": {"name": "a"}}"#).contains("base64"));
        assert!(rejection(&descriptor, r#"["Bonn"]"#).contains("object"));
    }

    #[test]
    fn a_function_is_described_by_the_inputs_of_its_workflow() {
        let describe = |mut function: FunctionSettings, name, definition| {
            describe_function(&mut function, "shop::order", compile_tool("x", name, definition).plan);
            function
        };
        let definition = MARKDOWN_DEFINITION.replace("  photo: {type: file, fileType: image, required: false}\n", "");
        let described = describe(FunctionSettings::default(), "poem.mdx", &definition);
        let parameters = described.parameters.expect("parameters");
        assert_eq!(parameters["required"], serde_json::json!(["city"]));
        let configured = FunctionSettings { description: Some("Orders.".into()), ..FunctionSettings::default() };
        let described = describe(configured, "poem.mdx", MARKDOWN_DEFINITION);
        assert_eq!(described.parameters, None, "a file is no argument");
        assert_eq!(described.description.as_deref(), Some("Orders."));
        let list = include_str!("../../../../examples/steps/refine.json");
        assert_eq!(describe(FunctionSettings::default(), "list.json", list).parameters, None);
    }

    #[test]
    fn a_step_list_takes_one_value() {
        let descriptor = compile_tool("list", "list.json", include_str!("../../../../examples/steps/refine.json"));
        let inputs = descriptor.to_inputs(&parse_value(r#"{"input": {"a": [1]}}"#).expect("JSON")).expect("taken");
        assert_eq!(inputs, parse_value(r#"{"a": [1]}"#).expect("JSON"));
        assert!(rejection(&descriptor, "{}").contains("input"));
        let asks = compile_tool("list", "list.json", include_str!("../../../../examples/steps/ask-a-person.json"));
        assert_eq!(asks.to_inputs(&Map::new().into()).expect("no step reads the input"), Value::Null);
    }

    #[test]
    fn two_of_one_name_are_distinguished_by_their_ids_alone() {
        let long = "x".repeat(80);
        let all = vec![
            flow_tool("u1", "Send"),
            flow_tool("u2", "send"),
            flow_tool("u3", &long),
            flow_tool("u4", &long),
            flow_tool("u5", "other"),
        ];
        let names = |descriptors: Vec<ToolDescriptor>| {
            descriptors.into_iter().map(|descriptor| descriptor.declaration.name).collect::<Vec<_>>()
        };
        let together = names(make_names_unique(all.clone()));
        let others = names(make_names_unique(vec![all[1].clone(), all[0].clone()]));
        assert_eq!(others, [together[1].as_str(), together[0].as_str()]);
        assert!(together[0].starts_with("send_") && together[4] == "other", "{together:?}");
        let mut sorted = together.clone();
        sorted.sort();
        sorted.dedup();
        assert!(sorted.len() == 5 && together.iter().all(|name| name.len() <= MAX_TOOL_NAME_CHARS), "{together:?}");
        // A tool whose own name equals the hashed name of another.
        let taken = names(make_names_unique(vec![all[0].clone(), all[1].clone(), flow_tool("u6", &together[0])]));
        assert!(taken[0] != taken[1] && taken[1] != taken[2] && taken[0] != taken[2], "{taken:?}");
    }
}
