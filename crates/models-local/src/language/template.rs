//! Renders a conversation with the chat template of a GGUF file. Produces text only; `vocabulary` splits it into
//! tokens.

use flowloom_core::chat::{Message, Role, ToolDeclaration};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Value, from_args};
use minijinja::{Environment, Error, ErrorKind, State, context};

/// Default template for files without one: ChatML, which most small models know.
const CHATML_TEMPLATE: &str = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + \
                      '<|im_end|>' + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}\
                      {% endif %}";

/// A compiled chat template.
pub(crate) struct ChatTemplate {
    environment: Environment<'static>,
    bos: String,
    eos: String,
}

impl ChatTemplate {
    /// Compiles `source`, or the ChatML template if there is none.
    pub(crate) fn new(source: Option<&str>, bos: &str, eos: &str) -> Result<ChatTemplate, Error> {
        let mut environment = Environment::new();
        // Settings of the library that such templates are written for.
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax?);
        environment.set_unknown_method_callback(call_python_method);
        environment.add_function("raise_exception", |message: String| -> Result<String, Error> {
            Err(Error::new(ErrorKind::InvalidOperation, message))
        });
        environment.add_template_owned("chat", source.unwrap_or(CHATML_TEMPLATE).to_owned())?;
        Ok(ChatTemplate { environment, bos: bos.to_owned(), eos: eos.to_owned() })
    }

    /// The prompt that asks for the assistant's next message.
    pub(crate) fn render_prompt(&self, messages: &[Message], tools: &[ToolDeclaration]) -> Result<String, Error> {
        let messages: Vec<Value> = plain_messages(messages, tools)
            .into_iter()
            .map(|(role, content)| context! { role => role, content => content })
            .collect();
        self.environment.get_template("chat")?.render(context! {
            messages => messages,
            add_generation_prompt => true,
            bos_token => &self.bos,
            eos_token => &self.eos,
        })
    }
}

/// Every message as role and text. Tools are described in the system message and calls written as `<tool_call>` text,
/// because few templates support tools.
fn plain_messages(messages: &[Message], tools: &[ToolDeclaration]) -> Vec<(&'static str, String)> {
    let mut plain: Vec<(&'static str, String)> = Vec::with_capacity(messages.len() + 1);
    if !tools.is_empty() {
        plain.push(("system", describe_tools(tools)));
    }
    for message in messages {
        let mut content = message.content.clone();
        for call in &message.tool_calls {
            let arguments = flowloom_core::json::write_json(&call.arguments);
            let name = flowloom_core::json::write_json(&call.name.as_str().into());
            content.push_str(&format!("<tool_call>\n{{\"name\":{name},\"arguments\":{arguments}}}\n</tool_call>"));
        }
        let (role, content) = match message.role {
            Role::System => ("system", content),
            Role::User => ("user", content),
            Role::Assistant => ("assistant", content),
            Role::Tool => ("user", format!("<tool_response>\n{content}\n</tool_response>")),
        };
        // Templates expect one system message at the start.
        match plain.last_mut() {
            Some(("system", before)) if role == "system" => {
                before.push_str("\n\n");
                before.push_str(&content);
            }
            _ => plain.push((role, content)),
        }
    }
    plain
}

fn describe_tools(tools: &[ToolDeclaration]) -> String {
    let mut text = String::from(
        "You may call tools. To call one, answer with only <tool_call>\n{\"name\": …, \"arguments\": {…}}\n</tool_call>. \
         The tools:",
    );
    for tool in tools {
        text.push_str(&format!(
            "\n- {}: {} Arguments: {}",
            tool.name,
            tool.description,
            flowloom_core::json::write_json(&tool.parameters)
        ));
    }
    text
}

/// The methods of Python's `str` and `dict` that chat templates use.
fn call_python_method(_state: &mut State, value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    if let Some(text) = value.as_str() {
        let strip = |args: &[Value]| -> Result<Vec<char>, Error> {
            let (set,): (Option<String>,) = from_args(args)?;
            Ok(set.map_or_else(|| vec![' ', '\n', '\t', '\r'], |set| set.chars().collect()))
        };
        return Ok(match method {
            "strip" => text.trim_matches(&strip(args)?[..]).into(),
            "lstrip" => text.trim_start_matches(&strip(args)?[..]).into(),
            "rstrip" => text.trim_end_matches(&strip(args)?[..]).into(),
            "upper" => text.to_uppercase().into(),
            "lower" => text.to_lowercase().into(),
            "startswith" => text.starts_with(from_args::<(&str,)>(args)?.0).into(),
            "endswith" => text.ends_with(from_args::<(&str,)>(args)?.0).into(),
            "replace" => {
                let (from, to): (&str, &str) = from_args(args)?;
                text.replace(from, to).into()
            }
            "split" => {
                let (separator,): (&str,) = from_args(args)?;
                text.split(separator).map(Value::from).collect::<Vec<_>>().into()
            }
            _ => return Err(Error::from(ErrorKind::UnknownMethod)),
        });
    }
    match method {
        "get" => {
            let (key, default): (Value, Option<Value>) = from_args(args)?;
            let found = value.get_item(&key)?;
            Ok(if found.is_undefined() { default.unwrap_or_else(|| Value::from(())) } else { found })
        }
        _ => Err(Error::from(ErrorKind::UnknownMethod)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_template_of_its_own_a_model_gets_chatml() {
        let template = ChatTemplate::new(None, "", "").unwrap();
        let messages = [Message::new(Role::System, "Be brief."), Message::new(Role::User, "Hi")];
        assert_eq!(
            template.render_prompt(&messages, &[]).unwrap(),
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
        );
    }

    #[test]
    fn templates_may_use_python_methods_and_raise() {
        let template = ChatTemplate::new(
            Some("{% for m in messages %}{% if m.content.startswith('!') %}{{ raise_exception('no') }}{% endif %}{{ m.content.strip() }};{% endfor %}"),
            "",
            "",
        )
        .unwrap();
        assert_eq!(template.render_prompt(&[Message::new(Role::User, " a ")], &[]).unwrap(), "a;");
        assert!(template.render_prompt(&[Message::new(Role::User, "!")], &[]).unwrap_err().to_string().contains("no"));
        assert!(ChatTemplate::new(Some("{% if %}"), "", "").is_err());
    }

    #[test]
    fn tools_and_their_results_become_text() {
        let template = ChatTemplate::new(None, "", "").unwrap();
        let tool = ToolDeclaration {
            name: "add".to_owned(),
            description: "Adds.".to_owned(),
            parameters: flowloom_core::Value::map([("type", "object".into())]),
        };
        let messages = [Message::new(Role::System, "S"), Message::new(Role::Tool, "3")];
        let text = template.render_prompt(&messages, &[tool]).unwrap();
        assert!(text.contains("add: Adds. Arguments: {\"type\":\"object\"}\n\nS<|im_end|>"), "{text}");
        assert!(text.contains("user\n<tool_response>\n3\n</tool_response>"), "{text}");
    }
}
