//! `/docs`: the description of the routes as a page. It is made of three small files of this program and asks nobody else
//! for anything.

use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::params::At;
use crate::problem::{Answer, Problem};
use crate::state::Server;

/// The routes.
pub(crate) fn routes() -> OpenApiRouter<Server> {
    OpenApiRouter::new().routes(routes!(page)).routes(routes!(part))
}

const PAGE: &str = include_str!("docs/page.html");

/// Its other files: name, type and content.
const PARTS: [(&str, &str, &str); 2] = [
    ("docs.js", "text/javascript; charset=utf-8", include_str!("docs/docs.js")),
    ("docs.css", "text/css; charset=utf-8", include_str!("docs/docs.css")),
];

/// What the page may do: nothing but read what this server has.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";

/// This description as a page.
#[utoipa::path(get, path = "/docs", tag = "about", operation_id = "docs",
    responses((status = 200, description = "A page for people", body = String, content_type = "text/html")))]
pub(crate) async fn page() -> Response {
    let head = [(header::CONTENT_TYPE, "text/html; charset=utf-8"), (header::CONTENT_SECURITY_POLICY, POLICY)];
    (head, PAGE).into_response()
}

/// What the page is made of.
#[utoipa::path(get, path = "/docs/{file}", tag = "about", operation_id = "docs_part",
    params(("file" = String, Path, description = "`docs.js` or `docs.css`")),
    responses((status = 200, description = "The file",
            content((String = "text/javascript"), (String = "text/css"))),
        (status = 404, description = "There is no such file")))]
pub(crate) async fn part(At(file): At<String>) -> Answer<Response> {
    let part = PARTS.iter().find(|(name, ..)| *name == file);
    let (_, kind, content) = part.ok_or_else(|| Problem::not_there("file", &file))?;
    Ok(([(header::CONTENT_TYPE, *kind)], *content).into_response())
}
