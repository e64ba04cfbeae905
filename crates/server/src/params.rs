//! Extractors for path and query parameters, whose errors are problem documents.

use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use flowloom_core::code::Code;
use serde::de::DeserializeOwned;

use crate::invalid_input::describe_parameter_error;
use crate::problem::Problem;
use crate::state::Server;

/// The query parameters.
pub(crate) struct QueryParams<T>(pub(crate) T);

/// The parameters in the path.
pub(crate) struct PathParam<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<Server> for QueryParams<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, server: &Server) -> Result<QueryParams<T>, Problem> {
        let read = Query::from_request_parts(parts, server).await;
        read.map(|Query(given)| QueryParams(given))
            .map_err(|refused| invalid_request(&describe_parameter_error(&refused.body_text())))
    }
}

impl<T: DeserializeOwned + Send> FromRequestParts<Server> for PathParam<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, server: &Server) -> Result<PathParam<T>, Problem> {
        let read = Path::from_request_parts(parts, server).await;
        read.map(|Path(given)| PathParam(given))
            .map_err(|refused| invalid_request(&describe_parameter_error(&refused.body_text())))
    }
}

/// The number of items that a page contains. Fails with `RequestInvalid` if the requested number is 0 or above `max`.
pub(crate) fn check_limit(limit: Option<u32>, default: u32, max: u32) -> Result<u32, Problem> {
    check_count("limit", limit, default, max)
}

/// The value of a parameter that is a number from 1 to `max`. Fails with `RequestInvalid`.
pub(crate) fn check_count(name: &str, given: Option<u32>, default: u32, max: u32) -> Result<u32, Problem> {
    match given {
        None => Ok(default),
        Some(count) if (1..=max).contains(&count) => Ok(count),
        Some(count) => Err(invalid_request(&format!("{name} must be from 1 to {max}, not {count}"))),
    }
}

fn invalid_request(why: &str) -> Problem {
    Problem::new(Code::RequestInvalid, format!("invalid URL: {why}"))
}
