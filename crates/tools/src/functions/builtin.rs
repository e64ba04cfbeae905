//! The built-in functions `tool::…` and `write_files`: they read their arguments, call the HTTP client, the scraper or the file system,
//! and shape the result.

use std::collections::BTreeMap;

use flowloom_core::effect::{CallRequest, HttpRequest, normalize_url};
use flowloom_core::json::parse_value;
use flowloom_core::plan::{Capture, EffectClass};
use flowloom_core::rich::Rich;
use flowloom_core::value::{Map, Value};
use flowloom_runtime::effects::{EffectContext, HttpSender as _};

use super::FunctionRegistry;
use super::arguments::CallArguments;
use super::error::{FileError, FunctionError};
use super::user_files::UserFiles;
use crate::error::ToolError;
use crate::http::error::RequestError;
use crate::http::{HttpClient, HttpResponse, RequestSender};
use crate::secrets::{Destination, Requester, SecretEncoding, UsedSecrets};

/// A built-in function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BuiltinFunction {
    WebFetch,
    WebSearch,
    HttpRequest,
    FileRead,
    FileWrite,
    /// The tool that Agentflow's command line registers.
    WriteFiles,
}

impl BuiltinFunction {
    pub(super) const ALL: [BuiltinFunction; 6] = [
        BuiltinFunction::WebFetch,
        BuiltinFunction::WebSearch,
        BuiltinFunction::HttpRequest,
        BuiltinFunction::FileRead,
        BuiltinFunction::FileWrite,
        BuiltinFunction::WriteFiles,
    ];

    pub(super) fn from_id(id: &str) -> Option<BuiltinFunction> {
        BuiltinFunction::ALL.into_iter().find(|builtin| builtin.id() == id)
    }

    /// Fails if every call fails, because the configuration lacks what the function needs.
    pub(super) fn check_settings(self, has_search: bool, has_files: bool) -> Result<(), FunctionError> {
        match self {
            BuiltinFunction::WebSearch if !has_search => Err(FunctionError::NoSearchProvider),
            BuiltinFunction::FileRead | BuiltinFunction::FileWrite | BuiltinFunction::WriteFiles if !has_files => {
                Err(FunctionError::NoFileFolder { function: self.id() })
            }
            _ => Ok(()),
        }
    }

    pub(super) fn id(self) -> &'static str {
        match self {
            BuiltinFunction::WebFetch => "tool::web_fetch",
            BuiltinFunction::WebSearch => "tool::web_search",
            BuiltinFunction::HttpRequest => "tool::http_request",
            BuiltinFunction::FileRead => "tool::file_read",
            BuiltinFunction::FileWrite => "tool::file_write",
            BuiltinFunction::WriteFiles => "write_files",
        }
    }

    /// The argument that a prompt without other arguments sets.
    fn main_argument(self) -> &'static str {
        match self {
            BuiltinFunction::WebFetch | BuiltinFunction::HttpRequest => "url",
            BuiltinFunction::WebSearch => "query",
            BuiltinFunction::FileRead | BuiltinFunction::FileWrite => "path",
            BuiltinFunction::WriteFiles => "files",
        }
    }

    pub(super) fn effect_class(self, request: &CallRequest, client: &HttpClient) -> EffectClass {
        match self {
            BuiltinFunction::WebFetch | BuiltinFunction::WebSearch | BuiltinFunction::FileRead => {
                EffectClass::AtLeastOnce
            }
            BuiltinFunction::FileWrite | BuiltinFunction::WriteFiles => EffectClass::AtMostOnce,
            BuiltinFunction::HttpRequest => {
                let args = CallArguments::from_payload(&request.payload, self.main_argument());
                let main = args.required_argument(self.id(), self.main_argument()).ok();
                let built = main.and_then(|main| build_http_request(&args, &main).ok());
                match (built, request_method(&args).as_str()) {
                    (Some(request), _) => client.effect_class(&request),
                    (None, "GET" | "HEAD") => EffectClass::AtLeastOnce,
                    (None, _) => EffectClass::AtMostOnce,
                }
            }
        }
    }

    pub(super) async fn call_function(
        self,
        registry: &FunctionRegistry,
        request: &CallRequest,
        context: &EffectContext,
    ) -> Result<Value, ToolError> {
        let args = CallArguments::from_payload(&request.payload, self.main_argument());
        let main = args.required_argument(self.id(), self.main_argument())?;
        match self {
            BuiltinFunction::WebFetch => {
                registry.scraper.load_page(&main, Capture::Text, context).await.map(Value::from)
            }
            BuiltinFunction::WebSearch => {
                let Some(search) = &registry.search else {
                    return Err(FunctionError::NoSearchProvider.into());
                };
                if let Some(name) = main.first_secret() {
                    return Err(FunctionError::SecretInQuery { name: name.to_owned() }.into());
                }
                let count = args.value_argument("count").and_then(Value::as_i64);
                search.search_web(&registry.client, &main.to_redacted_text(), count, context).await
            }
            BuiltinFunction::HttpRequest => {
                let request = build_http_request(&args, &main)?;
                registry.client.exchange(&request, &RequestSender::of_definition(context)).await.map(response_value)
            }
            BuiltinFunction::FileRead | BuiltinFunction::FileWrite => {
                let content = match self {
                    BuiltinFunction::FileWrite => Some(args.required_argument(self.id(), "content")?),
                    _ => None,
                };
                self.call_file_function(registry, &main, content, context).await
            }
            BuiltinFunction::WriteFiles => {
                let files = args.object_entries("files").ok_or(FunctionError::FilesNotAnObject)?;
                self.write_files(registry, files, context).await
            }
        }
    }

    /// Writes files, each a path and its content.
    async fn write_files(
        self,
        registry: &FunctionRegistry,
        files: Vec<(String, Rich)>,
        context: &EffectContext,
    ) -> Result<Value, ToolError> {
        for (path, content) in files {
            let path = Rich::from(path.as_str());
            self.call_file_function(registry, &path, Some(content), context).await?;
        }
        Ok("ok".into())
    }

    async fn call_file_function(
        self,
        registry: &FunctionRegistry,
        path: &Rich,
        content: Option<Rich>,
        context: &EffectContext,
    ) -> Result<Value, ToolError> {
        let files = registry.files.clone().ok_or(FunctionError::NoFileFolder { function: self.id() })?;
        let mut used = UsedSecrets::new(registry.client.secrets(), Destination::Machine);
        let mut fill =
            |text: &Rich| used.fill_text(text, SecretEncoding::Plain, Requester::Definition(&context.definition));
        let path = fill(path)?;
        let content = content.as_ref().map(fill).transpose()?;
        let user = context.user.clone();
        let work = move || read_or_write_file(&files, &user, &path, content.as_deref());
        let result = tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(FileError::Aborted(error)));
        Ok(result.map_err(|error| used.redact_error(error))?)
    }
}

