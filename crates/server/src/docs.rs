//! `/docs`: the OpenAPI document as a page. It consists of three small embedded files and loads nothing from other
//! servers.

use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::params::At;
use crate::problem::{Answer, Problem};
use crate::state::Server;

/// The routes of the OpenAI-compatible API.
pub(crate) fn routes() -> OpenApiRouter<Server> {
    OpenApiRouter::new().routes(routes!(page)).routes(routes!(part))
}

const PAGE: &str = include_str!("docs/page.html");

/// The other files of the page: name, content type and content.
const PARTS: [(&str, &str, &str); 2] = [
    ("docs.js", "text/javascript; charset=utf-8", include_str!("docs/docs.js")),
    ("docs.css", "text/css; charset=utf-8", include_str!("docs/docs.css")),
];

/// Content security policy of the page: it may only read from this server.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";

/// Returns the API documentation as a page.
#[utoipa::path(get, path = "/docs", tag = "about", operation_id = "docs",
    responses((status = 200, description = "HTML page", body = String, content_type = "text/html")))]
pub(crate) async fn page() -> Response {
    let head = [(header::CONTENT_TYPE, "text/html; charset=utf-8"), (header::CONTENT_SECURITY_POLICY, POLICY)];
    (head, PAGE).into_response()
}

/// Returns a file of the documentation page.
#[utoipa::path(get, path = "/docs/{file}", tag = "about", operation_id = "docs_part",
    params(("file" = String, Path, description = "`docs.js` or `docs.css`")),
    responses((status = 200, description = "The file",
            content((String = "text/javascript"), (String = "text/css"))),
        (status = 404, description = "File not found")))]
pub(crate) async fn part(At(file): At<String>) -> Answer<Response> {
    let part = PARTS.iter().find(|(name, ..)| *name == file);
    let (_, kind, content) = part.ok_or_else(|| Problem::not_there("file", &file))?;
    Ok(([(header::CONTENT_TYPE, *kind)], *content).into_response())
}
