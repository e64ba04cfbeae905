//! Values of the configuration that are text and must have a certain form: addresses, methods, names of functions. They are
//! checked in the text of the file, so that an error names the line.

use std::fmt::Write as _;
use std::ops::Range;
use std::path::Path;

use flowloom_core::diagnostic::{LineTable, find_similar_name};
use flowloom_core::rich::RichPiece;
use flowloom_tools::HostPort;
use flowloom_tools::secrets::parse_secret_text;
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use url::Url;

use super::error::ConfigError;

/// The methods that a function may use.
const METHODS: [&str; 7] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];

/// The provider whose address may lack its scheme, as in its own environment variable.
const SCHEMELESS_PROVIDER: &str = "ollama";

/// Placeholder of any name in a path.
const ANY_KEY: &str = "*";

/// The settings that are addresses.
const ADDRESSES: [&[&str]; 7] = [
    &["functions", ANY_KEY, "url"],
    &["mcp", ANY_KEY, "url"],
    &["providers", ANY_KEY, "base_url"],
    &["search", "url"],
    &["server", "public_url"],
    &["telemetry", "otlp"],
    &["tools", "base_url"],
];

/// A value that does not have the form that it must have.
struct WrongValue {
    place: Range<usize>,
    setting: String,
    expected: String,
    value: Option<String>,
}

/// Checks the values of the configuration in `text`, the file at `path`. Fails with the first that is wrong.
pub(super) fn check_values(path: &Path, text: &str) -> Result<(), ConfigError> {
    // Invalid TOML is reported when the settings are read.
    let Ok(root) = DeTable::parse(text) else { return Ok(()) };
    let mut wrong = Vec::new();
    visit_table(root.get_ref(), &mut Vec::new(), &mut wrong);
    let Some(first) = wrong.into_iter().min_by_key(|wrong| wrong.place.start) else { return Ok(()) };
    let WrongValue { place, setting, expected, value } = first;
    let position = LineTable::new(text).find_position(text, place.start);
    Err(ConfigError::Setting { path: path.to_owned(), position, setting, expected, value })
}

fn visit_table<'t>(table: &'t DeTable<'_>, path: &mut Vec<&'t str>, wrong: &mut Vec<WrongValue>) {
    for (key, value) in table {
        path.push(key.get_ref());
        if let Some(expected) = check_name(path) {
            let (place, value) = (key.span(), Some(key.get_ref().to_string()));
            wrong.push(WrongValue { place, setting: "the name of a function".to_owned(), expected, value });
        }
        if let Some(expected) = check_function(path, value.get_ref()) {
            wrong.push(WrongValue { place: key.span(), setting: write_path(path), expected, value: None });
        }
        visit_value(value, path, wrong);
        path.pop();
    }
}

fn visit_value<'t>(value: &'t Spanned<DeValue<'_>>, path: &mut Vec<&'t str>, wrong: &mut Vec<WrongValue>) {
    match value.get_ref() {
        DeValue::Table(table) => visit_table(table, path, wrong),
        DeValue::String(text) => {
            if let Some(expected) = check_text(path, text) {
                let (place, setting) = (value.span(), write_path(path));
                wrong.push(WrongValue { place, setting, expected, value: Some(text.to_string()) });
            }
        }
        DeValue::Array(items) => items.iter().for_each(|item| visit_value(item, path, wrong)),
        _ => {}
    }
}

/// The expected form of a function name, if the last part of the path is an invalid one.
fn check_name(path: &[&str]) -> Option<String> {
    let [table, name] = path else { return None };
    let is_wrong = name.is_empty() || name.contains(|c: char| c.is_whitespace() || c.is_control());
    (*table == "functions" && is_wrong).then(|| "a name without blanks, for example shop::find".to_owned())
}

/// The expected form of a function, if the value at the path is one that has both an address and a workflow, or neither.
fn check_function(path: &[&str], value: &DeValue<'_>) -> Option<String> {
    let DeValue::Table(function) = value else { return None };
    let has = |name: &str| function.iter().any(|(key, _)| *key.get_ref() == name);
    let is_wrong = is_at(path, &["functions", ANY_KEY]) && has("url") == has("workflow");
    is_wrong.then(|| "a function with either a url or a workflow".to_owned())
}

