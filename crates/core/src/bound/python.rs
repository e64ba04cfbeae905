//! What the Python code of a block can do, by the names in it.

use unicode_normalization::UnicodeNormalization as _;

/// Names with which code can find every other name.
const REFLECTIVE_NAMES: [&str; 11] = [
    "attrgetter",
    "eval",
    "exec",
    "get_field",
    "get_type_hints",
    "getattr",
    "inspect",
    "locals",
    "methodcaller",
    "sys",
    "vars",
];
/// Parts of names with which code can find every other name.
const REFLECTIVE_PARTS: [&str; 2] = ["globals", "__"];

/// How the function of a block begins.
const SIGNATURE: &str = "def execute(";

/// Whether the Python code of a block can call models or send requests.
pub fn can_call_out(source: &str) -> bool {
    let names = BlockNames::read(source);
    names.can_use("httpx") || names.can_use("call_llm")
}

/// The names that a block uses.
pub(super) struct BlockNames {
    /// The whole text, in which identifiers have the form that Python compares.
    text: String,
    /// The same without comments, and with empty literals.
    code: String,
    has_reflection: bool,
}

impl BlockNames {
    pub(super) fn read(source: &str) -> BlockNames {
        let code: String = empty_literals(source).nfkc().collect();
        let has_reflection = REFLECTIVE_PARTS.iter().any(|part| code.contains(part))
            || list_identifiers(&code).any(|(_, name)| REFLECTIVE_NAMES.contains(&name));
        BlockNames { text: source.nfkc().collect(), code, has_reflection }
    }

    /// Whether the block can use a function of the sandbox: it names it, or finds names in other ways.
    pub(super) fn can_use(&self, name: &str) -> bool {
        self.has_reflection || self.text.contains(name)
    }

    /// Whether the block can write memory: it names it, or uses its context as a whole.
    pub(super) fn can_write_memory(&self) -> bool {
        self.can_use("memory") || self.passes_context_on()
    }

    /// Whether the context, the second parameter of `execute`, is used for more than fields of it whose names are literals.
    fn passes_context_on(&self) -> bool {
        let Some((_, after)) = self.code.split_once(SIGNATURE) else { return true };
        let (parameters, body) = split_parameters(after);
        let second = parameters.get(1).filter(|_| !parameters.iter().any(|parameter| parameter.contains('*')));
        let Some((_, context)) = second.and_then(|parameter| list_identifiers(parameter).next()) else { return true };
        list_identifiers(body).any(|(at, name)| name == context && !reads_literal_field(&body[at + name.len()..]))
    }
}

/// Splits the code after `(` into the parameters, which may have brackets in their annotations, and what follows `)`.
fn split_parameters(code: &str) -> (Vec<&str>, &str) {
    let (mut parameters, mut start, mut depth) = (Vec::new(), 0, 0_usize);
    for (at, c) in code.char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ',' if depth == 0 => {
                parameters.push(&code[start..at]);
                start = at + 1;
            }
            ')' if depth == 0 => {
                parameters.push(&code[start..at]);
                return (parameters, &code[at + 1..]);
            }
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    (parameters, "")
}

/// Whether code that follows a name reads a field of it, such as `["user"]` or `.get("user", None)`.
fn reads_literal_field(rest: &str) -> bool {
    let rest = rest.trim_start();
    let ends = |field: &str, ends: &[char]| {
        field.trim_start().strip_prefix("\"\"").is_some_and(|after| after.trim_start().starts_with(ends))
    };
    rest.strip_prefix('[').is_some_and(|field| ends(field, &[']']))
        || rest.strip_prefix(".get(").is_some_and(|field| ends(field, &[')', ',']))
}

/// The identifiers of a text, with their offsets.
fn list_identifiers(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let words = text.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| !word.is_empty());
    words.map(|word| (word.as_ptr() as usize - text.as_ptr() as usize, word))
}

