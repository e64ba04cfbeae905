//! The permissions of the egress policy, as tables.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use flowloom_core::code::Code;
use flowloom_core::effect::HttpRequest;
use flowloom_runtime::effects::BoxFuture;
use url::Url;

use super::{TestServer, client_for, client_with, http_reply, sender};
use crate::address;
use crate::egress::{EgressPolicy, GuardedResolver, HostPort, HostResolver, ResolveError, Route};
use crate::http::{HttpClient, HttpLimits};

/// Addresses that must never be reached, however they are written. Each is refused or is not a valid URL.
const REFUSED_URLS: [&str; 84] = [
    // N-01: loopback in disguise
    "http://127.0.0.1/",
    "http://2130706433/",
    "http://0x7f000001/",
    "http://0x7f.1/",
    "http://0177.0.0.1/",
    "http://017700000001/",
    "http://127.1/",
    "http://127.0.1/",
    "http://0x7f.0.0.0x1/",
    "http://１２７.０.０.１/",
    "http://①②⑦.⓪.⓪.①/",
    "http://127。0。0。1/",
    "http://127.0.0.1./",
    "http://localhost/",
    "http://LOCALHOST/",
    "http://localhost./",
    "http://api.localhost/",
    "http://local\u{200b}host/",
    "http://ⓛocalhost/",
    "http://127.0.0.1%2F@x/",
    "http://%31%32%37.0.0.1/",
    "http:127.0.0.1/",
    "http:/127.0.0.1/",
    "http:////127.0.0.1/",
    "http://127.0.\t0.1/",
    // N-02: IPv6 and IPv4 inside it
    "http://[::1]/",
    "http://[::]/",
    "http://[0:0:0:0:0:0:0:1]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:7f00:1]/",
    "http://[::ffff:0:127.0.0.1]/",
    "http://[::127.0.0.1]/",
    "http://[64:ff9b::7f00:1]/",
    "http://[64:ff9b::169.254.169.254]/",
    "http://[64:ff9b:1::7f00:1]/",
    "http://[64:ff9b:1:ffff::1.1.1.1]/",
    "http://[2002:7f00:1::]/",
    "http://[2001:0:7f00:1::]/",
    "http://[2001:0:4136:e378:8000:63bf:80ff:fffe]/",
    "http://[fe80::1%25lo]/",
    "http://[fe80::1]/",
    "http://[fec0::1]/",
    "http://[fd00:ec2::254]/",
    "http://[fc00::1]/",
    "http://[ff02::1]/",
    "http://[2001:db8::1]/",
    "http://[100::1]/",
    "http://[5f00::1]/",
    // N-03: special ranges and metadata services
    "http://169.254.169.254/latest/meta-data/",
    "http://169.254.170.2/",
    "http://100.100.100.200/",
    "http://192.0.0.192/",
    "http://168.63.129.16/",
    "http://metadata.google.internal/",
    "http://0.0.0.0/",
    "http://0.1.2.3/",
    "http://10.0.0.1/",
    "http://172.16.0.1/",
    "http://172.31.255.255/",
    "http://192.168.1.1/",
    "http://100.64.0.1/",
    "http://198.18.0.1/",
    "http://198.19.255.255/",
    "http://224.0.0.1/",
    "http://240.0.0.1/",
    "http://255.255.255.255/",
    "http://203.0.113.1/",
    // N-06: schemes
    "file:///etc/passwd",
    "gopher://example.com/",
    "dict://example.com:80/",
    "ftp://example.com/",
    "data:text/plain,x",
    "jar:http://example.com!/",
    "unix:/run/docker.sock",
    "ws://example.com/",
    // N-07: two readings
    "http://a@127.0.0.1:80@evil.example/",
    "http:\\\\127.0.0.1\\",
    "http://1.1.1.1 &@127.0.0.1# @3.3.3.3/",
    "http://example.com%2523@127.0.0.1/",
    "http://user:pass@example.com/",
    // N-08: ports
    "http://example.com:22/",
    "http://example.com:25/",
    "http://example.com:6379/",
    "http://example.com:0/",
];

#[test]
fn nothing_special_is_reached() {
    let policy = EgressPolicy::default();
    for text in REFUSED_URLS {
        // An invalid URL is never requested.
        if let Ok(url) = Url::parse(text) {
            let error = policy.check_url(&url).expect_err(text);
            assert_eq!(error.code(), Code::EgressDenied, "{text}");
        }
    }
}

#[test]
fn public_addresses_are_reached() {
    let policy = EgressPolicy::default();
    for text in [
        "http://example.com/",
        "https://example.com:8443/x?y",
        "http://1.1.1.1/",
        "http://172.32.0.1/",
        "http://100.128.0.1/",
        "http://[2606:4700::1111]/",
        "http://[::ffff:1.1.1.1]/",
        "http://[64:ff9b::1.1.1.1]/",
        "http://localhost.example.com/",
    ] {
        assert_eq!(policy.check_url(&Url::parse(text).expect(text)).expect(text), Route::Public, "{text}");
    }
}

