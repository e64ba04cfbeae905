//! Which names a variable can have so that expressions can read it.

/// Names that no expression may use, not even as a property.
const RESTRICTED_NAMES: [&str; 24] = [
    "eval",
    "Function",
    "window",
    "document",
    "global",
    "globalThis",
    "process",
    "require",
    "module",
    "exports",
    "__dirname",
    "__filename",
    "setTimeout",
    "setInterval",
    "setImmediate",
    "clearTimeout",
    "clearInterval",
    "clearImmediate",
    "Promise",
    "Proxy",
    "Reflect",
    "constructor",
    "__proto__",
    "prototype",
];

/// Words that are no names in expressions.
const RESERVED_WORDS: [&str; 52] = [
    "Infinity",
    "NaN",
    "arguments",
    "async",
    "await",
    "break",
    "case",
    "catch",
    "class",
    "const",
    "continue",
    "debugger",
    "default",
    "delete",
    "do",
    "else",
    "enum",
    "eval",
    "export",
    "extends",
    "false",
    "finally",
    "for",
    "function",
    "if",
    "implements",
    "import",
    "in",
    "instanceof",
    "interface",
    "let",
    "new",
    "null",
    "package",
    "private",
    "protected",
    "public",
    "return",
    "static",
    "super",
    "switch",
    "this",
    "throw",
    "true",
    "try",
    "typeof",
    "undefined",
    "var",
    "void",
    "while",
    "with",
    "yield",
];

/// Whether no expression may use a name, not even as a property.
pub(super) fn is_restricted(name: &str) -> bool {
    RESTRICTED_NAMES.contains(&name)
}

/// Whether expressions can read a variable with this name: it is an identifier, and means nothing else in JavaScript.
///
/// # Examples
///
/// ```
/// use flowloom_formats::markdown::can_name_variable;
///
/// assert!(can_name_variable("topic") && can_name_variable("draft_2"));
/// assert!(!can_name_variable("document") && !can_name_variable("class") && !can_name_variable("1st"));
/// ```
pub fn can_name_variable(name: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let is_identifier = !name.starts_with(|c: char| c.is_ascii_digit()) && name.chars().all(is_word);
    is_identifier && !name.is_empty() && !RESERVED_WORDS.contains(&name) && !is_restricted(name)
}