/// The method of the request that a built-in function sends, `*` if its arguments say; `None` if it sends none.
pub fn find_request_method(function: &str) -> Option<&'static str> {
    match BuiltinFunction::from_id(function)? {
        BuiltinFunction::WebFetch => Some("GET"),
        BuiltinFunction::WebSearch | BuiltinFunction::HttpRequest => Some("*"),
        BuiltinFunction::FileRead | BuiltinFunction::FileWrite | BuiltinFunction::WriteFiles => None,
    }
}

fn read_or_write_file(files: &UserFiles, user: &str, path: &str, content: Option<&str>) -> Result<Value, FileError> {
    match content {
        None => files.read_text(user, path).map(Value::from),
        Some(content) => {
            let bytes = files.write_text(user, path, content)?;
            Ok(Value::map([("path", path.into()), ("bytes", Value::from(bytes as i64))]))
        }
    }
}

fn request_method(args: &CallArguments) -> String {
    let written = args.text_argument("method").map(|method| method.to_redacted_text()).unwrap_or_default();
    let method = written.trim().to_ascii_uppercase();
    if method.is_empty() { "GET".to_owned() } else { method }
}

/// Builds the request that the arguments of `tool::http_request` describe.
fn build_http_request(args: &CallArguments, url: &Rich) -> Result<HttpRequest, RequestError> {
    let method = request_method(args);
    let mut headers = match args.value_argument("headers") {
        None => Vec::new(),
        Some(_) => args.object_entries("headers").ok_or(RequestError::HeadersNotAnObject)?,
    };
    for (name, _) in &mut headers {
        name.make_ascii_lowercase();
    }
    let body = args.text_argument("body").filter(|body| !body.pieces().is_empty());
    if let Some(body) = &body {
        if matches!(method.as_str(), "GET" | "HEAD") {
            return Err(RequestError::BodyNotAllowed { method });
        }
        if !headers.iter().any(|(name, _)| name == "content-type") {
            let is_text = args.value_argument("body").is_some_and(|value| value.as_str().is_some());
            let is_json =
                !is_text || parse_value(body.to_redacted_text().trim()).is_ok_and(|value| value.as_map().is_some());
            let kind = if is_json { "application/json" } else { "text/plain;charset=UTF-8" };
            headers.push(("content-type".to_owned(), kind.into()));
        }
    }
    let url = url.map_text(|text| normalize_url(text.trim()))?;
    Ok(HttpRequest { method, url, headers, body, uses_tool_host: false })
}

/// The result of `tool::http_request`: status, headers (values of one name joined) and body (parsed if it is JSON).
fn response_value(received: HttpResponse) -> Value {
    let body = parse_json_or_text(&received);
    let mut joined: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in received.headers {
        joined.entry(name).and_modify(|old| *old = format!("{old}, {value}")).or_insert(value);
    }
    let headers: Map = joined.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
    Value::map([("status", Value::from(i64::from(received.status))), ("headers", headers.into()), ("body", body)])
}

/// A response body: the value if its media type is JSON or it is a JSON object or list, otherwise the text.
pub(super) fn parse_json_or_text(received: &HttpResponse) -> Value {
    let text = received.text.trim();
    let media = received.media_type();
    let says_json = media == "application/json" || media.ends_with("+json");
    let value = if says_json || text.starts_with(['{', '[']) { parse_value(text).ok() } else { None };
    value.unwrap_or_else(|| received.text.as_str().into())
}
