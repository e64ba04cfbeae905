//! Calls in Markdown workflows: that of a configured function is an action, and an input takes the place of others.

use std::sync::Arc;

use flowloom_core::expr::Data;
use flowloom_core::render::to_json;

use super::markdown_text::Phase;
use super::{Abilities, Emitter};
use crate::calls::{Call, is_built_in, read_call};
use crate::draft::{Item, ItemKind};
use crate::prose::write_template;
use crate::text::shorten_line;

/// The elements that are no functions.
const OWN_ELEMENTS: [&str; 5] = ["gen-text", "gen-object", "loop", "cond", "else"];

/// The attribute that names a result.
const NAME_ATTRIBUTE: &str = "as";

impl Emitter<'_> {
    /// A call as an action, or an input in its place.
    pub(super) fn call_phase(&mut self, item: &Item<'_>) -> Phase {
        let mark = self.report.mark();
        let Some(call) = read_call(item) else {
            self.add_output_input(item, &format!("the block {}", item.title()), "a Markdown workflow runs no code");
            return Phase::new_comment(self.loss_comments(mark));
        };
        let title = item.title().to_owned();
        let function = call.function.as_str();
        let element = write_element(function).filter(|_| !is_built_in(function));
        let action = match element {
            Some(element) => {
                self.check_policy(item, Abilities::default());
                self.report
                    .add_loss(item.span, format!("the call of {function} by {title}: {}", describe_change(item)));
                let attributes = self.write_attributes(item, &call);
                let name = self.action_name(item, &title);
                let sets_input = self.sets_input();
                self.names.note_result(item, &name, sets_input);
                format!("<{element} {NAME_ATTRIBUTE}=\"{name}\"{attributes} />")
            }
            None => {
                let what = match call.arguments.iter().find(|(name, _)| name == "url") {
                    Some((_, Data::Text(url))) => shorten_line(&url.show_source()),
                    _ => call.function.clone(),
                };
                let why = "only configured functions send requests here";
                self.add_output_input(item, &what, why);
                String::new()
            }
        };
        Phase { action, is_call: true, ..Phase::new_comment(self.loss_comments(mark)) }
    }

    fn write_attributes(&mut self, item: &Item<'_>, call: &Call) -> String {
        let mut attributes = String::new();
        for (name, data) in &call.arguments {
            if !is_attribute(name) {
                let message = format!("the argument {name} of {}: no attribute can have this name", item.title());
                self.report.add_loss(item.span, message);
                continue;
            }
            attributes.push_str(&format!(" {name}={{{}}}", self.write_expression(data, item)));
        }
        attributes
    }

    /// A value as JavaScript.
    fn write_expression(&mut self, data: &Data, item: &Item<'_>) -> String {
        match data {
            Data::Constant(value) => to_json(value),
            Data::Text(text) => write_template(&self.resolve_pieces(text, item.span)),
            Data::List(items) => {
                let items: Vec<String> = items.iter().map(|inner| self.write_expression(inner, item)).collect();
                format!("[{}]", items.join(", "))
            }
            Data::Map(entries) => {
                let entry = |(key, inner): &(Arc<str>, Data)| {
                    format!("{}: {}", to_json(&key.as_ref().into()), self.write_expression(inner, item))
                };
                let entries: Vec<String> = entries.iter().map(entry).collect();
                format!("{{ {} }}", entries.join(", "))
            }
        }
    }
}

/// How an action differs from the call that it replaces.
fn describe_change(item: &Item<'_>) -> &'static str {
    match &item.kind {
        ItemKind::Block(_) => "an action does not check inputs and outputs",
        _ => "an action passes these arguments, and not the variables",
    }
}

/// The element that calls a function: its id in kebab case. `None` if no element can.
fn write_element(function: &str) -> Option<String> {
    let words = function.split([':', '_', '.', '-']).filter(|word| !word.is_empty());
    let name = words.collect::<Vec<_>>().join("-");
    let is_plain = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    let is_name = name.starts_with(|c: char| c.is_ascii_lowercase()) && !OWN_ELEMENTS.contains(&name.as_str());
    (is_plain && is_name).then_some(name)
}

fn is_attribute(name: &str) -> bool {
    name != NAME_ATTRIBUTE
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_functions_in_kebab_case() {
        let cases = [
            ("crm::lookup", Some("crm-lookup")),
            ("shop.find_it", Some("shop-find-it")),
            ("gen::text", None),
            ("Loud", None),
            ("1st", None),
        ];
        for (function, expected) in cases {
            assert_eq!(write_element(function).as_deref(), expected, "{function}");
        }
    }
}