/// The code without comments. Literals are empty; of a format string, the expressions follow it.
fn empty_literals(source: &str) -> String {
    let mut code = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        match first {
            '#' => rest = &rest[rest.find('\n').unwrap_or(rest.len())..],
            '"' | '\'' => {
                let (literal, after) = split_literal(rest, first);
                let prefix: String = code.chars().rev().take_while(char::is_ascii_alphabetic).take(3).collect();
                code.push_str("\"\"");
                if prefix.contains(['f', 'F']) {
                    push_expressions(literal, &mut code);
                }
                rest = after;
            }
            _ => {
                code.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    code
}

/// Splits a text that begins with a quotation mark into what is quoted and what follows.
fn split_literal(text: &str, mark: char) -> (&str, &str) {
    let long = mark.to_string().repeat(3);
    let (quote, may_have_lines) = if text.starts_with(&long) { (long.as_str(), true) } else { (&long[..1], false) };
    let inner = &text[quote.len()..];
    let mut is_escaped = false;
    for (at, c) in inner.char_indices() {
        let ends_line = c == '\n' && !may_have_lines && !is_escaped;
        if ends_line || (!is_escaped && inner[at..].starts_with(quote)) {
            let after = if ends_line { at } else { at + quote.len() };
            return (&inner[..at], &inner[after..]);
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    (inner, "")
}

/// Adds the expressions in the braces of a format string.
fn push_expressions(literal: &str, code: &mut String) {
    let mut depth = 0_usize;
    for c in literal.chars() {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ if depth > 0 => code.push(c),
            _ => {}
        }
        if matches!(c, '{' | '}') {
            code.push(' ');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write_block(code: &str) -> String {
        format!("async def execute(inputs, context):\n    {code}\n")
    }

    #[test]
    fn names_in_any_form_are_found() {
        let calls = [
            "return call_llm('', 'A')",
            "return \u{ff43}all_llm('', 'A')",
            "return eval ('call_' + 'llm')('', 'A')",
            "import \u{ff48}ttpx as h",
            "return vars()['x']",
            "return globals()['x']",
            "return f'{eval(x)}'",
            "return execute.__globals__",
        ];
        for code in calls {
            assert!(can_call_out(&write_block(code)), "{code}");
        }
        let silent = [
            "return {'evaluation': inputs['text'].upper()}",
            "return {'a': 'please eval this'}  # vars()",
            "return {'a': \"\"\"getattr\n'''sys''' \\\"\"\" + '\\''}",
            "return {'a': f'eval {inputs}'}",
            "return re.compile('x').sub('', inputs['sysname'])",
        ];
        for code in silent {
            assert!(!can_call_out(&write_block(code)), "{code}");
        }
    }

    #[test]
    fn a_context_that_is_passed_on_may_be_written_to() {
        let writes = [
            "context['memory']['k'] = 1",
            "context['mem' + 'ory']['k'] = 1",
            "context[key]['k'] = 1",
            "keep(context)",
            "for name in context: pass",
            "context.get('mem' + 'ory')",
        ];
        for code in writes {
            assert!(BlockNames::read(&write_block(code)).can_write_memory(), "{code}");
        }
        let reads =
            ["return context['user']", "return context.get('user', {})", "return call('the context', 1)", "pass"];
        for code in reads {
            assert!(!BlockNames::read(&write_block(code)).can_write_memory(), "{code}");
        }
        assert!(BlockNames::read("def execute(inputs, c):\n    c[k] = 1\n").can_write_memory());
        let annotated = "async def execute(inputs: dict[str, int], context: dict[str, object] = {}) -> dict:\n    ";
        assert!(BlockNames::read(&format!("{annotated}context[key] = 1\n")).can_write_memory());
        assert!(!BlockNames::read(&format!("{annotated}return context[\"user\"]\n")).can_write_memory());
        assert!(BlockNames::read("def execute(*given):\n    given[1][k] = 1\n").can_write_memory());
        assert!(!BlockNames::read("def execute(inputs, c=None):\n    return {'x': inputs[k]}\n").can_write_memory());
    }
}
