//! The built-in functions `tool::…`: they read their arguments, call the HTTP client, the scraper or the file system,
//! and shape the result.

use std::collections::BTreeMap;

use flowloom_core::code::Code;
use flowloom_core::effect::{CallRequest, HttpRequest, normalize_url};
use flowloom_core::error::StepError;
use flowloom_core::json::parse_value;
use flowloom_core::plan::{Capture, EffectClass};
use flowloom_core::rich::Rich;
use flowloom_core::value::{Map, Value};
use flowloom_runtime::effects::Context;

use super::Registry;
use super::arguments::Args;
use super::files::Files;
use crate::http::Received;
use crate::secrets::{Used, Writing};

/// A built-in function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Builtin {
    WebFetch,
    WebSearch,
    HttpRequest,
    FileRead,
    FileWrite,
}

impl Builtin {
    pub(super) const ALL: [Builtin; 5] =
        [Builtin::WebFetch, Builtin::WebSearch, Builtin::HttpRequest, Builtin::FileRead, Builtin::FileWrite];

    pub(super) fn of(id: &str) -> Option<Builtin> {
        Builtin::ALL.into_iter().find(|builtin| builtin.id() == id)
    }

    pub(super) fn id(self) -> &'static str {
        match self {
            Builtin::WebFetch => "tool::web_fetch",
            Builtin::WebSearch => "tool::web_search",
            Builtin::HttpRequest => "tool::http_request",
            Builtin::FileRead => "tool::file_read",
            Builtin::FileWrite => "tool::file_write",
        }
    }

    /// The argument that a prompt without other arguments stands for.
    fn main_argument(self) -> &'static str {
        match self {
            Builtin::WebFetch | Builtin::HttpRequest => "url",
            Builtin::WebSearch => "query",
            Builtin::FileRead | Builtin::FileWrite => "path",
        }
    }

    pub(super) fn class(self, request: &CallRequest) -> EffectClass {
        let changes = match self {
            Builtin::WebFetch | Builtin::WebSearch | Builtin::FileRead => false,
            Builtin::FileWrite => true,
            Builtin::HttpRequest => {
                let method = method(&Args::read(&request.payload, self.main_argument()));
                !matches!(method.as_str(), "GET" | "HEAD")
            }
        };
        if changes { EffectClass::AtMostOnce } else { EffectClass::AtLeastOnce }
    }

    pub(super) async fn call(
        self,
        registry: &Registry,
        request: &CallRequest,
        context: &Context,
    ) -> Result<Value, StepError> {
        let args = Args::read(&request.payload, self.main_argument());
        let main = args.required(self.id(), self.main_argument())?;
        match self {
            Builtin::WebFetch => registry.scraper.page(&main, Capture::Text, &context.key()).await.map(Value::from),
            Builtin::WebSearch => {
                let Some(search) = &registry.search else {
                    let message = "tool::web_search needs a search provider; set one in [search] of the configuration";
                    return Err(StepError::new(Code::FunctionFailed, message));
                };
                let count = args.value("count").and_then(Value::as_i64);
                search.search(&registry.client, &main.names_only(), count, &context.key()).await
            }
            Builtin::HttpRequest => {
                let request = http_request(&args, &main)?;
                registry.client.exchange(&request, &context.key()).await.map(reply)
            }
            Builtin::FileRead | Builtin::FileWrite => {
                let content = match self {
                    Builtin::FileWrite => Some(args.required(self.id(), "content")?),
                    _ => None,
                };
                self.file(registry, &main, content).await
            }
        }
    }

    async fn file(self, registry: &Registry, path: &Rich, content: Option<Rich>) -> Result<Value, StepError> {
        let files = registry.files.clone().ok_or_else(|| {
            let message = format!("{} needs a folder; set files.root in the configuration", self.id());
            StepError::new(Code::FileDenied, message)
        })?;
        let mut used = Used::new(registry.client.secrets());
        let path = used.fill(path, Writing::Plain)?;
        let content = content.map(|content| used.fill(&content, Writing::Plain)).transpose()?;
        let work = move || file_work(&files, &path, content.as_deref());
        let result = tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| {
            Err(StepError::new(Code::FileFailed, format!("the file operation was aborted: {error}")))
        });
        result.map_err(|error| StepError { message: used.redact(&error.message), ..error })
    }
}

fn file_work(files: &Files, path: &str, content: Option<&str>) -> Result<Value, StepError> {
    match content {
        None => files.read(path).map(Value::from),
        Some(content) => {
            let bytes = files.write(path, content)?;
            Ok(Value::map([("path", path.into()), ("bytes", Value::from(bytes as i64))]))
        }
    }
}

fn method(args: &Args) -> String {
    let written = args.text("method").map(|method| method.names_only()).unwrap_or_default();
    let method = written.trim().to_ascii_uppercase();
    if method.is_empty() { "GET".to_owned() } else { method }
}

/// Builds the request that the arguments of `tool::http_request` describe.
fn http_request(args: &Args, url: &Rich) -> Result<HttpRequest, StepError> {
    let invalid = |message: &str| StepError::new(Code::HttpRequestInvalid, message);
    let method = method(args);
    let mut headers = match args.value("headers") {
        None => Vec::new(),
        Some(_) => args.entries("headers").ok_or_else(|| invalid("the argument headers must be an object"))?,
    };
    for (name, _) in &mut headers {
        name.make_ascii_lowercase();
    }
    let body = args.text("body").filter(|body| !body.pieces().is_empty());
    if let Some(body) = &body {
        if matches!(method.as_str(), "GET" | "HEAD") {
            return Err(invalid(&format!("a {method} request cannot have a body; use another method or omit body")));
        }
        if !headers.iter().any(|(name, _)| name == "content-type") {
            let is_text = args.value("body").is_some_and(|value| value.as_str().is_some());
            let is_json = !is_text || parse_value(body.names_only().trim()).is_ok_and(|value| value.as_map().is_some());
            let kind = if is_json { "application/json" } else { "text/plain;charset=UTF-8" };
            headers.push(("content-type".to_owned(), kind.into()));
        }
    }
    let url = url.map_text(|text| normalize_url(text.trim()))?;
    Ok(HttpRequest { method, url, headers, body })
}

/// The result of `tool::http_request`: status, headers (values of one name joined) and body (parsed if it is JSON).
fn reply(received: Received) -> Value {
    let body = json_or_text(&received);
    let mut joined: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in received.headers {
        joined.entry(name).and_modify(|old| *old = format!("{old}, {value}")).or_insert(value);
    }
    let headers: Map = joined.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
    Value::map([("status", Value::from(i64::from(received.status))), ("headers", headers.into()), ("body", body)])
}

/// A response body: the value if its media type is JSON or it is a JSON object or list, otherwise the text.
pub(super) fn json_or_text(received: &Received) -> Value {
    let text = received.text.trim();
    let media = received.media_type();
    let says_json = media == "application/json" || media.ends_with("+json");
    let value = if says_json || text.starts_with(['{', '[']) { parse_value(text).ok() } else { None };
    value.unwrap_or_else(|| received.text.as_str().into())
}
