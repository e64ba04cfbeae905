//! Headers and parameters whose values are secrets although the definition has them as text: they are shown masked.

use flowloom_core::rich::Rich;
use serde_json::Value as Json;

use crate::runs::url_credentials::{is_credential_name, list_credentials, mask_credentials};

/// The replacement for a masked value.
pub(crate) const MASK: &str = "(masked)";

/// Headers that hold secrets.
const SECRET_HEADERS: [&str; 2] = ["authorization", "cookie"];

/// Words in the names of further headers that hold secrets.
const SECRET_WORDS: [&str; 5] = ["api-key", "apikey", "token", "secret", "password"];

/// Names of objects and rows that hold the parameters of an address, in lower case.
const PARAMETER_TABLES: [&str; 5] = ["params", "query", "query_params", "queryparams", "queryparameters"];

/// The name that replaces all parameters that hold credentials.
const CREDENTIAL_PARAMETER: &str = "token";

/// Minimum length of a value that is also masked outside of its header, in bytes. Shorter ones occur by chance.
pub(crate) const MIN_FOLLOWED_BYTES: usize = 6;

/// The value of a header as it is shown. `name` is in lower case. Secrets are names in it.
pub(crate) fn mask_header(name: &str, value: &Rich) -> String {
    let text = value.to_redacted_text();
    if value.has_secrets() || !is_secret(name) {
        return text;
    }
    match text.split_once(' ') {
        Some((scheme, _)) if name == "authorization" => format!("{scheme} {MASK}"),
        _ => MASK.to_owned(),
    }
}

/// A value that [`mask_header`] hides, and its replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MaskedValue {
    /// The value.
    pub(crate) value: String,
    /// The text shown instead of the value.
    pub(crate) shown: String,
}

/// The values that [`mask_header`] hides, as they could occur elsewhere.
pub(crate) fn list_masked_values(name: &str, value: &Rich) -> Vec<MaskedValue> {
    if value.has_secrets() || !is_secret(name) {
        return Vec::new();
    }
    let text = value.to_redacted_text();
    let parts: Vec<&str> = match name {
        "authorization" => text.split_once(' ').map(|(_, credentials)| credentials).into_iter().collect(),
        "cookie" => text.split(';').filter_map(|pair| Some(pair.split_once('=')?.1.trim())).collect(),
        _ => Vec::new(),
    };
    let parts = parts.into_iter().map(|part| MaskedValue { value: part.to_owned(), shown: MASK.to_owned() });
    let whole = MaskedValue { value: text.clone(), shown: mask_header(name, value) };
    std::iter::once(whole).chain(parts).filter(|one| one.value.len() >= MIN_FOLLOWED_BYTES).collect()
}

/// Masks the secrets in headers that a JSON value has anywhere: in objects and rows called `headers`, also in texts that are
/// such JSON, like the arguments of a call.
pub(crate) fn mask_headers(value: &mut Json) {
    visit_all_headers(value, &mut |name, value| *value = mask_text(name, value));
}

/// Masks the secrets in the headers of a request that a JSON value describes, and in its parameters.
pub(crate) fn mask_request(value: &mut Json) {
    mask_headers(value);
    visit_texts(value, &mut |text| *text = mask_credentials(text));
}

/// The credentials in the parameters of all addresses in a JSON value, as they could occur elsewhere.
pub(crate) fn list_credentials_in(mut value: Json) -> Vec<MaskedValue> {
    let mut found = Vec::new();
    visit_texts(&mut value, &mut |text| found.extend(list_credentials(text)));
    found
}

/// Calls `visit` with every text of a JSON value. It may change the text.
fn visit_texts(value: &mut Json, visit: &mut dyn FnMut(&mut String)) {
    match value {
        Json::Object(entries) => entries.iter_mut().for_each(|(_, entry)| visit_texts(entry, visit)),
        Json::Array(items) => items.iter_mut().for_each(|item| visit_texts(item, visit)),
        Json::String(text) => visit(text),
        _ => {}
    }
}

/// The values in headers of a JSON value that [`mask_headers`] hides, as they could occur elsewhere.
pub(crate) fn list_masked_in(value: &Json) -> Vec<MaskedValue> {
    let mut found = Vec::new();
    visit_all_headers(&mut value.clone(), &mut |name, value| {
        if !names_secret(value) {
            found.extend(list_masked_values(name, &value.as_str().into()));
        }
    });
    found
}

/// Calls `visit` with the name, in lower case, and the value of every header in a JSON value. It may change the value.
fn visit_all_headers(value: &mut Json, visit: &mut dyn FnMut(&str, &mut String)) {
    match value {
        Json::Object(entries) => {
            for (name, entry) in entries {
                if is_headers(name) {
                    visit_headers(entry, visit);
                } else if is_parameter_table(name) {
                    visit_headers(entry, &mut |name, value| {
                        if is_credential_name(name) {
                            visit(CREDENTIAL_PARAMETER, value);
                        }
                    });
                }
                visit_all_headers(entry, visit);
            }
        }
        Json::Array(items) => items.iter_mut().for_each(|item| visit_all_headers(item, visit)),
        Json::String(text) => visit_headers_in_text(text, visit),
        _ => {}
    }
}

