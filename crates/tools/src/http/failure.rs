//! Messages and codes of requests without a complete response. Messages contain the host and port, never path, query or
//! header values.

use std::error::Error;
use std::io;
use std::time::Duration;

use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use url::Url;

use super::HttpLimits;
use crate::egress::{ResolveError, display_origin};

/// The step's error for an error of the connection.
pub(super) fn to_step_error(error: &reqwest::Error, url: &Url, limits: &HttpLimits) -> StepError {
    let mut link: Option<&(dyn Error + 'static)> = Some(error);
    let mut last = String::new();
    let mut kind = None;
    while let Some(cause) = link {
        if let Some(unresolved) = cause.downcast_ref::<ResolveError>() {
            return unresolved.to_step_error(url);
        }
        last = cause.to_string();
        if last.contains("head is too large") {
            return headers_too_large(url, limits);
        }
        link = match cause.downcast_ref::<io::Error>() {
            Some(io) => {
                kind = Some(io.kind());
                // An `io::Error` returns its inner error's source as its own, and so hides the inner error.
                io.get_ref().map(|inner| inner as &(dyn Error + 'static))
            }
            None => cause.source(),
        };
    }
    let place = display_host_port(url);
    let message = match kind {
        _ if error.is_timeout() && error.is_connect() => {
            format!("{place} did not accept a connection within {}", format_duration(limits.connect))
        }
        Some(io::ErrorKind::ConnectionRefused) => format!("connection refused by {place}"),
        Some(io::ErrorKind::ConnectionReset) => format!("{place} closed the connection before it responded"),
        Some(io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable) => {
            format!("{place} is not reachable from this machine")
        }
        _ if error.is_body() || error.is_decode() => format!("the response of {place} was cut off"),
        _ if error.is_connect() => format!("no connection to {place}: {last}"),
        _ => format!("{place} did not respond: {last}"),
    };
    StepError::new_retryable(Code::HttpFailed, message)
}

pub(super) fn headers_too_large(url: &Url, limits: &HttpLimits) -> StepError {
    let HttpLimits { headers, header_bytes, .. } = limits;
    let message = format!(
        "the response of {} has more than {headers} headers or {header_bytes} bytes of headers",
        display_origin(url)
    );
    StepError::new(Code::ReplyTooLarge, message)
}

fn display_host_port(url: &Url) -> String {
    match (url.host_str(), url.port_or_known_default()) {
        (Some(host), Some(port)) => format!("{host}:{port}"),
        _ => display_origin(url),
    }
}

pub(super) fn format_duration(duration: Duration) -> String {
    if duration.subsec_millis() == 0 {
        format!("{} s", duration.as_secs())
    } else {
        format!("{} ms", duration.as_millis())
    }
}
