//! The names of a definition: what they name, where they are declared, and where they are used.

use std::sync::Arc;

use flowloom_core::diagnostic::Span;
use flowloom_core::value::Value;

/// The kind of thing that a name refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NameKind {
    /// A variable, an input or the result of an action.
    Variable,
    /// A node of a pipeline or of a graph.
    Node,
    /// The name by which the agents of a graph choose a node.
    Destination,
    /// An agent of a graph.
    Agent,
    /// A block of a pipeline.
    Block,
    /// An input of a block.
    Field,
    /// A function.
    Function,
    /// A tool of an agent.
    Tool,
    /// A model.
    Model,
}

impl NameKind {
    /// The kind for people.
    pub fn describe(self) -> &'static str {
        match self {
            NameKind::Variable => "variable",
            NameKind::Node => "node",
            NameKind::Destination => "destination",
            NameKind::Agent => "agent",
            NameKind::Block => "block",
            NameKind::Field => "input",
            NameKind::Function => "function",
            NameKind::Tool => "tool",
            NameKind::Model => "model",
        }
    }

    /// Whether all uses of such a name can be found. The code of a block reads its inputs in ways that only Python knows.
    pub fn can_be_renamed(self) -> bool {
        !matches!(self, NameKind::Function | NameKind::Tool | NameKind::Model | NameKind::Field)
    }
}

/// The use of a name at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// It is declared.
    Declared,
    /// It gets a value.
    Written,
    /// It is used.
    Read,
}

/// A name at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// The kind of thing that it names.
    pub kind: NameKind,
    /// The name.
    pub text: String,
    /// The place of the name alone.
    pub span: Span,
    /// Its use there.
    pub role: Role,
    /// The scope in which it is looked up; 0 is the outermost one.
    pub scope: usize,
    /// Of a declaration: the type of the value and where it comes from.
    pub about: About,
    /// Whether the place also is the key of an object, as in `{ text }`.
    pub is_shorthand: bool,
}

/// The type of a variable and where its value comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// The type, such as `text`; empty if it is not known.
    pub type_name: String,
    /// Where the value comes from; empty if that is not known.
    pub origin: String,
    /// The fields of the value, if they are known.
    pub fields: Vec<ValueField>,
}

/// A field of a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValueField {
    /// Its name.
    pub name: String,
    /// The type of its value, such as `string`; empty if it is not known.
    pub type_name: String,
    /// Its description; empty if there is none.
    pub description: String,
    /// The fields of its value, or of the items of its value if that is a list.
    pub fields: Vec<ValueField>,
    /// The type of the items of its value if that is a list; empty if it is not known.
    pub item_type: String,
}

/// Maximum number of objects and lists within each other whose fields are read.
const MAX_FIELD_DEPTH: usize = 8;

impl ValueField {
    /// A field of which only the name is known.
    pub fn new(name: &str) -> ValueField {
        ValueField { name: name.to_owned(), ..ValueField::default() }
    }

    /// A field with the type and the description that its schema gives.
    pub fn of_schema(name: &str, schema: &Value) -> ValueField {
        ValueField::of_inner_schema(name, schema, 0)
    }

    fn of_inner_schema(name: &str, schema: &Value, depth: usize) -> ValueField {
        let text = |schema: &Value, key: &str| schema.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let items = schema.get("items");
        let properties = items.unwrap_or(schema).get("properties").and_then(Value::as_map);
        let read = |(name, schema): (&Arc<str>, &Value)| ValueField::of_inner_schema(name, schema, depth + 1);
        ValueField {
            name: name.to_owned(),
            type_name: text(schema, "type"),
            description: text(schema, "description"),
            fields: properties
                .filter(|_| depth < MAX_FIELD_DEPTH)
                .map(|all| all.iter().map(read).collect())
                .unwrap_or_default(),
            item_type: items.map(|items| text(items, "type")).unwrap_or_default(),
        }
    }

    /// Whether the value is a list.
    pub fn is_list(&self) -> bool {
        matches!(self.type_name.as_str(), "list" | "array")
    }

    /// An item of the value.
    pub fn to_item(&self) -> Option<ValueField> {
        let item =
            || ValueField { type_name: self.item_type.clone(), fields: self.fields.clone(), ..ValueField::default() };
        self.is_list().then(item)
    }
}

impl Name {
    /// A name in the outermost scope.
    pub fn new(kind: NameKind, text: &str, span: Span, role: Role) -> Name {
        Name { kind, text: text.to_owned(), span, role, scope: 0, about: About::default(), is_shorthand: false }
    }

    /// Whether it refers to the same thing as another name of the same definition.
    pub fn is_same(&self, other: &Name) -> bool {
        self.kind == other.kind && self.scope == other.scope && self.text == other.text
    }

    /// Whether this is a place where the name gets its meaning.
    pub fn is_origin(&self) -> bool {
        self.role != Role::Read
    }
}
