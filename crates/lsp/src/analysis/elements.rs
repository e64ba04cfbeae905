//! The actions of Markdown workflows and their attributes.

/// An action.
pub struct ElementKind {
    /// The name, as it is usually written.
    pub name: &'static str,
    /// Its effect.
    pub meaning: &'static str,
    /// The inserted text for a new one, as a snippet.
    pub skeleton: &'static str,
    /// Its attributes.
    pub attributes: &'static [AttributeKind],
}

/// An attribute of an action.
pub struct AttributeKind {
    /// The name.
    pub name: &'static str,
    /// Its meaning.
    pub meaning: &'static str,
    /// The inserted text for its value, as a snippet.
    pub value: &'static str,
}

const fn attribute(name: &'static str, meaning: &'static str, value: &'static str) -> AttributeKind {
    AttributeKind { name, meaning, value }
}

const AS: AttributeKind = attribute("as", "Required. The name of the result.", "\"$1\"");
const MODEL: AttributeKind =
    attribute("model", "Required. The provider and the model, with a colon between them: `openai:gpt-4o`.", "\"$1\"");
const ROLE: AttributeKind = attribute("role", "Added to the instructions.", "\"$1\"");
const STREAM: AttributeKind = attribute("stream", "`{false}` requests the answer as a whole.", "{${1|false,true|}}");
const TOOLS: AttributeKind =
    attribute("tools", "A list of functions of the configuration. The model may call them, up to 8 times.", "{[$1]}");
const OPTIONS: AttributeKind = attribute(
    "options",
    "`maxTokens`, `temperature`, `seed`, `stop`, `topP`, `topK`, `presencePenalty`, `frequencyPenalty`.",
    "{{ temperature: ${1:0.5} }}",
);
const PROVIDE: AttributeKind =
    attribute("provide", "The names that the content can use: `{{ name: value }}`.", "{{ $1 }}");

/// The actions.
pub const ELEMENTS: &[ElementKind] = &[
    ElementKind {
        name: "GenText",
        meaning: "Generates text. The context is all text above it in the phase.",
        skeleton: "<GenText as=\"${1:name}\" model=\"${2:model}\" />",
        attributes: &[AS, MODEL, ROLE, STREAM, TOOLS, OPTIONS],
    },
    ElementKind {
        name: "GenObject",
        meaning: "Generates data that fits a schema.",
        skeleton: "<GenObject\n  as=\"${1:name}\"\n  model=\"${2:model}\"\n  schema={\\$.z.object({\n    ${3:field}: \\$.z.string(),\n  })}\n/>",
        attributes: &[
            AS,
            MODEL,
            attribute("schema", "A JSON Schema, or one that is built with `$.z`.", "{\\$.z.object({ $1 })}"),
            attribute("schemaName", "Tells the model what the data is called.", "\"$1\""),
            attribute("schemaDescription", "Tells the model what the data means.", "\"$1\""),
            attribute(
                "output",
                "`array`: a list of such objects; `enum`: one of several strings; `no-schema`: any JSON.",
                "\"${1|object,array,enum,no-schema|}\"",
            ),
            attribute("enum", "The strings of `output=\"enum\"`.", "{[$1]}"),
            ROLE,
            TOOLS,
            OPTIONS,
        ],
    },
    ElementKind {
        name: "Loop",
        meaning: "Repeats its content. The result is a list with an object for each iteration.",
        skeleton: "<Loop as=\"${1:name}\" until={\\$.index >= ${2:3}} provide={{ $3 }}>\n  $0\n</Loop>",
        attributes: &[
            AS,
            attribute("until", "Required. The loop ends when it is true; evaluated before each iteration.", "{$1}"),
            PROVIDE,
            attribute("max", "Maximum number of iterations, 1000 by default. One more is an error.", "{${1:10}}"),
        ],
    },
    ElementKind {
        name: "Cond",
        meaning: "Runs its content if a condition is true. The result is an object with the results inside.",
        skeleton: "<Cond as=\"${1:name}\" if={$2} provide={{ $3 }}>\n  $0\n</Cond>",
        attributes: &[AS, attribute("if", "Whether the content runs.", "{$1}"), PROVIDE],
    },
    ElementKind {
        name: "Else",
        meaning: "Directly inside a `<Cond>`: runs if the condition is false.",
        skeleton: "<Else>\n  $0\n</Else>",
        attributes: &[],
    },
];

