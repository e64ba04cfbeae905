//! Schemas of texts with a certain form: what `email()`, `regex()` and the like add. Models get what the builder's library
//! writes, a `format` or a `pattern` without flags. Answers are checked against more ([`add_check`]).

use flowloom_core::expr::js::add_check;
use flowloom_core::value::{Map, Value};

const DATE: &str = r"(\d{4}-(0[13578]|1[02])-(0[1-9]|[12]\d|3[01])|\d{4}-(0[469]|11)-(0[1-9]|[12]\d|30)|\d{4}-02-(0[1-9]|1\d|2[0-8])|(\d\d(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)-02-29)";
const TIME: &str = r"([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?";
const EMAIL: &str = r"[A-Za-z0-9_'+-]+(\.[A-Za-z0-9_'+-]+)*@([A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?\.)+[A-Za-z]{2,}";
const UUID: &str = "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}";
const IPV4: &str = r"(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)\.){3}(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)";
const IPV6: &str = r"(?:(?:[0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4}|(?:[0-9a-fA-F]{1,4}:){1,7}:|(?:[0-9a-fA-F]{1,4}:){1,6}(?::[0-9a-fA-F]{1,4}){1,1}|(?:[0-9a-fA-F]{1,4}:){1,5}(?::[0-9a-fA-F]{1,4}){1,2}|(?:[0-9a-fA-F]{1,4}:){1,4}(?::[0-9a-fA-F]{1,4}){1,3}|(?:[0-9a-fA-F]{1,4}:){1,3}(?::[0-9a-fA-F]{1,4}){1,4}|(?:[0-9a-fA-F]{1,4}:){1,2}(?::[0-9a-fA-F]{1,4}){1,5}|(?:[0-9a-fA-F]{1,4}:){1,1}(?::[0-9a-fA-F]{1,4}){1,6}|:(?:(?::[0-9a-fA-F]{1,4}){1,7}|:))";
const URL: &str = r"[A-Za-z][A-Za-z0-9+.-]*:[^\s]+";

/// Adds the form of a method without arguments, by its name; `false` if there is no such form.
pub(super) fn add_form(schema: &mut Map, name: &str) -> bool {
    let (format, pattern) = match name {
        "email" => ("email", EMAIL),
        "url" => ("uri", URL),
        "uuid" => ("uuid", UUID),
        "date" => ("date", DATE),
        "time" => ("time", TIME),
        _ => return add_id(schema, name),
    };
    schema.insert("format".into(), format.into());
    add_check(schema, format!("^{pattern}$"), None);
    true
}

/// Adds the form of ids and encodings for which there is no `format`; `false` if there is no such form.
fn add_id(schema: &mut Map, name: &str) -> bool {
    let pattern = match name {
        "cuid" => r"^[cC][^\s-]{8,}$",
        "cuid2" => "^[0-9a-z]+$",
        "ulid" => "^[0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{26}$",
        "nanoid" => "^[A-Za-z0-9_-]{21}$",
        "base64" => "^(?:[0-9a-zA-Z+/]{4})*(?:[0-9a-zA-Z+/]{2}==|[0-9a-zA-Z+/]{3}=)?$",
        "emoji" => r"^(?:\p{Extended_Pictographic}|\p{Emoji_Component})+$",
        _ => return false,
    };
    add_pattern(schema, pattern.to_owned());
    true
}

/// Adds the form of an IP address. The options are those of `ip({version})`.
pub(super) fn add_address(schema: &mut Map, options: Option<&Value>) {
    let version = options.and_then(|options| options.get("version")).and_then(Value::as_str);
    let (format, pattern) = match version {
        Some("v4") => (Some("ipv4"), IPV4.to_owned()),
        Some("v6") => (Some("ipv6"), IPV6.to_owned()),
        _ => (None, format!("(?:{IPV4}|{IPV6})")),
    };
    if let Some(format) = format {
        schema.insert("format".into(), format.into());
    }
    add_check(schema, format!("^{pattern}$"), None);
}

/// Adds the form of a date with a time. The options are those of `datetime({offset, local})`.
pub(super) fn add_date_time(schema: &mut Map, options: &Value) {
    let is_set = |option: &str| options.get(option).is_some_and(Value::is_truthy);
    let offset = if is_set("offset") { r"(Z|[+-]\d{2}(:?\d{2})?)" } else { "Z" };
    let optional = if is_set("local") { "?" } else { "" };
    schema.insert("format".into(), "date-time".into());
    add_check(schema, format!("^{DATE}T{TIME}({offset}){optional}$"), None);
}

/// Adds a regular expression with its flags.
pub(super) fn add_regex(schema: &mut Map, pattern: &str, flags: &str) {
    add_pattern(schema, pattern.to_owned());
    // The others do not change the result.
    let flags: String = flags.chars().filter(|flag| matches!(flag, 'i' | 'm' | 's')).collect();
    if !flags.is_empty() {
        add_check(schema, format!("(?{flags}:{pattern})"), Some(pattern));
    }
}

/// Adds that a text starts with, ends with or contains another one.
pub(super) fn add_part(schema: &mut Map, method: &str, part: &Value) {
    let part = escape_regex(part);
    let pattern = match method {
        "startsWith" => format!("^{part}"),
        "endsWith" => format!("{part}$"),
        _ => part,
    };
    add_pattern(schema, pattern);
}

/// Adds a pattern to those that a text must match already.
fn add_pattern(schema: &mut Map, pattern: String) {
    let item = |pattern: Value| Value::map([("pattern", pattern)]);
    let mut all = schema.get("allOf").and_then(Value::as_list).unwrap_or_default().to_vec();
    let first = schema.shift_remove("pattern");
    if first.is_none() && all.is_empty() {
        schema.insert("pattern".into(), pattern.into());
        return;
    }
    all.extend(first.map(item));
    all.push(item(pattern.into()));
    schema.insert("allOf".into(), Value::list(all));
}

/// A regular expression that matches exactly this text.
fn escape_regex(text: &Value) -> String {
    let mut out = String::new();
    for c in text.as_str().unwrap_or_default().chars() {
        if c.is_ascii() && !c.is_ascii_alphanumeric() {
            out.push('\\');
        }
        out.push(c);
    }
    out
}