/// Visits the headers in a text that is JSON. Other text stays unchanged.
fn visit_headers_in_text(text: &mut String, visit: &mut dyn FnMut(&str, &mut String)) {
    let Some(mut inner) = read_json_text(text) else { return };
    let mut changed = Vec::new();
    visit_all_headers(&mut inner, &mut |name, value| {
        let before = value.clone();
        visit(name, value);
        if *value != before {
            changed.push((before, value.clone()));
        }
    });
    for (before, after) in changed {
        // As a whole string of the JSON, since short values occur by chance.
        *text = text.replace(&Json::from(before).to_string(), &Json::from(after).to_string());
    }
}

/// The value of a header as it is shown, if secrets already are names in it.
fn mask_text(name: &str, value: &str) -> String {
    if names_secret(value) { value.to_owned() } else { mask_header(name, &value.into()) }
}

/// Whether a text has the name of a secret in its place.
pub(crate) fn names_secret(value: &str) -> bool {
    value.contains("${secret.")
}

fn is_headers(name: &str) -> bool {
    name.eq_ignore_ascii_case("headers")
}

fn is_parameter_table(name: &str) -> bool {
    PARAMETER_TABLES.iter().any(|table| name.eq_ignore_ascii_case(table))
}

/// Calls `visit` with the headers of an object `{name: value}`, or of a list of rows `{key, value}` or `{name, value}`.
fn visit_headers(headers: &mut Json, visit: &mut dyn FnMut(&str, &mut String)) {
    match headers {
        Json::Object(entries) => {
            for (name, value) in entries {
                if let Json::String(value) = value {
                    visit(&name.to_lowercase(), value);
                }
            }
        }
        Json::Array(rows) => {
            for row in rows {
                let name = ["key", "name"].iter().find_map(|key| row.get(*key)?.as_str()).map(str::to_lowercase);
                if let (Some(name), Some(Json::String(value))) = (name, row.get_mut("value")) {
                    visit(&name, value);
                }
            }
        }
        _ => {}
    }
}

/// The object or list that a text is.
pub(crate) fn parse_json_text(text: &str) -> Option<Json> {
    if text.trim_start().starts_with(['{', '[']) { serde_json::from_str(text).ok() } else { None }
}

/// The same, if it may have headers or parameters.
fn read_json_text(text: &str) -> Option<Json> {
    let has_table = || {
        let lower = text.to_ascii_lowercase();
        lower.contains("headers") || PARAMETER_TABLES.iter().any(|table| lower.contains(table))
    };
    has_table().then(|| parse_json_text(text)).flatten()
}

fn is_secret(name: &str) -> bool {
    SECRET_HEADERS.contains(&name) || SECRET_WORDS.iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_of_secret_headers_are_masked() {
        let mask = |name: &str, value: &str| mask_header(name, &value.into());
        assert_eq!(mask("authorization", "Bearer abcdef"), "Bearer (masked)");
        assert_eq!(mask("x-api-key", "abcdef"), MASK);
        assert_eq!(mask("x-auth-token", "abcdef"), MASK);
        assert_eq!(mask("accept", "text/html"), "text/html");
        let list = |name: &str, value: &str| {
            let values = list_masked_values(name, &value.into()).into_iter();
            values.map(|one| format!("{} as {}", one.value, one.shown)).collect::<Vec<_>>()
        };
        assert_eq!(list("authorization", "Bearer abcdef"), ["Bearer abcdef as Bearer (masked)", "abcdef as (masked)"]);
        assert_eq!(list("cookie", "a=1; session=abcdef"), ["a=1; session=abcdef as (masked)", "abcdef as (masked)"]);
        let mut named = Rich::default();
        named.push_secret("KEY");
        assert_eq!(mask_header("x-api-key", &named), "${secret.KEY}");
    }

    #[test]
    fn headers_are_masked_wherever_a_value_has_them() {
        let text = json!({"headers": {"X-Api-Key": "ab", "Accept": "ab"}, "body": "cd ab"}).to_string();
        let mut value = json!({
            "inputs": {"headers": {"Authorization": "Bearer abcdef", "Cookie": "a=${secret.KEY}", "Accept": "text/html"}},
            "prompt": text,
            "steps": [{"Headers": [{"key": "api-key", "value": "uvwxyz"}, {"name": "X-Token", "value": "ghijkl"}]}],
        });
        let values: Vec<String> = list_masked_in(&value).into_iter().map(|one| one.value).collect();
        assert_eq!(values, ["Bearer abcdef", "abcdef", "uvwxyz", "ghijkl"]);
        mask_headers(&mut value);
        let masked = value.clone();
        assert_eq!(
            masked,
            json!({
                "inputs": {"headers": {"Authorization": "Bearer (masked)", "Cookie": "a=${secret.KEY}", "Accept": "text/html"}},
                "prompt": json!({"headers": {"X-Api-Key": MASK, "Accept": MASK}, "body": "cd ab"}).to_string(),
                "steps": [{"Headers": [{"key": "api-key", "value": MASK}, {"name": "X-Token", "value": MASK}]}],
            })
        );
        mask_headers(&mut value);
        assert_eq!(value, masked, "masking again changes nothing");
    }
}
