//! `/docs`: the OpenAPI document as a page. It consists of three small embedded files and loads nothing from other
//! servers.

use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::params::PathParam;
use crate::problem::{ApiResult, Problem};
use crate::state::Server;

/// The routes of the documentation page.
pub(crate) fn routes() -> OpenApiRouter<Server> {
    OpenApiRouter::new().routes(routes!(get_page)).routes(routes!(get_file))
}

const PAGE_HTML: &str = include_str!("docs/page.html");

/// The other files of the page: name, content type and content.
const PAGE_FILES: [(&str, &str, &str); 2] = [
    ("docs.js", "text/javascript; charset=utf-8", include_str!("docs/docs.js")),
    ("docs.css", "text/css; charset=utf-8", include_str!("docs/docs.css")),
];

/// Content security policy of the page: it may only read from this server.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";

/// Returns the API documentation as a page.
#[utoipa::path(get, path = "/docs", tag = "about", operation_id = "docs",
    responses((status = 200, description = "HTML page", body = String, content_type = "text/html")))]
pub(crate) async fn get_page() -> Response {
    let head = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
    ];
    (head, PAGE_HTML).into_response()
}

/// Returns a file of the documentation page.
#[utoipa::path(get, path = "/docs/{file}", tag = "about", operation_id = "docs_part",
    params(("file" = String, Path, description = "`docs.js` or `docs.css`")),
    responses((status = 200, description = "The file",
            content((String = "text/javascript"), (String = "text/css"))),
        (status = 404, description = "File not found")))]
pub(crate) async fn get_file(PathParam(file): PathParam<String>) -> ApiResult<Response> {
    let part = PAGE_FILES.iter().find(|(name, ..)| *name == file);
    let (_, kind, content) = part.ok_or_else(|| Problem::not_found("file", &file))?;
    Ok(([(header::CONTENT_TYPE, *kind)], *content).into_response())
}