/// The expected form of a text at a path, if the text is invalid.
fn check_text(path: &[&str], text: &str) -> Option<String> {
    if ADDRESSES.iter().any(|address| is_at(path, address)) {
        let lacks_scheme = path == ["providers", SCHEMELESS_PROVIDER, "base_url"] && !text.contains("://");
        let address = if lacks_scheme { format!("http://{text}") } else { text.to_owned() };
        return (!is_web_address(&address)).then(|| "an http or https address".to_owned());
    }
    if path == ["egress", "allow"] {
        return HostPort::parse(text)
            .is_err()
            .then(|| "a list of host:port, for example \"127.0.0.1:9001\"".to_owned());
    }
    let is_method = is_at(path, &["functions", ANY_KEY, "method"]);
    if !is_method || METHODS.contains(&text.to_ascii_uppercase().as_str()) {
        return None;
    }
    let mut expected = format!("one of {}", METHODS.join(", "));
    if let Some(meant) = find_similar_name(text, METHODS) {
        let _ = write!(expected, " (did you mean {meant}?)");
    }
    Some(expected)
}

fn is_at(path: &[&str], pattern: &[&str]) -> bool {
    path.len() == pattern.len() && path.iter().zip(pattern).all(|(part, wanted)| *wanted == ANY_KEY || part == wanted)
}

/// Whether a text is the address of a web server. It may contain secrets.
fn is_web_address(text: &str) -> bool {
    let rich = parse_secret_text(text);
    let plain: String =
        rich.pieces().iter().map(|piece| if let RichPiece::Text(text) = piece { text } else { "x" }).collect();
    Url::parse(plain.trim()).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
}

/// A path as TOML writes it.
fn write_path(path: &[&str]) -> String {
    let is_bare = |part: &str| part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    let part = |part: &&str| if is_bare(part) { (*part).to_owned() } else { format!("{part:?}") };
    path.iter().map(part).collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> String {
        check_values(Path::new("f.toml"), text).map_or_else(|error| error.to_string(), |()| String::new())
    }

    #[test]
    fn values_with_the_right_form_are_accepted() {
        for text in [
            "[functions.\"shop::find\"]\nurl = \"https://shop.example/find?key=${secret.SHOP}\"\nmethod = \"get\"",
            "[functions.\"my::flow\"]\nworkflow = \"x.json\"",
            "[providers.ollama]\nbase_url = \"127.0.0.1:11434\"",
            "[providers.other]\nbase_url = \"http://${secret.HOST}/v1\"",
            "[telemetry]\notlp = \"http://localhost:4318\"\n[tools]\nbase_url = \"https://a.example\"",
            "default_model = \"nope\"",
        ] {
            assert_eq!(check(text), "", "{text}");
        }
    }

    #[test]
    fn wrong_values_are_reported_at_their_places() {
        for (text, expected) in [
            (
                "[functions.\"x y\"]\nurl = \"nope\"",
                "f.toml:1:12: the name of a function must be a name without blanks, for example shop::find, not \"x y\"",
            ),
            (
                "[functions.\"x::y\"]\n\nurl = \"nope\"",
                "f.toml:3:7: functions.\"x::y\".url must be an http or https address, not \"nope\"",
            ),
            (
                "functions.x = {url = \"http://a.example\", method = \"PSOT\"}",
                "f.toml:1:51: functions.x.method must be one of GET, POST, PUT, PATCH, DELETE, HEAD, OPTIONS (did you mean POST?), not \"PSOT\"",
            ),
            (
                "[providers.openai]\nbase_url = \"ftp://x\"",
                "f.toml:2:12: providers.openai.base_url must be an http or https address, not \"ftp://x\"",
            ),
            (
                "[telemetry]\notlp = \"nope\"",
                "f.toml:2:8: telemetry.otlp must be an http or https address, not \"nope\"",
            ),
            ("[mcp.a]\nurl = \"http://\"", "f.toml:2:7: mcp.a.url must be an http or https address, not \"http://\""),
            (
                "[egress]\nallow = [\"127.0.0.1:1\", \"localhost\"]",
                "f.toml:2:25: egress.allow must be a list of host:port, for example \"127.0.0.1:9001\", not \"localhost\"",
            ),
            (
                "[functions.\"a::b\"]\ntimeout_ms = 10",
                "f.toml:1:12: functions.\"a::b\" must be a function with either a url or a workflow",
            ),
            (
                "functions.a = {url = \"http://a.example\", workflow = \"a.json\"}",
                "f.toml:1:11: functions.a must be a function with either a url or a workflow",
            ),
        ] {
            assert_eq!(check(text), expected, "{text}");
        }
    }

    #[test]
    fn a_password_is_not_shown() {
        let shown = check("[telemetry]\notlp = \"htp://ann:secret@x\"");
        assert_eq!(shown, "f.toml:2:8: telemetry.otlp must be an http or https address");
    }
}
