//! The address under which clients reach a server behind a proxy.

use axum::body::Body;
use axum::http::{HeaderValue, Uri, header};
use axum::response::Response;

use crate::error::ServeError;
use crate::problem::Problem;

/// The public address of a server: its scheme, its host and the prefix that a proxy removes from paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PublicUrl {
    /// Scheme, host and port, as browsers send them.
    pub(crate) origin: String,
    /// The host with its port.
    pub(crate) authority: String,
    /// The prefix of all paths, without a slash at its end.
    prefix: String,
}

impl PublicUrl {
    /// Parses an address such as `https://example.com/flows`. Fails if it is not an HTTP address with a host and a possible
    /// port, or has a user name or a query.
    pub(crate) fn parse(text: &str) -> Result<PublicUrl, ServeError> {
        let invalid = || ServeError::PublicUrl(text.to_owned());
        let uri: Uri = text.trim().parse().map_err(|_| invalid())?;
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else { return Err(invalid()) };
        let is_web = matches!(scheme, "http" | "https");
        if !is_web || uri.query().is_some() || authority.as_str().contains('@') || authority.host().is_empty() {
            return Err(invalid());
        }
        let names_port = authority.as_str().len() > authority.host().len();
        if names_port && authority.port_u16().is_none() {
            return Err(invalid());
        }
        let authority = authority.as_str().to_ascii_lowercase();
        let prefix = uri.path().trim_end_matches('/').to_owned();
        Ok(PublicUrl { origin: format!("{scheme}://{authority}"), authority, prefix })
    }

    /// The whole address, without a slash at its end.
    pub(crate) fn to_text(&self) -> String {
        format!("{}{}", self.origin, self.prefix)
    }

    /// The prefix of all paths, without a slash at its end; empty if there is none.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The name of the host, without the port.
    pub(crate) fn host_name(&self) -> &str {
        match self.authority.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => &self.authority,
        }
    }

    /// Whether a request that calls the server `host` came through this address. Some proxies leave out the port.
    pub(crate) fn is_called(&self, host: &str) -> bool {
        [self.authority.as_str(), self.host_name()].iter().any(|name| name.eq_ignore_ascii_case(host))
    }

    /// Adds the prefix to the addresses in a response.
    pub(crate) fn add_prefix(&self, response: &mut Response) {
        if self.prefix.is_empty() {
            return;
        }
        let location = response.headers().get(header::LOCATION).and_then(|value| value.to_str().ok());
        let location = location.filter(|path| path.starts_with('/')).map(|path| format!("{}{path}", self.prefix));
        if let Some(location) = location.and_then(|path| HeaderValue::from_str(&path).ok()) {
            response.headers_mut().insert(header::LOCATION, location);
        }
        if let Some(problem) = response.extensions().get::<Problem>() {
            let text = serde_json::to_string(&problem.to_document(&self.prefix)).unwrap_or_default();
            response.headers_mut().insert(header::CONTENT_LENGTH, text.len().into());
            *response.body_mut() = Body::from(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_an_origin_and_a_prefix() {
        let url = PublicUrl::parse("https://Example.com:8443/flows/").expect("valid");
        assert_eq!((url.origin.as_str(), url.host_name()), ("https://example.com:8443", "example.com"));
        assert_eq!(url.to_text(), "https://example.com:8443/flows");
        assert_eq!(PublicUrl::parse("http://[::1]/").expect("valid").host_name(), "[::1]");
        let wrong_ports = ["http://a:99999/", "http://a:/", "http://[::1]:99999"];
        let wrong = ["", "/flows", "example.com", "ftp://example.com", "http://a@example.com", "http://a/?q=1"];
        for wrong in wrong.into_iter().chain(wrong_ports) {
            assert!(PublicUrl::parse(wrong).is_err(), "{wrong}");
        }
    }
}
