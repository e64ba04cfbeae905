//! Requests of flows as arguments of the function that sends requests: their constant parts as they are sent.

use std::sync::Arc;

use flowloom_core::effect::{HttpRequest, encode_form_text};
use flowloom_core::expr::{Data, Template, TemplatePart};
use flowloom_core::json::parse_value;
use flowloom_core::plan::{BodySpec, HttpSpec};
use flowloom_core::render::to_json;
use flowloom_core::value::{Map, Value};
use flowloom_formats::flow;

/// The header with the type of a body, as requests of flows set it.
pub(crate) const CONTENT_TYPE: &str = "Content-Type";

/// A request as arguments.
pub(crate) struct RequestArguments {
    pub(crate) arguments: Vec<(String, Data)>,
    /// How the request that the function sends can differ.
    pub(crate) differences: Vec<String>,
}

/// A body, and the type that goes with it.
struct SentBody {
    /// What is sent; `None` if only the type is.
    data: Option<Data>,
    content_type: &'static str,
    /// Whether a header of the request with another type counts instead.
    is_default_type: bool,
}

impl SentBody {
    fn new(data: Option<Data>, content_type: &'static str) -> SentBody {
        SentBody { data, content_type, is_default_type: false }
    }
}

/// The arguments for a request. `title`: its step, for messages.
pub(crate) fn read_request(http: &HttpSpec, title: &str) -> RequestArguments {
    let mut differences = Vec::new();
    let mut arguments = vec![("url".to_owned(), Data::Text(http.url.clone()))];
    match http.method.as_literal() {
        Some("") => {}
        _ => arguments.push(("method".to_owned(), Data::Text(http.method.clone()))),
    }
    let body = read_body(&http.body, title, &mut differences);
    if body.is_some() && http.method.as_literal().is_none() {
        differences
            .push(format!("the body of {title}: its method is computed, and a GET request with a body fails here"));
    }
    let mut rows = read_headers(http, title, &mut differences);
    let body = body.and_then(|body| {
        let is_typed = rows.iter().any(|(name, _)| name.eq_ignore_ascii_case(CONTENT_TYPE));
        // The function itself gives a value the type of JSON.
        let is_value = !is_typed && body.data.as_ref().is_some_and(|data| !is_text(data));
        let keeps_type = is_value || is_typed && body.is_default_type;
        if !keeps_type {
            set_header(&mut rows, CONTENT_TYPE, Template::from_literal(body.content_type));
        }
        body.data
    });
    let headers = join_headers(rows);
    if !headers.is_empty() {
        let entries = headers.into_iter().map(|(name, value)| (Arc::from(name), Data::Text(value))).collect();
        arguments.push(("headers".to_owned(), Data::Map(entries)));
    }
    arguments.extend(body.map(|body| ("body".to_owned(), body)));
    RequestArguments { arguments, differences }
}

fn constant_text(text: &str) -> Data {
    Data::Text(Template::from_literal(text))
}

/// Whether a value is sent as the text that it is.
fn is_text(data: &Data) -> bool {
    matches!(data, Data::Text(_) | Data::Constant(Value::String(_)))
}

/// The rows of headers, of which the last one with a name counts.
fn read_headers(http: &HttpSpec, title: &str, differences: &mut Vec<String>) -> Vec<(String, Template)> {
    let mut rows = Vec::new();
    for (name, value) in &http.headers {
        match name.as_literal() {
            Some(name) => set_header(&mut rows, name, value.clone()),
            None => {
                let name = name.show_source();
                differences.push(format!("the header {name} of {title}: the name of a header is constant here"));
            }
        }
    }
    rows
}

fn set_header(rows: &mut Vec<(String, Template)>, name: &str, value: Template) {
    match rows.iter_mut().find(|(known, _)| known == name) {
        Some((_, old)) => *old = value,
        None => rows.push((name.to_owned(), value)),
    }
}

/// The headers of which none has the name of another one in other letters: such rows are joined.
fn join_headers(rows: Vec<(String, Template)>) -> Vec<(String, Template)> {
    let mut joined: Vec<(String, Template)> = Vec::new();
    for (name, value) in rows {
        match joined.iter_mut().find(|(known, _)| known.eq_ignore_ascii_case(&name)) {
            Some((_, old)) => {
                old.parts.push(TemplatePart::Text(", ".into()));
                old.parts.extend(value.parts);
                *old = join_texts(std::mem::take(&mut old.parts));
            }
            None => joined.push((name, value)),
        }
    }
    joined
}

