//! The `ETag` of a definition, and the conditions of requests: `If-Match` and `If-None-Match` (RFC 9110).

use axum::Json;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use flowloom_core::code::Code;
use flowloom_store::{ContentTags, DefinitionCondition};
use serde::Serialize;

use crate::problem::{ApiResult, Problem};
use crate::state::Server;

/// The condition of a request that changes a definition.
pub(crate) struct IfContent(pub(crate) DefinitionCondition);

impl FromRequestParts<Server> for IfContent {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Server) -> Result<IfContent, Problem> {
        let headers = &parts.headers;
        let required = read_tags(headers, &header::IF_MATCH)?;
        let excluded = read_tags(headers, &header::IF_NONE_MATCH)?;
        Ok(IfContent(DefinitionCondition { required, excluded }))
    }
}

/// The tags in a header: `*`, or a list of quoted tags.
fn read_tags(headers: &HeaderMap, name: &HeaderName) -> ApiResult<Option<ContentTags>> {
    let values: Vec<&str> = headers.get_all(name).iter().map(|value| value.to_str().unwrap_or("?")).collect();
    let text = values.join(",");
    match text.trim() {
        "" => return Ok(None),
        "*" => return Ok(Some(ContentTags::Any)),
        _ => {}
    }
    let tags: Option<Vec<String>> = text.split(',').map(|tag| parse_tag(tag.trim())).collect();
    let tags = tags.ok_or_else(|| {
        let message = format!("the header {name} must be * or a list of quoted tags, not {text}");
        Problem::new(Code::RequestInvalid, message)
    })?;
    Ok(Some(ContentTags::OneOf(tags)))
}

/// A tag without its quotes. Proxies that compress mark tags as weak; the content is the same.
fn parse_tag(text: &str) -> Option<String> {
    let quoted = text.strip_prefix("W/").unwrap_or(text);
    quoted.strip_prefix('"')?.strip_suffix('"').filter(|tag| !tag.contains('"')).map(str::to_owned)
}

/// A response with the tag of its content. A client that has this content already gets 304 without a body.
pub(crate) struct Tagged<T> {
    /// The tag without quotes; `None` for what cannot be changed here.
    pub(crate) tag: Option<String>,
    /// Whether the client has this content.
    pub(crate) is_known: bool,
    pub(crate) status: StatusCode,
    pub(crate) body: T,
}

impl<T> Tagged<T> {
    /// A response to a request that reads.
    pub(crate) fn read(condition: &DefinitionCondition, tag: Option<String>, body: T) -> Tagged<T> {
        let is_known = match (&condition.excluded, &tag) {
            (Some(ContentTags::Any), Some(_)) => true,
            (Some(ContentTags::OneOf(tags)), Some(tag)) => tags.contains(tag),
            _ => false,
        };
        Tagged { tag, is_known, status: StatusCode::OK, body }
    }

    /// A response to a request that changed something.
    pub(crate) fn of_change(status: StatusCode, tag: Option<String>, body: T) -> Tagged<T> {
        Tagged { tag, is_known: false, status, body }
    }
}

impl<T: Serialize> IntoResponse for Tagged<T> {
    fn into_response(self) -> Response {
        let mut response = match self.is_known {
            true => StatusCode::NOT_MODIFIED.into_response(),
            false => (self.status, Json(self.body)).into_response(),
        };
        let tag = self.tag.and_then(|tag| HeaderValue::from_str(&format!("\"{tag}\"")).ok());
        if let Some(tag) = tag {
            response.headers_mut().insert(header::ETAG, tag);
            // A client may store it, and must ask whether it is still current.
            response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> ApiResult<Option<ContentTags>> {
        let headers = HeaderMap::from_iter([(header::IF_MATCH, HeaderValue::from_str(text).expect("a header"))]);
        read_tags(&headers, &header::IF_MATCH)
    }

    #[test]
    fn a_condition_is_a_star_or_a_list_of_quoted_tags() {
        assert_eq!(read("*").expect("valid"), Some(ContentTags::Any));
        let both = vec!["a-1".to_owned(), "b-2".to_owned()];
        assert_eq!(read("\"a-1\", W/\"b-2\"").expect("valid"), Some(ContentTags::OneOf(both)));
        assert_eq!(read_tags(&HeaderMap::new(), &header::IF_MATCH).expect("valid"), None);
        assert!(read("a-1").is_err() && read("\"a").is_err());
    }
}
