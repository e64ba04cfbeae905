//! Headers whose values are secrets although the definition has them as text: they are shown masked.

use flowloom_core::rich::Rich;

/// What stands in the place of a masked value.
pub(crate) const MASK: &str = "(masked)";

/// Headers that hold secrets.
const SECRET_HEADERS: [&str; 2] = ["authorization", "cookie"];

/// Words in the names of further headers that hold secrets.
const SECRET_WORDS: [&str; 5] = ["api-key", "apikey", "token", "secret", "password"];

/// Minimum length of a value that is also masked outside of its header, in bytes. Shorter ones occur by chance.
const MIN_FOLLOWED_BYTES: usize = 6;

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

/// The values that [`mask_header`] hides, as they could occur elsewhere.
pub(crate) fn list_masked_values(name: &str, value: &Rich) -> Vec<String> {
    if value.has_secrets() || !is_secret(name) {
        return Vec::new();
    }
    let text = value.to_redacted_text();
    let mut values = vec![text.clone()];
    match name {
        "authorization" => values.extend(text.split_once(' ').map(|(_, credentials)| credentials.to_owned())),
        "cookie" => values.extend(text.split(';').filter_map(|pair| Some(pair.split_once('=')?.1.trim().to_owned()))),
        _ => {}
    }
    values.retain(|value| value.len() >= MIN_FOLLOWED_BYTES);
    values
}

fn is_secret(name: &str) -> bool {
    SECRET_HEADERS.contains(&name) || SECRET_WORDS.iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_secret_headers_are_masked() {
        let mask = |name: &str, value: &str| mask_header(name, &value.into());
        assert_eq!(mask("authorization", "Bearer abcdef"), "Bearer (masked)");
        assert_eq!(mask("x-api-key", "abcdef"), MASK);
        assert_eq!(mask("x-auth-token", "abcdef"), MASK);
        assert_eq!(mask("accept", "text/html"), "text/html");
        assert_eq!(list_masked_values("authorization", &"Bearer abcdef".into()), ["Bearer abcdef", "abcdef"]);
        assert_eq!(list_masked_values("cookie", &"a=1; session=abcdef".into()), ["a=1; session=abcdef", "abcdef"]);
        let mut named = Rich::default();
        named.push_secret("KEY");
        assert_eq!(mask_header("x-api-key", &named), "${secret.KEY}");
    }
}
