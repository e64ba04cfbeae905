//! Block definitions: from the file of the pipeline, from files below `blocks/`, and built-in ones.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, LazyLock};

use flowloom_core::chat::{GenerateOptions, Role};
use flowloom_core::code::Code;
use flowloom_core::diagnostic::{Diagnostic, Fix, Span};
use flowloom_core::expr::{Data, Missing, Template, TextRules};
use flowloom_core::json::{Node, parse_node, parse_value};
use flowloom_core::plan::{Block, BlockCode, EffectClass, Generate};
use flowloom_core::render::{self, TextStyle, shorten_text};
use flowloom_core::value::{Map, Value};

use super::{BLOCKS_FOLDER, template};
use crate::json_schema::{list_schema_problems, read_type_list};
use crate::problems::Problems;
use crate::reader::{Fields, find_pointer_span, find_span, label_span};
use crate::sources::Sources;
use crate::wording::ORIGINAL_WORDING;

/// The text rules of block prompts: non-text values become JSON, and references to unknown inputs keep their source
/// text.
const PROMPT_RULES: TextRules = TextRules {
    missing: Missing::Keep,
    null_is_missing: false,
    style: TextStyle::PythonJson,
    keeps_type: false,
    wording: ORIGINAL_WORDING,
};

/// The definitions of the built-in blocks, as JSON.
const BUILT_IN_JSON: &str = include_str!("built_in.json");

/// The field whose presence in an output means failure.
const FAILURE_FIELD: &str = "error";

/// The field of the output with an answer that holds no JSON object.
const RAW_FIELD: &str = "raw";

/// Maximum length of a schema in a message, in characters.
const MAX_SHOWN_SCHEMA_CHARS: usize = 200;

/// The keys of a block.
const KNOWN_KEYS: [&str; 15] = [
    "id",
    "name",
    "description",
    "use_when",
    "category",
    "tags",
    "execution_type",
    "source_code",
    "prompt_template",
    "function_id",
    "input_schema",
    "output_schema",
    "examples",
    "metadata",
    "created_at",
];

/// Keywords of a schema that can declare inputs besides `properties`.
const OPEN_KEYWORDS: [&str; 5] = ["patternProperties", "$ref", "allOf", "anyOf", "oneOf"];

/// The definitions of the built-in blocks, available to every pipeline.
pub fn built_in_blocks() -> &'static [Value] {
    static BLOCK_TYPES: LazyLock<Value> = LazyLock::new(|| parse_value(BUILT_IN_JSON).unwrap_or_default());
    BLOCK_TYPES.as_list().unwrap_or_default()
}

/// Checks the definition of a block outside a pipeline.
pub fn check_block(block: &Value) -> Vec<Diagnostic> {
    let mut problems = Problems::new("block");
    report_missing_parts(block, |_| Span::default(), &mut problems);
    problems.into_list().0
}

/// The known blocks, by id.
pub(super) struct BlockCatalog {
    map: BTreeMap<String, BlockDefinition>,
    /// The problems of blocks in other files, by id. They concern only who uses the block.
    deferred: BTreeMap<String, Vec<Diagnostic>>,
    /// The problems of files that cannot be read, which may define any block.
    unreadable: Vec<Diagnostic>,
}

/// The definition of a block.
#[derive(Clone, Debug)]
pub(super) struct BlockDefinition {
    pub(super) id: String,
    content: Value,
    /// Whether it is a built-in block, which another block with the same id overrides.
    pub(super) is_built_in: bool,
    /// Size of the definition as JSON, in bytes.
    pub(super) size_bytes: usize,
    required: Arc<Vec<String>>,
}

impl BlockCatalog {
    /// Loads all blocks. Blocks of the file override those of the folder, which override built-in ones. `places` are the
    /// objects of the file, whose content is `text`, that may have a list of blocks.
    pub(super) fn load_blocks(
        file: &str,
        text: &str,
        places: &[&Node],
        sources: &Sources,
        problems: &mut Problems,
    ) -> BlockCatalog {
        let mut blocks = BlockCatalog { map: BTreeMap::new(), deferred: BTreeMap::new(), unreadable: Vec::new() };
        built_in_blocks().iter().for_each(|block| blocks.add_block(block.clone(), true));
        for (path, bytes) in &sources.files {
            if path != file && is_block_file(path) {
                blocks.add_file(path, &String::from_utf8_lossy(bytes));
            }
        }
        let embedded = places.iter().filter_map(|place| place.get("blocks").and_then(Node::items));
        for node in embedded.flatten() {
            let value = report_node(node, text, problems);
            // What the folder has under this id is not used.
            value.get("id").and_then(Value::as_str).map(|id| blocks.deferred.remove(id));
            blocks.add_block(value, false);
        }
        blocks
    }

