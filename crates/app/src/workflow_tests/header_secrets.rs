//! Values of headers that are secrets although the definition has them as text. A test does not contain them, wherever they
//! occur.

use flowloom_core::effect::Request;
use flowloom_core::json::parse_value;
use flowloom_core::render;
use flowloom_core::value::Value;
use flowloom_runtime::requests::SentRequest;

use super::file::TestFile;
use crate::runs::masking::{MASK, list_masked_values};

/// The secret values of the headers that a run has sent.
pub(super) struct HeaderSecrets(Vec<String>);

impl HeaderSecrets {
    /// The secrets of these requests.
    pub(super) fn of(sent: &[SentRequest]) -> HeaderSecrets {
        let headers = sent.iter().filter_map(|sent| match &sent.request {
            Request::Http(request) | Request::HttpExchange(request) => Some(&request.headers),
            _ => None,
        });
        let mut values: Vec<String> =
            headers.flatten().flat_map(|(name, value)| list_masked_values(name, value)).collect();
        // A value can contain another one.
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        values.dedup();
        HeaderSecrets(values.iter().map(|value| to_json_text(value)).collect())
    }

    /// JSON without the secrets; `None` if it has none.
    fn mask_json(&self, json: &str) -> Option<String> {
        let masked = self.0.iter().fold(json.to_owned(), |text, value| text.replace(value, MASK));
        (masked != json).then_some(masked)
    }

    /// A request without the secrets.
    pub(super) fn mask_request(&self, request: serde_json::Value) -> serde_json::Value {
        let masked = self.mask_json(&request.to_string()).and_then(|masked| serde_json::from_str(&masked).ok());
        masked.unwrap_or(request)
    }

    /// A value without the secrets.
    pub(super) fn mask_value(&self, value: Value) -> Value {
        if self.0.is_empty() {
            return value;
        }
        let masked = self.mask_json(&render::to_json(&value)).and_then(|masked| parse_value(&masked).ok());
        masked.unwrap_or(value)
    }

    /// A test without the secrets. Requests that contained them elsewhere than in their headers are no longer compared by
    /// their hashes.
    pub(super) fn mask_test(&self, test: TestFile) -> TestFile {
        let is_clean = |value: &serde_json::Value| self.mask_json(&value.to_string()).is_none();
        let text = serde_json::to_string(&test).unwrap_or_default();
        let masked = self.mask_json(&text).and_then(|masked| serde_json::from_str::<TestFile>(&masked).ok());
        let Some(mut masked) = masked else { return test };
        let is_input = !is_clean(&serde_json::to_value(&test.inputs).unwrap_or_default());
        for (step, before) in masked.steps.iter_mut().zip(&test.steps) {
            if is_input || !before.request.as_ref().is_none_or(is_clean) {
                step.request_hash = None;
            }
        }
        masked
    }
}

/// A text as it stands in JSON, without its quotes.
fn to_json_text(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}