/// The action with a name, however it is written.
pub fn find_element(name: &str) -> Option<&'static ElementKind> {
    let plain = super::mdx::plain_name(name);
    ELEMENTS.iter().find(|element| super::mdx::plain_name(element.name) == plain)
}

/// Members of a JavaScript value or object, each with its meaning.
pub type Members = &'static [(&'static str, &'static str)];

/// The members of what has a type, or of a global object.
pub fn find_members(of: &str) -> Members {
    match of {
        "text" | "string" => TEXT_MEMBERS,
        "list" | "array" => LIST_MEMBERS,
        "number" | "integer" => NUMBER_MEMBERS,
        "Math" => MATH_MEMBERS,
        "JSON" => &[("stringify", "the value as JSON"), ("parse", "the value of a JSON text")],
        "Object" => &[
            ("keys", "the keys of an object"),
            ("values", "the values of an object"),
            ("entries", "the pairs of key and value"),
            ("fromEntries", "the object of pairs"),
            ("assign", "one object with the keys of several"),
        ],
        "Array" => {
            &[("isArray", "whether a value is a list"), ("from", "the list of a value"), ("of", "the list of values")]
        }
        "Number" => &[
            ("isInteger", "whether a value is a whole number"),
            ("isFinite", "whether a value is a finite number"),
            ("parseFloat", "the number in a string"),
            ("parseInt", "the whole number in a string"),
        ],
        "Date" => &[("now", "the time in milliseconds"), ("parse", "the time in a string, in milliseconds")],
        "$" => LOOP_MEMBERS,
        _ => &[],
    }
}

/// The functions of `$.z` that begin a schema.
pub const SCHEMA_BUILDERS: [&str; 16] = [
    "object",
    "array",
    "string",
    "number",
    "boolean",
    "int",
    "enum",
    "literal",
    "union",
    "discriminatedUnion",
    "tuple",
    "record",
    "date",
    "null",
    "any",
    "unknown",
];

/// The global names of expressions.
pub const GLOBALS: [&str; 11] =
    ["Object", "Array", "String", "Number", "Boolean", "Date", "Math", "JSON", "RegExp", "dedent", "include"];

const LOOP_MEMBERS: Members = &[
    ("index", "the number of the iteration, from 0"),
    ("self", "all iterations, in the content including the current one"),
    ("last", "the last finished iteration"),
];

const TEXT_MEMBERS: Members = &[
    ("length", "the number of characters"),
    ("trim", "the text without white space at its ends"),
    ("split", "the list of the parts between separators"),
    ("includes", "whether the text contains another one"),
    ("startsWith", "whether the text begins with another one"),
    ("endsWith", "whether the text ends with another one"),
    ("indexOf", "the position of another text, or -1"),
    ("replace", "the text with the first match replaced"),
    ("replaceAll", "the text with every match replaced"),
    ("slice", "a part of the text"),
    ("toLowerCase", "the text in lower case"),
    ("toUpperCase", "the text in upper case"),
    ("match", "the match of a regular expression, or null"),
    ("padStart", "the text, filled up at its start"),
    ("padEnd", "the text, filled up at its end"),
    ("repeat", "the text several times"),
    ("at", "the character at a position"),
    ("concat", "the text with others after it"),
];

const LIST_MEMBERS: Members = &[
    ("length", "the number of items"),
    ("map", "the list of a function's results"),
    ("filter", "the items for which a function is true"),
    ("join", "the items as one text"),
    ("find", "the first item for which a function is true"),
    ("some", "whether a function is true for an item"),
    ("every", "whether a function is true for every item"),
    ("includes", "whether the list has an item"),
    ("slice", "a part of the list"),
    ("at", "the item at a position; the last one at -1"),
    ("concat", "the list with others after it"),
    ("flat", "the list with the items of its lists"),
    ("flatMap", "the items of a function's results"),
    ("reduce", "one value from all items"),
    ("sort", "the items in order"),
    ("reverse", "the items from the last to the first"),
    ("indexOf", "the position of an item, or -1"),
];

const NUMBER_MEMBERS: Members =
    &[("toFixed", "the number with a number of decimals"), ("toString", "the number as text")];

const MATH_MEMBERS: Members = &[
    ("round", "the nearest whole number"),
    ("floor", "the whole number below"),
    ("ceil", "the whole number above"),
    ("abs", "the number without its sign"),
    ("min", "the smallest of several numbers"),
    ("max", "the largest of several numbers"),
    ("pow", "a power"),
    ("sqrt", "the square root"),
    ("trunc", "the number without its decimals"),
];
