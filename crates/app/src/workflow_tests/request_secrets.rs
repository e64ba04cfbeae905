//! Values of headers and parameters that are secrets although the definition has them as text, and configured secrets. A test
//! does not contain them, wherever they occur.

use std::collections::HashMap;
use std::sync::Arc;

use flowloom_core::value::Value;
use flowloom_runtime::redact::Redactor as _;
use flowloom_runtime::requests::SentRequest;
use flowloom_tools::{HiddenSecret, ReplacedValue, SecretRedactor};
use serde_json::Value as Json;

use super::file::{StepAttempt, TestFile};
use crate::runs::details::{list_request_secrets, request_to_json};
use crate::runs::masking::{MASK, MaskedValue, mask_headers};
use crate::runs::secret_fields::{is_secret_field, list_secret_fields, list_secret_fields_in, mask_secret_fields};
use crate::runs::url_credentials::{mask_credentials, mask_encoded};

/// The secret values that a run has sent, and those that the configuration knows.
pub(super) struct RequestSecrets {
    redactor: SecretRedactor,
    /// The attempts whose requests have secrets in headers or parameters, with the values.
    senders: HashMap<StepAttempt, Vec<MaskedValue>>,
}

impl RequestSecrets {
    /// The secrets of these requests, those in what the run received, and the configured ones that are hidden from the reader
    /// of the test.
    pub(super) fn new(sent: &[SentRequest], received: &[&Value], configured: &[HiddenSecret]) -> RequestSecrets {
        let mut senders: HashMap<StepAttempt, Vec<MaskedValue>> = HashMap::new();
        for sent in sent {
            let mut values = list_request_secrets(&sent.request);
            values.extend(list_secret_fields(request_to_json(&sent.request)));
            // A value of a test may be masked already.
            values.retain(|one| !one.value.contains(MASK));
            if !values.is_empty() {
                senders.entry((sent.path.to_string(), sent.attempt)).or_default().extend(values);
            }
        }
        let fields: Vec<MaskedValue> = received.iter().flat_map(|value| list_secret_fields_in(value)).collect();
        let found = senders.values().flatten().chain(&fields);
        let found = found.map(|one| ReplacedValue { value: &one.value, shown: &one.shown });
        let configured = configured.iter().map(|secret| ReplacedValue { value: &secret.value, shown: MASK });
        RequestSecrets { redactor: SecretRedactor::of_values(found.chain(configured)), senders }
    }

    /// A text without the secrets.
    pub(super) fn mask_text(&self, text: &str) -> String {
        let masked = mask_secret_fields(&mask_credentials(&self.redactor.redact_text(text)));
        mask_encoded(&masked, |value| self.redactor.redact_text(value) != value)
    }

    /// A request without the secrets.
    pub(super) fn mask_request(&self, request: Json) -> Json {
        let mut masked = self.mask_json(request);
        // Where a value is masked in part, its header is masked as a whole.
        mask_headers(&mut masked);
        masked
    }

    fn mask_json(&self, value: Json) -> Json {
        match value {
            Json::String(text) => self.mask_text(&text).into(),
            Json::Array(items) => items.into_iter().map(|item| self.mask_json(item)).collect(),
            Json::Object(entries) => {
                let mask_entry = |name: &str, entry| match entry {
                    Json::String(text) if is_secret_field(name, &text) => MASK.into(),
                    entry => self.mask_json(entry),
                };
                entries.into_iter().map(|(name, entry)| (self.mask_text(&name), mask_entry(&name, entry))).collect()
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
                let mask_entry = |name: &str, entry: &Value| match entry.as_str() {
                    Some(text) if is_secret_field(name, text) => MASK.into(),
                    _ => self.mask_value(entry),
                };
                Value::map(entries.iter().map(|(name, entry)| (self.mask_text(name), mask_entry(name, entry))))
            }
            other => other.clone(),
        }
    }

    /// A test without the secrets. Requests that contained them elsewhere than in their headers, and those whose headers have
    /// what the run received, are no longer compared by their hashes: a run of the test sends the masked text.
    pub(super) fn mask_test(&self, mut test: TestFile) -> TestFile {
        let received = list_received(&test);
        let inputs = self.mask_value(&test.inputs);
        let is_input = inputs != test.inputs;
        test.inputs = inputs;
        for step in &mut test.steps {
            let request = step.request.clone().map(|request| self.mask_request(request));
            let own = self.senders.get(&step.to_attempt()).map_or(&[][..], Vec::as_slice);
            let is_received = || own.iter().any(|one| received.iter().any(|text| text.contains(&one.value)));
            let is_http = step.kind.as_deref() == Some("http");
            if is_input || request != step.request || (!own.is_empty() && !is_http) || is_received() {
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

/// The texts in everything that a run received, or computed from that.
fn list_received(test: &TestFile) -> Vec<Arc<str>> {
    fn add_texts(value: &Value, texts: &mut Vec<Arc<str>>) {
        match value {
            Value::String(text) => texts.push(text.to_string().into()),
            Value::List(items) => items.iter().for_each(|item| add_texts(item, texts)),
            Value::Map(entries) => {
                for (name, entry) in entries.iter() {
                    texts.push(name.to_string().into());
                    add_texts(entry, texts);
                }
            }
            _ => {}
        }
    }
    let mut texts = Vec::new();
    let outputs = test.steps.iter().filter_map(|step| step.output.as_ref());
    let values = test.expressions.iter().filter_map(|expression| expression.value.as_ref());
    outputs.chain(values).chain(&test.answers).for_each(|value| add_texts(value, &mut texts));
    texts.extend(test.steps.iter().filter_map(|step| Some(step.error.as_ref()?.message.as_str().into())));
    texts
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_are_masked_in_texts_and_in_names() {
        let secrets = RequestSecrets::new(&[], &[], &[HiddenSecret { name: None, value: "abc-1234".to_owned() }]);
        // A server that echoes a body as a form has it as a name.
        let echoed = json!({"form": {"x abc-1234": ""}, "list": ["abc-1234", 1]});
        assert_eq!(secrets.mask_request(echoed), json!({"form": {"x (masked)": ""}, "list": ["(masked)", 1]}));
        let value = Value::map([("abc-1234", Value::list(vec!["abc-1234".into()]))]);
        assert_eq!(secrets.mask_value(&value), Value::map([(MASK, Value::list(vec![MASK.into()]))]));
        // In Base64, and in parameters with more characters escaped than usual.
        for encoded in ["YWJjLTEyMzQ=", "/x?q=abc%2D1234", "/x?q=%61%62%63%2D%31%32%33%34&page=2"] {
            assert_ne!(secrets.mask_text(encoded), encoded);
        }
    }
}
