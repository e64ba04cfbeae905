//! The egress policy: which hosts a request may reach.
//!
//! A URL is checked before every hop. The addresses that a name resolves to are checked inside the connector's own
//! resolver, so the checked address is the one that is dialled. Redirects and sending are in [`crate::http`]; the list
//! of special addresses is in [`crate::address`].

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use flowloom_core::code::Code;
use flowloom_core::effect::HttpRequest;
use flowloom_core::plan::EffectClass;
use flowloom_core::rich::Rich;
use flowloom_runtime::effects::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

use crate::address;

/// Names of this machine or of its cloud's metadata service, whatever a resolver answers.
const LOCAL_NAMES: [&str; 4] = ["localhost", "metadata.google.internal", "metadata", "instance-data"];

/// A host and port exactly as in a URL.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostPort {
    host: String,
    port: u16,
}

impl HostPort {
    pub(crate) fn new(host: String, port: u16) -> HostPort {
        HostPort { host, port }
    }

    /// The host and the port of a URL; `None` if it has none.
    pub(crate) fn of_url(url: &Url) -> Option<HostPort> {
        Some(HostPort { host: url.host()?.to_string(), port: url.port_or_known_default()? })
    }

    /// The host, with brackets if it is an IPv6 address.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Parses `host:port`, for example `127.0.0.1:9001`, `localhost:9001` or `[::1]:9001`. Fails if the text has no
    /// port, or if the host is not valid.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowloom_tools::HostPort;
    ///
    /// let entry = HostPort::parse("localhost:9001").unwrap();
    /// assert_eq!(entry.to_string(), "localhost:9001");
    /// assert!(HostPort::parse("localhost").is_err());
    /// ```
    pub fn parse(text: &str) -> Result<HostPort, EgressError> {
        let invalid = || EgressError::InvalidEntry { entry: text.to_owned() };
        let (host, port) = text.trim().rsplit_once(':').ok_or_else(invalid)?;
        let port: u16 = port.parse().map_err(|_| invalid())?;
        // `Host` formats addresses like `Url`, so both sides of a comparison have the same spelling.
        let host = Host::parse(host).map_err(|_| invalid())?.to_string();
        Ok(HostPort { host, port })
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// Why a host may not be reached. The text contains the host and the port, never the path.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum EgressError {
    /// An entry of the configuration.
    #[error("egress.allow: {entry:?} is not host:port, for example \"127.0.0.1:9001\"")]
    InvalidEntry {
        /// The entry.
        entry: String,
    },
    /// A scheme other than http and https.
    #[error("{origin}: only http and https URLs are supported")]
    UnsupportedScheme {
        /// Scheme, host and port.
        origin: String,
    },
    /// The URL contains credentials.
    #[error("{origin}: a URL may not contain a user name or password")]
    UserInUrl {
        /// Scheme, host and port.
        origin: String,
    },
    /// The URL has no host.
    #[error("{origin}: the URL has no host")]
    NoHost {
        /// Scheme, host and port.
        origin: String,
    },
    /// The name or address refers to this machine or to a private network.
    #[error("{place} may not be reached: {reason}; {}", allow_hint(place))]
    SpecialHost {
        /// Host and port.
        place: HostPort,
        /// Description of the host.
        reason: String,
    },
    /// The port is not one of the permitted ones.
    #[error(
        "{place} may not be reached: port {} is not one of {}; {}", place.port(), join_ports(ports), allow_hint(place)
    )]
    PortNotAllowed {
        /// Host and port.
        place: HostPort,
        /// The permitted ports.
        ports: Vec<u16>,
    },
    /// The name resolves to an address of this machine or of a private network.
    #[error("{} (address {address}) may not be reached: {reason}; {}", place.host(), allow_hint(place))]
    SpecialAddress {
        /// Host and port.
        place: HostPort,
        /// The address.
        address: IpAddr,
        /// Description of the address.
        reason: String,
    },
}

impl EgressError {
    /// The error code.
    pub fn code(&self) -> Code {
        match self {
            EgressError::InvalidEntry { .. } => Code::ConfigInvalid,
            EgressError::UnsupportedScheme { .. }
            | EgressError::UserInUrl { .. }
            | EgressError::NoHost { .. }
            | EgressError::SpecialHost { .. }
            | EgressError::PortNotAllowed { .. }
            | EgressError::SpecialAddress { .. } => Code::EgressDenied,
        }
    }
}

