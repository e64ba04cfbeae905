//! Fields of JSON whose values are secrets by their names, such as `client_secret` in a body or `refresh_token` in a reply.

use flowloom_core::value::Value;
use serde_json::Value as Json;

use crate::runs::masking::{MASK, MIN_FOLLOWED_BYTES, MaskedValue, names_secret, parse_json_text};
use crate::runs::url_credentials::simplify_name;

/// The names of fields that hold secrets, in lower case and without other characters than letters and digits.
const SECRET_FIELDS: [&str; 21] = [
    "accesskey",
    "accesstoken",
    "apikey",
    "apisecret",
    "apitoken",
    "appsecret",
    "authtoken",
    "bearertoken",
    "clientsecret",
    "idtoken",
    "passphrase",
    "passwd",
    "password",
    "privatekey",
    "refreshtoken",
    "secret",
    "secretaccesskey",
    "secretkey",
    "securitytoken",
    "sessiontoken",
    "subscriptionkey",
];

/// Names of fields that hold secrets only if the value looks like one. A token can also be a word of a text.
const POSSIBLE_SECRET_FIELDS: [&str; 2] = ["jwt", "token"];
/// Minimum length of such a value, in bytes.
const MIN_POSSIBLE_SECRET_BYTES: usize = 16;

/// Whether a field of this name with this value holds a secret that is not masked yet.
pub(crate) fn is_secret_field(name: &str, value: &str) -> bool {
    let plain = simplify_name(name);
    let may_be_secret = value.len() >= MIN_POSSIBLE_SECRET_BYTES && !value.contains(char::is_whitespace);
    let is_secret =
        SECRET_FIELDS.contains(&plain.as_str()) || (may_be_secret && POSSIBLE_SECRET_FIELDS.contains(&plain.as_str()));
    is_secret && !value.is_empty() && !value.contains(MASK) && !names_secret(value)
}

/// A text with the secrets masked that it has as fields, if it is JSON. All else stays as it is written.
pub(crate) fn mask_secret_fields(text: &str) -> String {
    let Some(mut inner) = parse_json_text(text) else { return text.to_owned() };
    let mut secrets = Vec::new();
    visit_secret_fields(&mut inner, &mut |value| secrets.push(value.clone()));
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    let mask = Json::from(MASK).to_string();
    // As a whole string of the JSON, since short values occur by chance.
    secrets.into_iter().fold(text.to_owned(), |text, secret| text.replace(&Json::from(secret).to_string(), &mask))
}

/// The secrets that a JSON value has as fields, as they could occur elsewhere.
pub(crate) fn list_secret_fields(mut value: Json) -> Vec<MaskedValue> {
    let mut found = Vec::new();
    visit_secret_fields(&mut value, &mut |value| {
        if value.len() >= MIN_FOLLOWED_BYTES {
            found.push(MaskedValue { value: value.clone(), shown: MASK.to_owned() });
        }
    });
    found
}

/// The same for a value of a run.
pub(crate) fn list_secret_fields_in(value: &Value) -> Vec<MaskedValue> {
    serde_json::to_value(value).map(list_secret_fields).unwrap_or_default()
}

/// Calls `visit` with each secret that a JSON value has as a field, also in texts that are JSON.
fn visit_secret_fields(value: &mut Json, visit: &mut dyn FnMut(&mut String)) {
    match value {
        Json::Object(entries) => {
            for (name, entry) in entries {
                match entry {
                    Json::String(text) if is_secret_field(name, text) => visit(text),
                    entry => visit_secret_fields(entry, visit),
                }
            }
        }
        Json::Array(items) => items.iter_mut().for_each(|item| visit_secret_fields(item, visit)),
        Json::String(text) => {
            if let Some(mut inner) = parse_json_text(text) {
                visit_secret_fields(&mut inner, visit);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_with_names_of_secrets_are_masked() {
        let body = r#"{"client_secret": "ab", "api-key":"cd\"e", "page": "ab", "list": [{"Password": "x y"}], "token": "word"}"#;
        let masked = r#"{"client_secret": "(masked)", "api-key":"(masked)", "page": "(masked)", "list": [{"Password": "(masked)"}], "token": "word"}"#;
        assert_eq!(mask_secret_fields(body), masked);
        assert_eq!(mask_secret_fields(masked), masked, "again");
        for text in
            ["password: x", "{\"password\": 1}", "{\"key\": \"abcdef\"}", "{\"secret\": \"${secret.KEY}\"}", "{"]
        {
            assert_eq!(mask_secret_fields(text), text);
        }
    }

    #[test]
    fn secrets_in_fields_are_followed() {
        let inner = json!({"refresh_token": "r-123456", "expires_in": 3600}).to_string();
        let reply = json!({"status": 200, "body": inner, "token": "0123456789abcdef", "password": "short"});
        let values: Vec<String> = list_secret_fields(reply).into_iter().map(|one| one.value).collect();
        assert_eq!(values, ["r-123456", "0123456789abcdef"]);
    }
}
