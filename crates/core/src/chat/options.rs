//! The options of a model call as definitions give them: their names, and what each must be.

use super::GenerateOptions;
use crate::render;
use crate::value::{Map, Value};

/// The options of a model call, as they are written.
pub const MODEL_OPTIONS: [&str; 8] =
    ["maxTokens", "temperature", "seed", "stop", "topP", "topK", "presencePenalty", "frequencyPenalty"];

impl GenerateOptions {
    /// The options that are given, each as `name: value`.
    pub fn list_given(&self) -> Vec<String> {
        // Serialisation leaves out those that are not given.
        let Ok(serde_json::Value::Object(given)) = serde_json::to_value(self) else { return Vec::new() };
        given.into_iter().map(|(name, value)| format!("{name}: {value}")).collect()
    }

    /// The options with those in `given` instead. As in JavaScript, a value that is no object has none. Fails with a sentence
    /// about each value that an option cannot have.
    pub fn override_with(&self, given: &Value) -> Result<GenerateOptions, String> {
        let Some(given) = given.as_map() else { return Ok(self.clone()) };
        let wrong = given.iter().filter_map(|(name, value)| {
            let expected = find_expected_option(name, value)?;
            Some(format!("the option {name} must be {expected}, not {}", render::to_json(value)))
        });
        let wrong: Vec<String> = wrong.collect();
        if !wrong.is_empty() {
            return Err(wrong.join("; "));
        }
        let mut whole = serde_json::to_value(self).unwrap_or_default();
        let completed = serde_json::to_value(Value::from(complete_options(given))).unwrap_or_default();
        if let (Some(whole), serde_json::Value::Object(completed)) = (whole.as_object_mut(), completed) {
            whole.extend(completed);
        }
        serde_json::from_value(whole).map_err(|error| format!("the options cannot be used: {error}"))
    }
}

/// The options with texts to stop at as a list.
fn complete_options(given: &Map) -> Map {
    let complete = |name: &str, value: &Value| match (name, value) {
        ("stop", Value::String(_)) => Value::list(vec![value.clone()]),
        ("stop", Value::Null) => Value::list(Vec::new()),
        _ => value.clone(),
    };
    given.iter().map(|(name, value)| (name.clone(), complete(name, value))).collect()
}

/// The expected value of an option, if the value is invalid. An unknown option may have any value.
pub fn find_expected_option(name: &str, value: &Value) -> Option<&'static str> {
    let whole = value.as_i64();
    let is_text = |value: &Value| value.as_str().is_some();
    let (is_valid, expected) = match name {
        _ if *value == Value::Null => return None,
        "maxTokens" => {
            (whole.is_some_and(|tokens| (1..=i64::from(u32::MAX)).contains(&tokens)), "a whole number above 0")
        }
        "seed" => (whole.is_some_and(|seed| seed >= 0), "a whole number"),
        "stop" => (
            is_text(value) || value.as_list().is_some_and(|list| list.iter().all(is_text)),
            "a string or a list of strings",
        ),
        "temperature" | "topP" | "topK" | "presencePenalty" | "frequencyPenalty" => {
            (matches!(value, Value::Number(_)), "a number")
        }
        "stream" => (matches!(value, Value::Bool(_)), "true or false"),
        _ => return None,
    };
    (!is_valid).then_some(expected)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse_value;

    #[test]
    fn options_override_others_if_their_values_are_valid() {
        let base = GenerateOptions { temperature: Some(0.5), seed: Some(1), ..GenerateOptions::default() };
        let override_with = |given: &str| base.override_with(&parse_value(given).expect("JSON"));
        let changed = override_with(r#"{"maxTokens": 7, "stop": "x", "temperature": null}"#).expect("they are valid");
        assert_eq!((changed.max_tokens, changed.temperature, changed.seed), (Some(7), None, Some(1)));
        assert_eq!(changed.stop, ["x"]);
        assert_eq!(override_with(r#"{"stop": null, "other": {}}"#), Ok(base.clone()));
        assert_eq!(override_with("5"), Ok(base.clone()));
        assert_eq!(
            override_with(r#"{"maxTokens": -1, "stop": [2], "stream": "no"}"#),
            Err("the option maxTokens must be a whole number above 0, not -1; the option stop must be a string or a list of \
                 strings, not [2]; the option stream must be true or false, not \"no\""
                .to_owned())
        );
    }
}
