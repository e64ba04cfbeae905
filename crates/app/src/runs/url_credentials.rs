//! Credentials in the parameters of addresses and forms, such as `?api_key=…`: their values are secrets although the
//! definition has them as text.

use std::ops::Range;

use url::form_urlencoded;

use crate::runs::masking::{MASK, MIN_FOLLOWED_BYTES, MaskedValue, names_secret};

/// The names of parameters that hold credentials, in lower case and without other characters than letters and digits.
const CREDENTIAL_NAMES: [&str; 36] = [
    "accesskey",
    "accesstoken",
    "apikey",
    "apisecret",
    "apitoken",
    "appid",
    "appkey",
    "appsecret",
    "auth",
    "authorization",
    "authtoken",
    "awsaccesskeyid",
    "bearertoken",
    "clientsecret",
    "hmac",
    "idtoken",
    "jwt",
    "key",
    "passwd",
    "password",
    "privatekey",
    "pwd",
    "refreshtoken",
    "secret",
    "secretkey",
    "securitytoken",
    "sessionid",
    "sessiontoken",
    "sig",
    "signature",
    "subscriptionkey",
    "token",
    "xamzcredential",
    "xamzsecuritytoken",
    "xamzsignature",
    "xgoogsignature",
];

/// Whether a parameter of this name holds a credential. The name may be encoded.
pub(crate) fn is_credential_name(name: &str) -> bool {
    let decoded = form_urlencoded::parse(name.as_bytes()).next().map(|(name, _)| name.into_owned()).unwrap_or_default();
    CREDENTIAL_NAMES.contains(&simplify_name(&decoded).as_str())
}

/// A name in lower case and without other characters than letters and digits.
pub(crate) fn simplify_name(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase()
}

/// A text with the credentials in its addresses masked. The text itself may be a form.
pub(crate) fn mask_credentials(text: &str) -> String {
    let mut masked = text.to_owned();
    for range in find_credentials(text).into_iter().rev() {
        masked.replace_range(range, MASK);
    }
    masked
}

/// The values that [`mask_credentials`] hides, also decoded, as they could occur elsewhere.
pub(crate) fn list_credentials(text: &str) -> Vec<MaskedValue> {
    let mut values: Vec<String> = Vec::new();
    for range in find_credentials(text) {
        let written = &text[range];
        // A sentence, or a list of links, continues after the address.
        let shortened = written.trim_end_matches([')', ']', '}', '.', ',', ';']);
        for value in [written, shortened] {
            values.push(value.to_owned());
            // With `+` as a space, and with `+` as itself.
            for encoded in [value.to_owned(), value.replace('+', "%2B")] {
                values.extend(form_urlencoded::parse(encoded.as_bytes()).next().map(|(value, _)| value.into_owned()));
            }
        }
    }
    values.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
    values.dedup();
    let followed = values.into_iter().filter(|value| value.len() >= MIN_FOLLOWED_BYTES);
    followed.map(|value| MaskedValue { value, shown: MASK.to_owned() }).collect()
}

/// The places of the values of credentials in a text, in order. Values that are names already, or masked, are left out.
fn find_credentials(text: &str) -> Vec<Range<usize>> {
    let credentials = find_parameters(text).into_iter().filter(|parameter| is_credential_name(parameter.name));
    credentials.map(|parameter| parameter.value).collect()
}

/// A text in whose parameters every value that `is_secret` recognises, once it is decoded, is masked.
pub(crate) fn mask_encoded(text: &str, is_secret: impl Fn(&str) -> bool) -> String {
    let mut masked = text.to_owned();
    for parameter in find_parameters(text).into_iter().rev() {
        let written = &text[parameter.value.clone()];
        let decoded = form_urlencoded::parse(written.as_bytes()).next().map(|(value, _)| value.into_owned());
        if written.contains('%') && decoded.is_some_and(|value| is_secret(&value)) {
            masked.replace_range(parameter.value, MASK);
        }
    }
    masked
}

/// A parameter of an address or a form.
struct Parameter<'t> {
    name: &'t str,
    /// The place of its value.
    value: Range<usize>,
}

/// The parameters in a text, in order. Those whose values are names of secrets, or masked, are left out.
fn find_parameters(text: &str) -> Vec<Parameter<'_>> {
    if !text.contains('=') {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut start = 0;
    for word in text.split_inclusive(ends_address) {
        let address = word.strip_suffix(ends_address).unwrap_or(word);
        let is_form = address.len() == text.len() && text.contains('&');
        let query = address.find(['?', '#']).map(|at| at + 1).or(is_form.then_some(0));
        if let Some(query) = query {
            add_parameters(text, start + query..start + address.len(), &mut found);
        }
        start += word.len();
    }
    found
}

/// Adds the parameters at `range`.
fn add_parameters<'t>(text: &'t str, range: Range<usize>, found: &mut Vec<Parameter<'t>>) {
    let mut start = range.start;
    for part in text[range].split_inclusive(['&', '?', '#']) {
        let parameter = part.strip_suffix(['&', '?', '#']).unwrap_or(part);
        if let Some((name, value)) = parameter.split_once('=') {
            // In HTML, `&` is written as `&amp;`.
            let name = name.strip_prefix("amp;").unwrap_or(name);
            let is_hidden = names_secret(value) || value.contains(MASK);
            if !value.is_empty() && !is_hidden {
                let at = start + parameter.len() - value.len();
                found.push(Parameter { name, value: at..at + value.len() });
            }
        }
        start += part.len();
    }
}

fn ends_address(c: char) -> bool {
    c.is_whitespace() || matches!(c, '"' | '\'' | '<' | '>' | '`' | '\\')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_in_addresses_are_masked() {
        for (text, masked) in [
            ("https://a.example/x?api_key=k1&page=2", "https://a.example/x?api_key=(masked)&page=2"),
            ("https://a.example/?page=2&KEY=k1#top", "https://a.example/?page=2&KEY=(masked)#top"),
            ("see </x?q=1&amp;access-token=k%201>.", "see </x?q=1&amp;access-token=(masked)>."),
            ("/x?api%5Fkey=k1 and /y?X-Amz-Signature=k2", "/x?api%5Fkey=(masked) and /y?X-Amz-Signature=(masked)"),
            ("https://a.example/cb#id_token=k1&state=2", "https://a.example/cb#id_token=(masked)&state=2"),
            ("grant_type=code&client_secret=k1", "grant_type=code&client_secret=(masked)"),
        ] {
            assert_eq!(mask_credentials(text), masked);
            assert_eq!(mask_credentials(masked), masked, "again");
        }
        for text in
            ["/x?page_token=2&keys=1", "/x?key=${secret.KEY}", "if a&&key=1", "key=value", "/x?key=&b=1", "/x?key"]
        {
            assert_eq!(mask_credentials(text), text);
        }
    }

    #[test]
    fn credentials_are_followed_as_they_are_written_and_decoded() {
        let values = |text: &str| list_credentials(text).into_iter().map(|one| one.value).collect::<Vec<_>>();
        assert_eq!(
            values("/x?key=ab%2Fc+def)."),
            ["ab%2Fc+def).", "ab%2Fc+def", "ab/c def).", "ab/c+def).", "ab/c def", "ab/c+def"]
        );
        assert_eq!(values("/x?key=short").len(), 0, "it occurs by chance");
    }
}
