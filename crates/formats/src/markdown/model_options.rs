//! The options of a model call that are constants: which there are, and what each must be.

use std::collections::HashMap;

use flowloom_core::chat::{GenerateOptions, MODEL_OPTIONS, find_expected_option};
use flowloom_core::code::Code;
use flowloom_core::diagnostic::Span;
use flowloom_core::render;
use flowloom_core::value::{Map, Value};
use oxc_allocator::Allocator;
use oxc_ast::ast::{Expression, ObjectPropertyKind};
use oxc_span::GetSpan as _;

use super::MarkdownCompiler;
use super::actions::{Action, ActionValue};
use super::native::static_key;
use super::parse::TextPiece;

/// Where an option is written.
struct OptionPlace {
    key: Span,
    value: Span,
}

impl MarkdownCompiler<'_> {
    /// The options of an action: those of a constant value, and `defaults` for the others. All that are wrong are reported.
    pub(super) fn read_constant_options(
        &mut self,
        action: &Action<'_>,
        value: &Value,
        defaults: GenerateOptions,
        text: &TextPiece<'_>,
    ) -> Option<GenerateOptions> {
        // As in JavaScript, `null` and `undefined` have no fields.
        if *value == Value::Null {
            return Some(defaults);
        }
        let Some(map) = value.as_map() else {
            let problem = format!("must be an object, not {}", value.kind_name());
            self.attribute_error(action, "options", &problem, text);
            return None;
        };
        let places = self.find_option_places(action);
        self.warn_unknown_options(action, map, &places, text);
        let mut is_valid = true;
        for (key, value) in map {
            if let Some(expected) = find_expected_option(key, value) {
                let problem = format!("has the option {key}, which must be {expected}, not {}", render::to_json(value));
                let error = self.attribute_error(action, "options", &problem, text);
                if let Some(place) = places.get(&**key) {
                    error.span = place.value;
                }
                is_valid = false;
            }
        }
        if !is_valid {
            return None;
        }
        match defaults.override_with(value) {
            Ok(options) => Some(options),
            Err(problem) => {
                self.attribute_error(action, "options", &problem, text);
                None
            }
        }
    }

    fn warn_unknown_options(
        &mut self,
        action: &Action<'_>,
        map: &Map,
        places: &HashMap<String, OptionPlace>,
        text: &TextPiece<'_>,
    ) {
        let (start, end) = action.get("options").map_or((action.start, action.end), |given| (given.start, given.end));
        let absent: Vec<&str> = MODEL_OPTIONS.into_iter().filter(|known| !map.contains_key(*known)).collect();
        for key in map.keys().filter(|key| !MODEL_OPTIONS.contains(&&***key)) {
            let place = places.get(&**key).map(|place| place.key);
            let meant = self.problems.find_similar(key, absent.iter().copied());
            let message = format!("the option {key} is not known and has no effect");
            let span = place.unwrap_or_else(|| text.file_span(start, end));
            let diagnostic = self.problems.add_warning(Code::IgnoredKey, span, message);
            match meant {
                Some(meant) => diagnostic.suggest_text_at(meant, place),
                None => diagnostic.help = Some(format!("the options are {}", MODEL_OPTIONS.join(", "))),
            }
        }
    }

    /// The places of the options by name; none of those that are not written in the attribute.
    fn find_option_places(&mut self, action: &Action<'_>) -> HashMap<String, OptionPlace> {
        let Some(ActionValue::Expression(written)) = action.get("options").map(|given| &given.value) else {
            return HashMap::new();
        };
        let allocator = Allocator::default();
        let Some(Expression::ObjectExpression(object)) = self.parse_expression(written, &allocator) else {
            return HashMap::new();
        };
        let file_span = |span: oxc_span::Span| written.file_span(span.start as usize, span.end as usize);
        let place = |property: &ObjectPropertyKind<'_>| {
            let ObjectPropertyKind::ObjectProperty(property) = property else { return None };
            let place = OptionPlace { key: file_span(property.key.span()), value: file_span(property.value.span()) };
            Some((static_key(&property.key)?, place))
        };
        object.properties.iter().filter_map(place).collect()
    }
}