fn read_body(body: &BodySpec, title: &str, differences: &mut Vec<String>) -> Option<SentBody> {
    match body {
        BodySpec::None => None,
        BodySpec::Text(text) => {
            let made = SentBody::new(Some(Data::Text(text.clone())), "text/plain;charset=UTF-8");
            Some(SentBody { is_default_type: true, ..made })
        }
        BodySpec::Form(fields) => {
            if !fields.iter().all(|(name, value)| is_constant(name) && is_constant(value)) {
                differences.push(format!("the form of {title}: inserted values are not encoded here"));
            }
            Some(SentBody::new(Some(Data::Text(join_form(fields))), "application/x-www-form-urlencoded"))
        }
        BodySpec::JsonText(text) => Some(read_json_text(body, text, title, differences)),
        BodySpec::JsonValue(data) => {
            let written = if is_constant_data(data) { send_constant(body).ok().flatten() } else { None };
            let data = written.map_or_else(|| data.clone(), read_written);
            Some(SentBody::new(Some(data), "application/json"))
        }
    }
}

/// JSON as text, which a request of a flow repairs and lays out.
fn read_json_text(body: &BodySpec, text: &Template, title: &str, differences: &mut Vec<String>) -> SentBody {
    let raw = || Some(Data::Text(text.clone()));
    let data = match is_constant(text).then(|| send_constant(body)) {
        Some(Ok(written)) => written.map(read_written),
        Some(Err(())) => {
            differences.push(format!("the body of {title}: it is not JSON, which is an error there, and is sent here"));
            raw()
        }
        None => {
            let message =
                "what the inserted values make of it is sent as it is here, and is repaired and laid out there";
            differences.push(format!("the body of {title}: {message}"));
            raw()
        }
    };
    SentBody::new(data, "application/json")
}

/// A constant body as a request of a flow sends it. Fails if it cannot be sent.
fn send_constant(body: &BodySpec) -> Result<Option<String>, ()> {
    let request = HttpSpec {
        method: Template::from_literal("POST"),
        url: Template::from_literal("http://localhost/"),
        headers: Vec::new(),
        body: body.clone(),
        uses_tool_host: false,
    };
    let sent = HttpRequest::resolve(&request, &Map::new(), flow::TEXT_RULES).map_err(|_| ())?;
    Ok(sent.body.map(|body| body.to_redacted_text()))
}

/// JSON text as the value that is sent as this text, if there is one.
fn read_written(text: String) -> Data {
    let value = parse_value(&text).ok();
    let is_object = |value: &Value| matches!(value, Value::Map(_) | Value::List(_));
    match value.filter(|value| is_object(value) && to_json(value) == text) {
        Some(value) => Data::Constant(value),
        None => constant_text(&text),
    }
}

fn is_constant(text: &Template) -> bool {
    text.as_literal().is_some()
}

fn is_constant_data(data: &Data) -> bool {
    match data {
        Data::Constant(_) => true,
        Data::Text(text) => is_constant(text),
        Data::List(items) => items.iter().all(is_constant_data),
        Data::Map(entries) => entries.iter().all(|(_, inner)| is_constant_data(inner)),
    }
}

/// The fields of a form as the text of a request, with constant text encoded.
fn join_form(fields: &[(Template, Template)]) -> Template {
    let mut parts = Vec::new();
    let encode = |part: &TemplatePart| match part {
        TemplatePart::Text(text) => TemplatePart::Text(encode_form_text(text).into()),
        other => other.clone(),
    };
    for (name, value) in fields {
        if !parts.is_empty() {
            parts.push(TemplatePart::Text("&".into()));
        }
        parts.extend(name.parts.iter().map(encode));
        parts.push(TemplatePart::Text("=".into()));
        parts.extend(value.parts.iter().map(encode));
    }
    join_texts(parts)
}

/// A template in which no text follows another one.
fn join_texts(parts: Vec<TemplatePart>) -> Template {
    let mut joined: Vec<TemplatePart> = Vec::new();
    for part in parts {
        match (joined.last_mut(), &part) {
            (Some(TemplatePart::Text(last)), TemplatePart::Text(text)) => *last = format!("{last}{text}").into(),
            _ => joined.push(part),
        }
    }
    Template { parts: joined }
}

#[cfg(test)]
mod tests {
    use flowloom_core::expr::Ref;

    use super::*;

    fn to_template(text: &str) -> Template {
        Template::from_literal(text)
    }