    fn add_file(&mut self, path: &str, text: &str) {
        let node = match parse_node(text) {
            Ok((node, _)) => node,
            Err(error) => {
                let code = crate::reader::json_code(error.kind);
                self.unreadable.push(Diagnostic::new_error(code, path, error.span, error.message));
                return;
            }
        };
        for block in node.items().unwrap_or(std::slice::from_ref(&node)) {
            let mut problems = Problems::new(path);
            let value = report_node(block, text, &mut problems);
            if let Some(id) = value.get("id").and_then(Value::as_str) {
                self.deferred.insert(id.to_owned(), problems.into_list().0);
            }
            self.add_block(value, false);
        }
    }

    /// The problems that concern who uses this block, each once.
    pub(super) fn take_problems(&mut self, id: &str) -> Vec<Diagnostic> {
        match self.map.contains_key(id) {
            true => self.deferred.remove(id).unwrap_or_default(),
            false => std::mem::take(&mut self.unreadable),
        }
    }

    fn add_block(&mut self, content: Value, is_built_in: bool) {
        if let Some(id) = content.get("id").and_then(Value::as_str) {
            let id = id.to_owned();
            let size_bytes = render::to_json(&content).len();
            let required = required_inputs(&content).into();
            self.map.insert(id.clone(), BlockDefinition { id, content, is_built_in, size_bytes, required });
        }
    }

    pub(super) fn get(&self, id: &str) -> Option<&BlockDefinition> {
        self.map.get(id)
    }

    pub(super) fn block_ids(&self) -> impl Iterator<Item = &str> {
        self.map.keys().map(String::as_str)
    }
}

/// Whether a file of the bundle contains blocks.
fn is_block_file(path: &str) -> bool {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    (folder == "blocks" || folder.ends_with("/blocks")) && path.ends_with(".json")
}

/// The block at a node of a file with this text. Its problems are reported.
fn report_node(node: &Node, text: &str, problems: &mut Problems) -> Value {
    let value = node.to_value();
    report_missing_parts(&value, |key| node.get(key).map_or_else(|| label_span(node), |part| part.span), problems);
    report_bad_schemas(&value, node, problems);
    report_secrets(&value, node, problems);
    report_misspelt_inputs(&value, node, text, problems);
    if let Some(fields) = Fields::read_object(node, "a block", problems) {
        fields.warn_unknown_keys(&KNOWN_KEYS, problems);
    }
    value
}

/// Reports missing parts of a block. `span_of` is the place of a part, or that of the block if it is missing.
fn report_missing_parts(block: &Value, span_of: impl Fn(&str) -> Span, problems: &mut Problems) {
    let text = |key: &str| block.get(key).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
    let Some(id) = text("id") else {
        problems.add_error(Code::BlockIncomplete, span_of("id"), "a block has no \"id\"").help =
            Some("nodes name a block by its id; give it one".into());
        return;
    };
    if text("category") == Some("trigger") {
        return;
    }
    let kind = text("execution_type").unwrap_or("python");
    let lacks = match kind {
        "python" => text("source_code").is_none().then_some("source_code"),
        "llm" => text("prompt_template").is_none().then_some("prompt_template"),
        "function" => text("function_id").is_none().then_some("function_id"),
        other => {
            let message = format_args!(
                "the block {id} has the execution_type {other:?}; there are \"python\", \"llm\" and \"function\""
            );
            problems.add_error(Code::BlockIncomplete, span_of("execution_type"), message).help =
                Some("write it in Python, as a prompt, or name a function".into());
            return;
        }
    };
    if let Some(key) = lacks {
        let message = format_args!("the block {id} is {kind} and has no {key:?}");
        problems.add_error(Code::BlockIncomplete, span_of(key), message).help =
            Some(format!("put it into the block's definition, in the file or in {BLOCKS_FOLDER}{id}.json"));
    }
}