/// The setting that would permit a host.
fn allow_hint(place: &HostPort) -> String {
    format!("to allow it, set egress.allow = [\"{place}\"]")
}

fn join_ports(ports: &[u16]) -> String {
    ports.iter().map(u16::to_string).collect::<Vec<_>>().join(", ")
}

/// Which hosts and ports may be reached.
#[derive(Clone, Debug)]
pub struct EgressPolicy {
    /// Exact host and port pairs that may be reached, whatever their address and port.
    pub allow: Vec<HostPort>,
    /// The same for requests whose URL is configured, and not written in a definition.
    pub configured: Vec<HostPort>,
    /// Ports that may be reached on all other hosts.
    pub ports: Vec<u16>,
    /// Hosts whose servers recognise a repeated request by its idempotency key, as `host` or `host:port`.
    pub idempotent: BTreeSet<String>,
}

impl Default for EgressPolicy {
    fn default() -> EgressPolicy {
        EgressPolicy {
            allow: Vec::new(),
            configured: Vec::new(),
            ports: vec![80, 443, 8080, 8443],
            idempotent: BTreeSet::new(),
        }
    }
}

/// How a permitted URL may be dialled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// Public addresses only: the resolver removes all others.
    Public,
    /// `egress.allow` lists this host and port, so any address it resolves to may be dialled.
    Allowed,
}

impl EgressPolicy {
    /// The default policy with `allow` entries as they are written in the configuration. Fails if an entry is not
    /// `host:port`.
    pub fn with_allow_list<T: AsRef<str>>(entries: impl IntoIterator<Item = T>) -> Result<EgressPolicy, EgressError> {
        let allow = entries.into_iter().map(|entry| HostPort::parse(entry.as_ref())).collect::<Result<_, _>>()?;
        Ok(EgressPolicy { allow, ..EgressPolicy::default() })
    }

    /// Like [`EgressPolicy::check_url`], for a request whose URL is configured.
    pub(crate) fn check_configured_url(&self, url: &Url) -> Result<Route, EgressError> {
        let is_named = || HostPort::of_url(url).is_some_and(|place| self.configured.contains(&place));
        match self.check_url(url) {
            Err(EgressError::SpecialHost { .. } | EgressError::PortNotAllowed { .. }) if is_named() => {
                Ok(Route::Allowed)
            }
            // A name of an internal host is resolved later.
            Ok(Route::Public) if is_named() => Ok(Route::Allowed),
            checked => checked,
        }
    }

    /// Checks whether a URL may be requested, and how. Names are not resolved here, but once, when
    /// connecting. Fails if the scheme is not HTTP or HTTPS, if the URL has a user name or no host, or if its host or
    /// port is not allowed.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowloom_tools::egress::{EgressPolicy, Route};
    /// use url::Url;
    ///
    /// let policy = EgressPolicy::with_allow_list(["build.internal:8080"]).expect("valid");
    /// let check = |url: &str| policy.check_url(&Url::parse(url).expect("a URL"));
    /// assert_eq!(check("https://example.com/").ok(), Some(Route::Public));
    /// assert_eq!(check("http://build.internal:8080/jobs").ok(), Some(Route::Allowed));
    /// assert!(check("http://127.0.0.1/").is_err());
    /// ```
    pub fn check_url(&self, url: &Url) -> Result<Route, EgressError> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(EgressError::UnsupportedScheme { origin: display_origin(url) });
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(EgressError::UserInUrl { origin: display_origin(url) });
        }
        let (Some(host), Some(port)) = (url.host(), url.port_or_known_default()) else {
            return Err(EgressError::NoHost { origin: display_origin(url) });
        };
        let place = HostPort { host: host.to_string(), port };
        if self.allow.contains(&place) {
            return Ok(Route::Allowed);
        }
        if let Some(reason) = describe_special_host(&host) {
            return Err(EgressError::SpecialHost { place, reason });
        }
        if !self.ports.contains(&port) {
            return Err(EgressError::PortNotAllowed { place, ports: self.ports.clone() });
        }
        Ok(Route::Public)
    }

    /// The effect class of a request. Only a server that recognises repeated requests may receive one twice that
    /// changes something.
    pub fn effect_class(&self, request: &HttpRequest) -> EffectClass {
        match request.effect_class() {
            EffectClass::AtMostOnce if self.recognizes_repetitions(&request.url) => EffectClass::AtLeastOnce,
            class => class,
        }
    }

    /// Whether the server of a URL is configured as one that recognises idempotency keys.
    pub(crate) fn recognizes_repetitions(&self, url: &Rich) -> bool {
        if self.idempotent.is_empty() {
            return false;
        }
        // Secrets do not occur in the names of hosts.
        let Ok(url) = Url::parse(&url.to_redacted_text()) else { return false };
        let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else { return false };
        self.idempotent.contains(host) || self.idempotent.contains(&format!("{host}:{port}"))
    }
}