    fn make_reference() -> Template {
        Template { parts: vec![TemplatePart::Ref(Ref { name: "x".into(), path: Vec::new(), source: "${x}".into() })] }
    }

    fn make_request(method: Template, headers: &[(&str, &str)], body: BodySpec) -> HttpSpec {
        let headers = headers.iter().map(|(name, value)| (to_template(name), to_template(value))).collect();
        HttpSpec { method, url: to_template("http://a/"), headers, body, uses_tool_host: false }
    }

    /// The arguments besides the address as text, and the differences.
    fn read_arguments(http: &HttpSpec) -> (String, Vec<String>) {
        let RequestArguments { arguments, differences } = read_request(http, "r");
        let arguments: Map = arguments
            .into_iter()
            .filter(|(name, _)| name != "url")
            .map(|(name, data)| (name.into(), data.resolve(&Map::new(), flow::TEXT_RULES).expect("resolves")))
            .collect();
        (to_json(&arguments.into()), differences)
    }

    #[test]
    fn constant_requests_are_the_same() {
        let json = |body: &str| BodySpec::JsonText(to_template(body));
        let value = |body: &str| BodySpec::JsonValue(Data::Constant(parse_value(body).expect("JSON")));
        let form = BodySpec::Form(vec![
            (to_template("a"), to_template("x y&z")),
            (to_template("gr\u{fc}n"), to_template("2")),
        ]);
        let cases = [
            ("GET", &[("X-A", "1"), ("x-a", "2")][..], BodySpec::None, r#"{"method":"GET","headers":{"X-A":"1, 2"}}"#),
            ("", &[("A", "1"), ("A", "2")], BodySpec::None, r#"{"headers":{"A":"2"}}"#),
            (
                "POST",
                &[],
                form,
                r#"{"method":"POST","headers":{"Content-Type":"application/x-www-form-urlencoded"},"body":"a=x+y%26z&gr%C3%BCn=2"}"#,
            ),
            ("PUT", &[], json("{'a': 1.50, b:[1,2,],}"), r#"{"method":"PUT","body":{"a":1.5,"b":[1,2]}}"#),
            ("POST", &[], json("null"), r#"{"method":"POST","headers":{"Content-Type":"application/json"}}"#),
            (
                "POST",
                &[],
                json("\"a\""),
                r#"{"method":"POST","headers":{"Content-Type":"application/json"},"body":"\"a\""}"#,
            ),
            (
                "POST",
                &[("content-type", "x/y")],
                value("{\"a\":1}"),
                r#"{"method":"POST","headers":{"content-type":"x/y, application/json"},"body":{"a":1}}"#,
            ),
            ("POST", &[], value("{\"a\":1}"), r#"{"method":"POST","body":{"a":1}}"#),
            (
                "POST",
                &[],
                BodySpec::Text(to_template("{\"a\":1}")),
                r#"{"method":"POST","headers":{"Content-Type":"text/plain;charset=UTF-8"},"body":"{\"a\":1}"}"#,
            ),
            (
                "POST",
                &[("content-type", "x/y")],
                BodySpec::Text(to_template("a")),
                r#"{"method":"POST","headers":{"content-type":"x/y"},"body":"a"}"#,
            ),
        ];
        for (method, headers, body, expected) in cases {
            let http = make_request(to_template(method), headers, body);
            assert_eq!(read_arguments(&http), (expected.to_owned(), Vec::new()), "{http:?}");
        }
    }

    #[test]
    fn what_inserted_values_change_is_a_difference() {
        let mut named = make_request(to_template("GET"), &[], BodySpec::None);
        named.headers.push((make_reference(), to_template("1")));
        let cases = [
            (
                make_request(to_template("POST"), &[], BodySpec::Form(vec![(to_template("a"), make_reference())])),
                "are not encoded",
            ),
            (make_request(to_template("POST"), &[], BodySpec::JsonText(make_reference())), "repaired"),
            (make_request(to_template("POST"), &[], BodySpec::JsonText(to_template("{\"a\""))), ""),
            (make_request(to_template("POST"), &[], BodySpec::JsonText(to_template("a"))), "it is not JSON"),
            (make_request(make_reference(), &[], BodySpec::Text(to_template("a"))), "its method is computed"),
            (named, "the header ${x} of r"),
        ];
        for (http, expected) in cases {
            let differences = read_arguments(&http).1;
            let is_right = if expected.is_empty() { differences.is_empty() } else { differences[0].contains(expected) };
            assert!(is_right, "{http:?}: {differences:?}");
        }
    }
}
