//! Parses uploaded definitions: JSON, Markdown, several files, or a form with files.

use std::collections::BTreeMap;

use axum::body::Body;
use axum::extract::{DefaultBodyLimit, FromRequest, Multipart, Request};
use axum::http::{Method, Uri, header};
use flowloom_app::definitions::stored::DefinitionContent;
use flowloom_core::code::Code;
use serde_json::Value;

use crate::blocking::run_blocking;
use crate::body::{read_body, read_text};
use crate::problem::{ApiResult, Problem};
use crate::state::Server;

/// The kind of a request body, by its content type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyKind {
    Json,
    Markdown,
    Form,
}

impl BodyKind {
    /// The kind for a content type; `None` if it is not supported.
    pub(crate) fn from_content_type(content_type: &str) -> Option<BodyKind> {
        match content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase().as_str() {
            "application/json" => Some(BodyKind::Json),
            "text/markdown" => Some(BodyKind::Markdown),
            "multipart/form-data" => Some(BodyKind::Form),
            _ => None,
        }
    }

    /// Whether a route accepts this kind: JSON everywhere, files only for definitions. Another site's page can send a
    /// form without preflight, but only by POST.
    pub(crate) fn is_accepted(self, method: &Method, uri: &Uri) -> bool {
        let is_definition = method == Method::PUT && uri.path().starts_with("/api/v1/workflows/");
        match self {
            BodyKind::Json => true,
            BodyKind::Markdown => is_definition || uri.path() == "/api/v1/check",
            BodyKind::Form => is_definition,
        }
    }
}

/// The definition in a body.
pub(crate) enum UploadedDefinition {
    Json(String),
    Markdown(String),
    Files(DefinitionContent),
}

impl FromRequest<Server> for UploadedDefinition {
    type Rejection = Problem;

    async fn from_request(request: Request, server: &Server) -> ApiResult<UploadedDefinition> {
        let content_type = request.headers().get(header::CONTENT_TYPE);
        let kind = content_type.and_then(|value| BodyKind::from_content_type(value.to_str().ok()?));
        // A definition may have more values than another body. The size of its sources is limited instead.
        Ok(match kind {
            Some(BodyKind::Form) => UploadedDefinition::Files(parse_form(request, server).await?),
            Some(BodyKind::Markdown) => UploadedDefinition::Markdown(read_text(server, request).await?),
            Some(BodyKind::Json) | None => UploadedDefinition::Json(read_text(server, request).await?),
        })
    }
}

impl UploadedDefinition {
    /// The files of the definition. `id` names its file if the body does not.
    pub(crate) async fn into_content(self, id: &str) -> ApiResult<DefinitionContent> {
        let id = id.to_owned();
        let read = move || {
            let content = match self {
                UploadedDefinition::Files(content) => content,
                UploadedDefinition::Markdown(text) => DefinitionContent::single(&format!("{id}.mdx"), text),
                UploadedDefinition::Json(text) => parse_json(text, &id)?,
            };
            content.validate()?;
            Ok(content)
        };
        run_blocking(read).await?
    }
}

/// Parses a JSON body: an object with `entry` and `files` is several files, everything else is the definition itself.
fn parse_json(text: String, id: &str) -> ApiResult<DefinitionContent> {
    let invalid = |error| Problem::new(Code::RequestInvalid, format!("invalid request body: {error}"));
    let value: Value = serde_json::from_str(&text).map_err(invalid)?;
    if value.get("entry").is_some() && value.get("files").is_some() {
        return serde_json::from_value(value).map_err(invalid);
    }
    if !value.is_object() {
        return Err(Problem::new(
            Code::RequestInvalid,
            "a definition must be a JSON object: send the definition itself, or {\"entry\", \"files\"}",
        ));
    }
    Ok(DefinitionContent::single(&format!("{id}.json"), text))
}

/// Parses a form: each part with a file name is a file; the field `entry` names the entry file if there are several.
async fn parse_form(request: Request, server: &Server) -> ApiResult<DefinitionContent> {
    let invalid = |error: String| Problem::new(Code::RequestInvalid, format!("invalid form: {error}"));
    let (parts, body) = request.into_parts();
    let bytes = read_body(server, Request::from_parts(parts.clone(), body)).await?;
    let mut request = Request::from_parts(parts, Body::from(bytes));
    // The body was received within the limit of this server.
    DefaultBodyLimit::disable().apply(&mut request);
    let mut form = Multipart::from_request(request, server).await.map_err(|error| invalid(error.to_string()))?;
    let (mut files, mut entry) = (BTreeMap::new(), None);
    while let Some(field) = form.next_field().await.map_err(|error| invalid(error.to_string()))? {
        let path = field.file_name().map(str::to_owned);
        let name = field.name().unwrap_or_default().to_owned();
        let text = field.text().await.map_err(|error| invalid(error.to_string()))?;
        match path {
            Some(path) => drop(files.insert(path, text)),
            None if name == "entry" => entry = Some(text),
            None => return Err(invalid(format!("the field {name:?} is not a file"))),
        }
    }
    let only = || files.keys().next().filter(|_| files.len() == 1).cloned();
    let entry = entry.or_else(only).ok_or_else(|| invalid("name the file to compile in the field \"entry\"".into()))?;
    Ok(DefinitionContent { entry, files, format: None })
}