/// Why a host is refused without resolving it.
fn describe_special_host(host: &Host<&str>) -> Option<String> {
    match host {
        Host::Ipv4(v4) => address::describe_special(IpAddr::V4(*v4)),
        Host::Ipv6(v6) => address::describe_special(IpAddr::V6(*v6)),
        Host::Domain(name) => {
            let name = name.trim_end_matches('.');
            let local = LOCAL_NAMES.contains(&name) || name.ends_with(".localhost");
            local.then(|| "the name refers to this machine".to_owned())
        }
    }
}

/// A URL for messages: scheme, host and port only.
pub(crate) fn display_origin(url: &Url) -> String {
    match url.host_str() {
        Some(host) => {
            let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
            format!("{}://{host}{port}", url.scheme())
        }
        None => format!("{}:…", url.scheme()),
    }
}

/// Resolves host names.
pub trait HostResolver: Send + Sync {
    /// All addresses of `host`. Fails if the name has no address, or if no name server answers.
    fn lookup_host<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

/// The operating system's resolver.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

impl HostResolver for SystemResolver {
    fn lookup_host<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((host, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

/// The connector's resolver; returns permitted addresses only.
pub(crate) struct GuardedResolver {
    pub(crate) lookup: Arc<dyn HostResolver>,
    pub(crate) route: Route,
}

/// Why the resolver returned no address. It is recovered from the connector's error.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ResolveError {
    /// Every address of the name is refused.
    #[error("{host} resolves to {address}: {reason}")]
    Refused { host: String, address: IpAddr, reason: String },
    /// The name has no address.
    #[error("{}", describe_missing_address(host, source.as_deref()))]
    NoAddress { host: String, source: Option<Arc<io::Error>> },
}

/// The message for a name without an address, with the resolver's error if there is one.
pub(crate) fn describe_missing_address(host: &str, error: Option<&io::Error>) -> String {
    match error {
        Some(error) => format!("no address found for {host} ({error})"),
        None => format!("no address found for {host} (the name has no address)"),
    }
}

impl GuardedResolver {
    /// The addresses of `host` that may be dialled; at least one.
    pub(crate) async fn permitted_addresses(
        lookup: &dyn HostResolver,
        route: Route,
        host: &str,
    ) -> Result<Vec<IpAddr>, ResolveError> {
        let nothing = |source| ResolveError::NoAddress { host: host.to_owned(), source };
        let mut found = lookup.lookup_host(host).await.map_err(|error| nothing(Some(Arc::new(error))))?;
        let mut refused = None;
        if route == Route::Public {
            found.retain(|address| match address::describe_special(*address) {
                Some(reason) => {
                    refused.get_or_insert((*address, reason));
                    false
                }
                None => true,
            });
        }
        match refused {
            _ if !found.is_empty() => Ok(found),
            Some((address, reason)) => Err(ResolveError::Refused { host: host.to_owned(), address, reason }),
            None => Err(nothing(None)),
        }
    }
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (lookup, route) = (self.lookup.clone(), self.route);
        Box::pin(async move {
            let addresses = GuardedResolver::permitted_addresses(&*lookup, route, name.as_str()).await?;
            // Port 0 means the port of the URL.
            let addresses: Addrs = Box::new(addresses.into_iter().map(|address| SocketAddr::new(address, 0)));
            Ok(addresses)
        })
    }
}