/// N-12: an entry allows exactly its host and port.
#[test]
fn the_allow_list_is_exact() {
    let policy = EgressPolicy::with_allow_list(["127.0.0.1:9001", "localhost:9002", "[::1]:9003", "Example.com:22"]);
    let policy = policy.expect("entries");
    let cases = [
        ("http://127.0.0.1:9001/", true),
        ("http://127.1:9001/", true),
        ("https://127.0.0.1:9001/", true),
        ("http://127.0.0.1:9002/", false),
        ("http://127.0.0.1/", false),
        ("http://localhost:9001/", false),
        ("http://localhost:9002/", true),
        ("http://LocalHost:9002/", true),
        ("http://a.localhost:9002/", false),
        ("http://[::1]:9003/", true),
        ("http://[::ffff:127.0.0.1]:9001/", false),
        ("http://example.com:22/", true),
        ("ftp://127.0.0.1:9001/", false),
        ("http://u@127.0.0.1:9001/", false),
    ];
    for (text, allowed) in cases {
        let vetted = policy.check_url(&Url::parse(text).expect(text));
        assert_eq!(vetted.is_ok(), allowed, "{text}: {vetted:?}");
        assert!(vetted.is_err() || vetted == Ok(Route::Allowed), "{text}");
    }
    for bad in ["", "localhost", "host:", ":80", "host:99999", "http://host:80", "a b:1"] {
        assert_eq!(HostPort::parse(bad).expect_err(bad).code(), Code::ConfigInvalid, "{bad}");
    }
}

#[test]
fn a_refusal_says_how_to_allow() {
    let url = Url::parse("http://127.0.0.1:9001/path?token=x").expect("a URL");
    let message = EgressPolicy::default().check_url(&url).expect_err("refused").to_string();
    let expected = "127.0.0.1:9001 may not be reached: loopback; \
                    to allow it, set egress.allow = [\"127.0.0.1:9001\"]";
    assert_eq!(message, expected);
}

#[test]
fn neighbours_of_special_blocks_are_public() {
    for text in ["9.255.255.255", "11.0.0.0", "126.255.255.255", "128.0.0.0", "169.253.255.255", "172.15.255.255"] {
        assert_eq!(address::describe_special(text.parse().expect(text)), None, "{text}");
    }
    for text in ["192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0", "223.255.255.255", "2003::1"] {
        assert_eq!(address::describe_special(text.parse().expect(text)), None, "{text}");
    }
}

/// Returns one answer after another and counts the lookups.
struct ScriptedResolver {
    answers: Vec<Vec<IpAddr>>,
    asked: AtomicUsize,
}

impl ScriptedResolver {
    fn new(answers: &[&[&str]]) -> Arc<ScriptedResolver> {
        let parse = |text: &&str| text.parse().expect("an address");
        let answers = answers.iter().map(|answer| answer.iter().map(parse).collect()).collect();
        Arc::new(ScriptedResolver { answers, asked: AtomicUsize::new(0) })
    }
}

impl HostResolver for ScriptedResolver {
    fn lookup_host<'a>(&'a self, _host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        let turn = self.asked.fetch_add(1, Ordering::SeqCst).min(self.answers.len() - 1);
        Box::pin(std::future::ready(Ok(self.answers[turn].clone())))
    }
}

/// N-04: of the resolved addresses, only permitted ones are dialled.
#[tokio::test]
async fn resolved_addresses_are_vetted() {
    let script = ScriptedResolver::new(&[&["1.1.1.1"], &["127.0.0.1"], &["10.0.0.1", "1.0.0.1", "::1"], &[]]);
    let vet = |route| GuardedResolver::permitted_addresses(&*script, route, "rebind.example");
    assert_eq!(vet(Route::Public).await.expect("public"), ["1.1.1.1".parse::<IpAddr>().expect("ip")]);
    assert!(matches!(vet(Route::Public).await, Err(ResolveError::Refused { .. })));
    assert_eq!(vet(Route::Public).await.expect("mixed"), ["1.0.0.1".parse::<IpAddr>().expect("ip")]);
    assert!(matches!(vet(Route::Public).await, Err(ResolveError::NoAddress { .. })));
    let local = ScriptedResolver::new(&[&["127.0.0.1"]]);
    assert!(GuardedResolver::permitted_addresses(&*local, Route::Allowed, "localhost").await.is_ok());
}

fn get_request(url: &str) -> HttpRequest {
    HttpRequest { method: "GET".to_owned(), url: url.into(), headers: Vec::new(), body: None, uses_tool_host: false }
}

