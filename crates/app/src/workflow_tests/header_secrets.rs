//! Values of headers that are secrets although the definition has them as text. A test does not contain them, wherever they
//! occur.

use std::collections::HashMap;
use std::sync::Arc;

use flowloom_core::value::Value;
use flowloom_runtime::requests::SentRequest;
use serde_json::Value as Json;

use super::file::{StepAttempt, TestFile};
use crate::runs::details::list_header_secrets;
use crate::runs::masking::{MASK, MaskedValue, mask_headers};

/// The secret values of the headers that a run has sent.
pub(super) struct HeaderSecrets {
    values: Vec<MaskedValue>,
    /// The attempts whose requests have such headers, with the values.
    senders: HashMap<StepAttempt, Vec<MaskedValue>>,
}

impl HeaderSecrets {
    /// The secrets of these requests.
    pub(super) fn from_requests(sent: &[SentRequest]) -> HeaderSecrets {
        let mut senders: HashMap<StepAttempt, Vec<MaskedValue>> = HashMap::new();
        for sent in sent {
            let mut values = list_header_secrets(&sent.request);
            // A value of a test may be masked already.
            values.retain(|one| !one.value.contains(MASK));
            if !values.is_empty() {
                senders.entry((sent.path.to_string(), sent.attempt)).or_default().extend(values);
            }
        }
        let mut values: Vec<MaskedValue> = senders.values().flatten().cloned().collect();
        // A value can contain another one.
        values.sort_by(|a, b| b.value.len().cmp(&a.value.len()).then_with(|| a.value.cmp(&b.value)));
        values.dedup();
        HeaderSecrets { values, senders }
    }

    /// A text without the secrets.
    pub(super) fn mask_text(&self, text: &str) -> String {
        self.values.iter().fold(text.to_owned(), |text, one| text.replace(&one.value, &one.shown))
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
                entries.into_iter().map(|(name, entry)| (self.mask_text(&name), self.mask_json(entry))).collect()
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

    /// A test without the secrets. Requests that contained them elsewhere than in their headers, and those whose headers have
    /// what the run received, are no longer compared by their hashes: a run of the test sends what is masked.
    pub(super) fn mask_test(&self, mut test: TestFile) -> TestFile {
        if self.values.is_empty() {
            return test;
        }
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
        let values = vec![MaskedValue { value: "abc-1234".to_owned(), shown: MASK.to_owned() }];
        let secrets = HeaderSecrets { values, senders: HashMap::new() };
        // A server that echoes a body as a form has it as a name.
        let echoed = json!({"form": {"x abc-1234": ""}, "list": ["abc-1234", 1]});
        assert_eq!(secrets.mask_request(echoed), json!({"form": {"x (masked)": ""}, "list": ["(masked)", 1]}));
        let value = Value::map([("abc-1234", Value::list(vec!["abc-1234".into()]))]);
        assert_eq!(secrets.mask_value(&value), Value::map([(MASK, Value::list(vec![MASK.into()]))]));
    }
}