/// Reports references to secrets in the parts of a block. Only inputs of nodes have such references: a model or a request
/// would receive the text of the reference.
fn report_secrets(block: &Value, node: &Node, problems: &mut Problems) {
    let id = block.get("id").and_then(Value::as_str).unwrap_or_default();
    let defaults = block.get("input_schema").and_then(|schema| schema.get("properties")?.as_map());
    let defaults = defaults.into_iter().flat_map(|inputs| inputs.values()).filter_map(|input| input.get("default"));
    let parts = ["source_code", "prompt_template"].into_iter().filter_map(|key| Some((key, block.get(key)?)));
    for (key, text) in parts.chain(defaults.map(|default| ("input_schema", default))) {
        let references = template::parse(text.as_str().unwrap_or_default());
        let Some(name) = references.iter_secrets().next() else { continue };
        let message = format_args!("the secret {name} cannot be in {key:?} of the block {id}");
        problems.add_error(Code::SecretPlace, node.get(key).map_or(node.span, |part| part.span), message).help =
            Some("secrets can be in the inputs of nodes whose blocks call a function, such as http_request".to_owned());
    }
}

/// Warns about placeholders of a prompt that are probably misspelt inputs. Others may be text that is meant to stay.
fn report_misspelt_inputs(block: &Value, node: &Node, source: &str, problems: &mut Problems) {
    let text = |key: &str| block.get(key).and_then(Value::as_str).unwrap_or_default();
    let Some(inputs) = block.get("input_schema").and_then(|schema| schema.get("properties")?.as_map()) else { return };
    let mut seen = HashSet::new();
    for reference in template::parse_prompt(text("prompt_template")).iter_refs() {
        let name = reference.source.trim_matches(['{', '}']);
        if inputs.contains_key(name) || !problems.has_room_for_warning() || !seen.insert(name.to_owned()) {
            continue;
        }
        let Some(similar) = problems.find_similar(name, inputs.keys().map(|input| &**input)) else { continue };
        let at = node.get("prompt_template").map_or(node.span, |prompt| prompt.span);
        let span = find_span(source, at, &format!("{{{name}}}"));
        let message = format_args!("the block {} has no input {name}; did you mean {similar}?", text("id"));
        let diagnostic = problems.add_warning(Code::UnknownVariable, span, message);
        diagnostic.help = Some("the placeholder stays in the prompt as it is".to_owned());
        diagnostic.fix = Some(Fix::new_suggestion(format!("write {similar}"), vec![(span, format!("{{{similar}}}"))]));
    }
}

/// Reports all problems of schemas that are not valid, since nothing could be held to them.
fn report_bad_schemas(block: &Value, node: &Node, problems: &mut Problems) {
    let id = block.get("id").and_then(Value::as_str).unwrap_or_default();
    for key in ["input_schema", "output_schema"] {
        for why in block.get(key).map(list_schema_problems).unwrap_or_default() {
            let span = node.get(key).map_or(node.span, |schema| find_pointer_span(schema, &why.pointer));
            let message = format_args!("{key:?} of the block {id} is not a valid JSON Schema: {why}");
            problems.add_error(Code::BadSchema, span, message).help = why.help.map(str::to_owned);
        }
        if let Some(meant) = block.get(key).and_then(read_type_list) {
            let span = node.get(key).map_or(node.span, |schema| schema.span);
            let message =
                format_args!("{key:?} of the block {id} has no keyword of JSON Schema, so it accepts everything");
            problems.add_warning(Code::BadSchema, span, message).help =
                Some(format!("write {}", shorten_text(&meant.to_string(), MAX_SHOWN_SCHEMA_CHARS)));
        }
    }
}

/// Names of the inputs of a block that are required and have no default.
fn required_inputs(block: &Value) -> Vec<String> {
    let Some(schema) = block.get("input_schema") else { return Vec::new() };
    let has_default = |name: &str| schema.get("properties").and_then(|all| all.get(name)?.get("default")).is_some();
    let required = schema.get("required").and_then(Value::as_list).unwrap_or_default();
    required.iter().filter_map(Value::as_str).filter(|name| !has_default(name)).map(str::to_owned).collect()
}

/// The output of a trigger.
pub(super) fn trigger_output(block: &str) -> Value {
    Value::map([("status", "triggered".into()), ("trigger_type", Value::from(block))])
}

impl BlockDefinition {
    fn text_field(&self, key: &str) -> &str {
        self.content.get(key).and_then(Value::as_str).unwrap_or_default()
    }

    fn schema_field(&self, key: &str) -> Option<Value> {
        let says_something = |schema: &&Value| match schema {
            Value::Map(map) => !map.is_empty(),
            schema => schema.as_bool() == Some(false),
        };
        self.content.get(key).filter(says_something).cloned()
    }