/// N-04 down to the socket: a public name that resolves to our own server is not dialled. Only the port rule is lifted.
#[tokio::test]
async fn a_name_that_resolves_to_loopback_is_not_dialled() {
    let server = TestServer::start_fixed(http_reply("200 OK", &[], "reached")).await;
    let policy = EgressPolicy { ports: vec![server.port], ..EgressPolicy::default() };
    let script = ScriptedResolver::new(&[&["127.0.0.1"]]);
    let secrets = Arc::new(std::collections::BTreeMap::new());
    let client = HttpClient::with_resolver(policy, secrets, HttpLimits::default(), script.clone());
    let url = format!("http://rebind.example:{}/", server.port);
    let error = client.exchange(&get_request(&url), &sender()).await.expect_err("refused");
    assert_eq!(error.code(), Code::EgressDenied, "{error:?}");
    let hint = format!("egress.allow = [\"rebind.example:{}\"]", server.port);
    let message = error.to_string();
    assert!(message.contains("127.0.0.1") && message.contains(&hint), "{message}");
    assert_eq!(script.asked.load(Ordering::SeqCst), 1);
    assert!(server.seen_requests().is_empty());
}

/// Connectors do not resolve literal addresses; the policy checks them nevertheless.
#[tokio::test]
async fn a_literal_loopback_address_is_not_dialled() {
    let server = TestServer::start_fixed(http_reply("200 OK", &[], "reached")).await;
    let client =
        client_with(EgressPolicy { ports: vec![server.port], ..EgressPolicy::default() }, HttpLimits::default());
    let error = client.exchange(&get_request(&server.url_of("/")), &sender()).await.expect_err("refused");
    assert_eq!(error.code(), Code::EgressDenied);
    assert!(server.seen_requests().is_empty());
}

/// N-05: the first hop is permitted; the second is our other server, which is not.
#[tokio::test]
async fn every_hop_is_vetted() {
    let hidden = TestServer::start_fixed(http_reply("200 OK", &[], "reached")).await;
    for status in ["301 Moved", "302 Found", "303 See", "307 Temporary", "308 Permanent"] {
        for target in [hidden.url_of("/"), "file:///etc/passwd".to_owned(), "http://u:p@example.com/".to_owned()] {
            let entry = TestServer::start_fixed(http_reply(status, &[("location", &target)], "")).await;
            let error =
                client_for(&[&entry]).exchange(&get_request(&entry.url_of("/")), &sender()).await.expect_err(&target);
            assert_eq!(error.code(), Code::EgressDenied, "{status} {target}");
        }
    }
    assert!(hidden.seen_requests().is_empty());
}

#[tokio::test]
async fn a_chain_of_redirects_ends() {
    let loops = TestServer::start_fixed(http_reply("302 Found", &[("location", "/again")], "")).await;
    let error = client_for(&[&loops]).exchange(&get_request(&loops.url_of("/")), &sender()).await.expect_err("endless");
    assert_eq!((error.code(), loops.seen_requests().len()), (Code::HttpFailed, 6));
    assert!(error.to_string().contains("more than 5 redirects"), "{error}");
}

/// N-09: the child process of this test has proxies in its environment.
#[tokio::test]
async fn proxies_of_the_environment_are_ignored() {
    const CHILD_MARK: &str = "FLOWLOOM_TEST_PROXY_CHILD";
    if std::env::var_os(CHILD_MARK).is_none() {
        let name = "tests::egress::proxies_of_the_environment_are_ignored";
        let proxy = TestServer::start_fixed(http_reply("200 OK", &[], "proxied")).await;
        let mut child = tokio::process::Command::new(std::env::current_exe().expect("this program"));
        child.args(["--exact", name]).env(CHILD_MARK, "1").env_remove("NO_PROXY").env_remove("no_proxy");
        for variable in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
            child.env(variable, proxy.url_of("/"));
        }
        assert!(child.output().await.expect("it runs").status.success());
        assert!(proxy.seen_requests().is_empty());
        return;
    }
    let server = TestServer::start_fixed(http_reply("200 OK", &[], "direct")).await;
    let received =
        client_for(&[&server]).exchange(&get_request(&server.url_of("/")), &sender()).await.expect("a reply");
    assert_eq!(received.text, "direct");
}

#[test]
fn a_configured_host_is_not_reached_by_definitions() {
    let configured = EgressPolicy::with_allow_list(["127.0.0.1:9001"]).expect("valid").allow;
    let policy = EgressPolicy { configured, ..EgressPolicy::default() };
    let url = |text: &str| Url::parse(text).expect("a URL");
    assert!(policy.check_url(&url("http://127.0.0.1:9001/admin")).is_err());
    assert_eq!(policy.check_configured_url(&url("http://127.0.0.1:9001/tool")).ok(), Some(Route::Allowed));
    assert!(policy.check_configured_url(&url("http://127.0.0.1:9002/tool")).is_err());
    assert!(policy.check_configured_url(&url("ftp://127.0.0.1:9001/tool")).is_err());
}
