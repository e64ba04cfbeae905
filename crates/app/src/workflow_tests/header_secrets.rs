//! Values of headers that are secrets although the definition has them as text. A test does not contain them, wherever they
//! occur.

use flowloom_core::effect::Request;
use flowloom_core::value::Value;
use flowloom_runtime::requests::SentRequest;

use super::file::TestFile;
use crate::runs::masking::{MASK, list_masked_values};

/// The secret values of the headers that a run has sent.
pub(super) struct HeaderSecrets(Vec<String>);

impl HeaderSecrets {
    /// The secrets of these requests.
    pub(super) fn from_requests(sent: &[SentRequest]) -> HeaderSecrets {
        let headers = sent.iter().filter_map(|sent| match &sent.request {
            Request::Http(request) | Request::HttpExchange(request) => Some(&request.headers),
            _ => None,
        });
        let mut values: Vec<String> =
            headers.flatten().flat_map(|(name, value)| list_masked_values(name, value)).collect();
        // A value of a test may be masked already.
        values.retain(|value| !value.contains(MASK));
        // A value can contain another one.
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        values.dedup();
        HeaderSecrets(values)
    }

    /// A text without the secrets.
    pub(super) fn mask_text(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, value| text.replace(value, MASK))
    }

    /// A request without the secrets.
    pub(super) fn mask_request(&self, request: serde_json::Value) -> serde_json::Value {
        match request {
            serde_json::Value::String(text) => self.mask_text(&text).into(),
            serde_json::Value::Array(items) => items.into_iter().map(|item| self.mask_request(item)).collect(),
            serde_json::Value::Object(entries) => {
                entries.into_iter().map(|(name, entry)| (self.mask_text(&name), self.mask_request(entry))).collect()
            }
            other => other,
        }
    }

    /// A value without the secrets.
    pub(super) fn mask_value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => self.mask_text(text).into(),
            Value::List(items) => Value::list(items.iter().map(|item| self.mask_value(item)).collect()),
            Value::Map(entries) => {
                Value::map(entries.iter().map(|(name, entry)| (self.mask_text(name), self.mask_value(entry))))
            }
            other => other.clone(),
        }
    }

    /// A test without the secrets. Requests that contained them elsewhere than in their headers are no longer compared by
    /// their hashes.
    pub(super) fn mask_test(&self, mut test: TestFile) -> TestFile {
        if self.0.is_empty() {
            return test;
        }
        let inputs = self.mask_value(&test.inputs);
        let is_input = inputs != test.inputs;
        test.inputs = inputs;
        for step in &mut test.steps {
            let request = step.request.clone().map(|request| self.mask_request(request));
            if is_input || request != step.request {
                step.request_hash = None;
            }
            step.request = request;
            step.output = step.output.as_ref().map(|output| self.mask_value(output));
            step.error.iter_mut().for_each(|error| error.message = self.mask_text(&error.message));
            for write in &mut step.memory {
                write.key = self.mask_text(&write.key);
                write.value = write.value.as_ref().map(|value| self.mask_value(value));
            }
        }
        for expression in &mut test.expressions {
            expression.value = expression.value.as_ref().map(|value| self.mask_value(value));
        }
        test.answers.iter_mut().for_each(|answer| *answer = self.mask_value(answer));
        let expectations = test.expect.output.iter_mut().chain(test.expect.steps.values_mut().flatten());
        expectations
            .for_each(|expected| expected.equals = expected.equals.as_ref().map(|value| self.mask_value(value)));
        test
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_are_masked_in_texts_and_in_names() {
        let secrets = HeaderSecrets(vec!["abc-1234".to_owned()]);
        // A server that echoes a body as a form has it as a name.
        let echoed = json!({"form": {"x abc-1234": ""}, "list": ["abc-1234", 1]});
        assert_eq!(secrets.mask_request(echoed), json!({"form": {"x (masked)": ""}, "list": ["(masked)", 1]}));
        let value = Value::map([("abc-1234", Value::list(vec!["abc-1234".into()]))]);
        assert_eq!(secrets.mask_value(&value), Value::map([(MASK, Value::list(vec![MASK.into()]))]));
    }
}