    /// Whether the block only triggers a pipeline.
    pub(super) fn is_trigger(&self) -> bool {
        self.text_field("category") == "trigger"
    }

    /// The function that the block calls, if it has no code of its own.
    pub(super) fn function_id(&self) -> Option<&str> {
        (self.text_field("execution_type") == "function" && !self.is_trigger()).then(|| self.text_field("function_id"))
    }

    /// Names of the inputs that a node must supply.
    pub(super) fn required_inputs(&self) -> &[String] {
        &self.required
    }

    /// All inputs of the block; `None` if its schema does not list them all.
    pub(super) fn all_inputs(&self) -> Option<&Map> {
        let schema = self.content.get("input_schema").filter(|_| !self.is_trigger())?;
        let allows_others = schema.get("additionalProperties").is_some_and(|others| others.as_bool() != Some(false));
        let is_open = allows_others || OPEN_KEYWORDS.iter().any(|keyword| schema.get(keyword).is_some());
        let declared = schema.get("properties")?.as_map()?;
        (!is_open && !declared.is_empty()).then_some(declared)
    }

    /// The schemas of the inputs that the block declares.
    pub(super) fn declared_inputs(&self) -> Option<&Map> {
        self.content.get("input_schema").filter(|_| !self.is_trigger())?.get("properties")?.as_map()
    }

    /// The output fields, if they are known. Those of a trigger do not depend on its schema.
    pub(super) fn output_fields(&self) -> Option<&Map> {
        static TRIGGER_FIELDS: LazyLock<Value> = LazyLock::new(|| trigger_output(""));
        match self.is_trigger() {
            true => TRIGGER_FIELDS.as_map(),
            false => self.content.get("output_schema")?.get("properties")?.as_map(),
        }
    }

    /// What lists the output fields, for messages.
    pub(super) fn describe_output(&self, node: &str) -> String {
        match self.is_trigger() {
            true => format!("the output of the trigger {node}"),
            false => format!("the output_schema of the block of {node}"),
        }
    }

    /// The block as a step with these inputs.
    pub(super) fn build_block(&self, inputs: Data) -> Block {
        let code = match self.text_field("execution_type") {
            "llm" => BlockCode::Prompt {
                generate: Box::new(self.build_prompt()),
                text: PROMPT_RULES,
                raw_field: self.schema_field("output_schema").is_none().then(|| RAW_FIELD.into()),
            },
            "function" => BlockCode::Function(self.text_field("function_id").into()),
            _ => {
                let source = self.text_field("source_code");
                // A request that writes may have arrived before a crash; one that only reads can be repeated.
                let writes = ["httpx.post", "httpx.put", "httpx.patch", "httpx.delete", "httpx.request", "Client("];
                let is_safe = !writes.iter().any(|call| source.contains(call));
                let effect = if is_safe { EffectClass::AtLeastOnce } else { EffectClass::AtMostOnce };
                BlockCode::Python { source: source.into(), effect }
            }
        };
        Block {
            id: self.id.as_str().into(),
            code,
            inputs,
            input_schema: self.schema_field("input_schema"),
            output_schema: self.schema_field("output_schema"),
            failure: Some(FAILURE_FIELD.into()),
        }
    }

    /// The model call of an LLM block. The instructions are generated; the template is the author's.
    fn build_prompt(&self) -> Generate {
        let name = Some(self.text_field("name")).filter(|name| !name.is_empty()).unwrap_or(&self.id);
        let mut system = format!("You are the block \"{name}\" of a pipeline.");
        for (label, key) in [("Task", "description"), ("Used when", "use_when")] {
            if !self.text_field(key).is_empty() {
                system.push_str(&format!("\n{label}: {}", self.text_field(key)));
            }
        }
        let example =
            self.content.get("examples").and_then(Value::as_list).and_then(|list| list.first()?.get("outputs"));
        if let Some(example) = example {
            system.push_str(&format!("\nAn output looks like this: {}", render::to_json(example)));
        }
        system.push_str("\nAnswer with one JSON object and nothing else.");
        let any_object = || Value::map([("type", Value::from("object"))]);
        Generate {
            model: None,
            system: Some(Data::Text(Template::from_literal(&system))),
            thread: None,
            messages: vec![(Role::User, Data::Text(template::parse_prompt(self.text_field("prompt_template"))))],
            schema: Some(self.schema_field("output_schema").unwrap_or_else(any_object)),
            options: GenerateOptions { temperature: Some(0.0), ..GenerateOptions::default() },
            computed: None,
        }
    }
}
