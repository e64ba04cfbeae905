//! Reads pages of cases in Markdown. `tests/conformance/README.md` describes the format of a page.

use flowloom_core::json::parse_value;
use flowloom_core::value::{Map, Value};
use markdown::ParseOptions;
use markdown::mdast::{Code, Heading, Node};

use crate::TestCase;

/// The file of a definition whose block names no other file.
const MAIN_FILE: &str = "main.mdx";

/// Reads the cases of a page, in order. An error names the line.
pub(crate) fn read_page(text: &str) -> Result<Vec<TestCase>, String> {
    let page = markdown::to_mdast(text, &ParseOptions::default()).map_err(|error| error.to_string())?;
    let mut cases: Vec<PageCase> = Vec::new();
    for node in page.children().into_iter().flatten() {
        let line = node.position().map_or(0, |position| position.start.line);
        let added = match (node, cases.last_mut()) {
            (Node::Heading(Heading { depth: 2, .. }), _) => {
                cases.push(PageCase::new(node.to_string()));
                Ok(())
            }
            (Node::Heading(Heading { depth: 3, .. }), Some(case)) => case.start_section(&node.to_string()),
            (Node::Code(block), Some(case)) => case.add_block(block),
            (Node::Code(_), None) => Err("a block stands before the first case".to_owned()),
            // Everything else is for the reader.
            _ => Ok(()),
        };
        added.map_err(|message| format!("line {line}: {message}"))?;
    }
    Ok(cases.into_iter().map(PageCase::into_case).collect())
}

/// A case while its blocks are read.
struct PageCase {
    id: String,
    files: Map,
    inputs: Value,
    script: Vec<Value>,
    calls: Vec<PageCall>,
    /// Whether messages belong to the last call.
    is_in_call: bool,
    expected: Map,
}

/// A model call that a case expects.
struct PageCall {
    model: String,
    messages: Vec<Value>,
    /// Everything except the model and the messages.
    request: Map,
}

impl PageCase {
    fn new(id: String) -> PageCase {
        PageCase {
            id,
            files: Map::new(),
            inputs: Map::new().into(),
            script: Vec::new(),
            calls: Vec::new(),
            is_in_call: false,
            expected: Map::new(),
        }
    }

    fn start_section(&mut self, heading: &str) -> Result<(), String> {
        let model = heading.strip_prefix("Call ");
        self.is_in_call = model.is_some();
        match (model, heading) {
            (Some(model), _) => {
                self.calls.push(PageCall { model: model.to_owned(), messages: Vec::new(), request: Map::new() });
                Ok(())
            }
            (None, "Unused answers" | "Result") => Ok(()),
            (None, heading) => Err(format!("the section {heading:?} is not known")),
        }
    }

    fn add_block(&mut self, block: &Code) -> Result<(), String> {
        let meta = block.meta.as_deref();
        match (block.lang.as_deref(), meta) {
            (Some("mdx"), name) => {
                self.files.insert(name.unwrap_or(MAIN_FILE).into(), format!("{}\n", block.value).into());
                Ok(())
            }
            (Some("json"), Some(name)) => {
                let value = parse_value(&block.value).map_err(|error| error.to_string())?;
                self.add_value(name, value)
            }
            (Some(name), None) => self.add_value(name, block.value.as_str().into()),
            _ => Err("a block needs a name".to_owned()),
        }
    }

    fn add_value(&mut self, name: &str, value: Value) -> Result<(), String> {
        let call = self.calls.last_mut().filter(|_| self.is_in_call);
        match (name, call) {
            ("inputs", None) => self.inputs = value,
            ("answer", _) => self.script.push(value),
            ("results" | "output" | "title" | "error" | "diagnostics", None) => {
                self.expected.insert(name.into(), value);
            }
            ("user" | "assistant", Some(call)) => {
                call.messages.push(Value::map([("role", name.into()), ("content", value)]));
            }
            ("request", Some(call)) => call.request = value.as_map().cloned().ok_or("a request is an object")?,
            (name, _) => return Err(format!("a block {name:?} cannot stand here")),
        }
        Ok(())
    }

    /// The case in the form of a JSON case. A case without results is only checked.
    fn into_case(mut self) -> TestCase {
        let is_run = self.expected.contains_key("results");
        if is_run {
            let calls = self.calls.into_iter().map(PageCall::into_value).collect();
            self.expected.insert("calls".into(), Value::list(calls));
        }
        let content = Value::map([
            ("system", Value::from("markdown")),
            ("kind", if is_run { "markdown-run" } else { "markdown-check" }.into()),
            ("files", self.files.into()),
            ("inputs", self.inputs),
            ("script", Value::list(self.script)),
            ("expected", self.expected.into()),
        ]);
        TestCase { id: self.id, content }
    }
}

impl PageCall {
    fn into_value(self) -> Value {
        let kind = if self.request.contains_key("schema") { "object" } else { "text" };
        let mut call = self.request;
        call.insert("model".into(), self.model.into());
        call.insert("kind".into(), kind.into());
        call.insert("messages".into(), Value::list(self.messages));
        if !call.contains_key("options") {
            call.insert("options".into(), default_options());
        }
        call.into()
    }
}

/// The options of a call that states none.
fn default_options() -> Value {
    parse_value(r#"{"temperature": 0.5}"#).expect("valid JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_error(text: &str) -> String {
        read_page(text).err().expect("an error")
    }

    #[test]
    fn a_case_is_read() {
        let page = "# Page\n\nProse.\n\n## a-case\n\nWhy.\n\n```mdx\nHi {x}\n```\n\n```json inputs\n{\"x\": 1}\n```\n\n\
                    ### Call p:m\n\n```user\nHi 1\n```\n\n```answer\nHo\n```\n\n### Result\n\n```json results\n{}\n```\n";
        let cases = read_page(page).expect("a page");
        let expected = r#"{"system": "markdown", "kind": "markdown-run", "files": {"main.mdx": "Hi {x}\n"},
            "inputs": {"x": 1}, "script": ["Ho"], "expected": {"results": {}, "calls": [
            {"model": "p:m", "kind": "text", "messages": [{"role": "user", "content": "Hi 1"}],
             "options": {"temperature": 0.5}}]}}"#;
        assert_eq!(cases.len(), 1);
        assert_eq!(cases[0].id, "a-case");
        assert_eq!(cases[0].content, parse_value(expected).expect("valid"));
    }

    #[test]
    fn what_is_not_known_is_an_error_with_its_line() {
        assert_eq!(read_error("```mdx\n```"), "line 1: a block stands before the first case");
        assert_eq!(read_error("## a\n\n### Calls"), "line 3: the section \"Calls\" is not known");
        assert_eq!(read_error("## a\n\n```outptu\n```"), "line 3: a block \"outptu\" cannot stand here");
        assert_eq!(read_error("## a\n\n```user\n```"), "line 3: a block \"user\" cannot stand here");
        assert_eq!(read_error("## a\n\n```\n```"), "line 3: a block needs a name");
    }
}
