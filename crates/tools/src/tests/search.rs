//! Web search: how each provider is called, and the common shape of the results.

use flowloom_core::code::Code;
use flowloom_core::error::Retry;
use flowloom_core::json::parse_value;
use flowloom_core::value::Value;

use super::functions::call_function;
use super::{TestServer, client_for, http_reply};
use crate::functions::{FunctionRegistry, SearchProvider, WebSearch};

const SERPER_REPLY: &str =
    r#"{"organic": [{"title": "T", "link": "http://a.test/", "snippet": " s ", "position": 1}, {"title": "U"}]}"#;
const BRAVE_REPLY: &str =
    r#"{"web": {"results": [{"title": "T", "url": "http://a.test/", "description": "s"}, {"title": "U"}]}}"#;
const OTHER_REPLY: &str = r#"{"results": [{"title": "T", "url": "http://a.test/", "content": "s"}, {"title": "U"}]}"#;

fn registry_with(server: &TestServer, provider: SearchProvider, key: Option<&str>) -> FunctionRegistry {
    let search = WebSearch { provider, url: server.url_of("/find"), key: key.map(str::to_owned) };
    FunctionRegistry::new(client_for(&[server])).with_search(search)
}

async fn search_web(registry: &FunctionRegistry, count: i64) -> Result<Value, flowloom_core::StepFailure> {
    call_function(registry, "tool::web_search", &[("query", "a b&c".into()), ("count", count.into())]).await
}

#[tokio::test]
async fn every_provider_is_asked_its_own_way_and_answers_in_one_shape() {
    let cases = [
        (SearchProvider::Serper, SERPER_REPLY, "POST /find HTTP", r#"{"q":"a b&c","num":2}"#, "x-api-key", ""),
        (SearchProvider::Brave, BRAVE_REPLY, "GET /find?q=a+b%26c&count=2 HTTP", "", "x-subscription-token", ""),
        (
            SearchProvider::Tavily,
            OTHER_REPLY,
            "POST /find HTTP",
            r#"{"query":"a b&c","max_results":2}"#,
            "authorization",
            "Bearer ",
        ),
        (SearchProvider::Searxng, OTHER_REPLY, "GET /find?q=a+b%26c&format=json HTTP", "", "authorization", "Bearer "),
    ];
    let wanted = r#"{"results": [{"title": "T", "url": "http://a.test/", "link": "http://a.test/", "snippet": "s"},
        {"title": "U", "url": "", "link": "", "snippet": ""}], "query_used": "a b&c", "count": 2}"#;
    for (provider, answer, line, body, header, before) in cases {
        let server =
            TestServer::start_fixed(http_reply("200 OK", &[("content-type", "application/json")], answer)).await;
        let found = search_web(&registry_with(&server, provider, Some("KEY")), 2).await.expect("results");
        assert_eq!(found, parse_value(wanted).expect("JSON"), "{provider:?}");
        let seen = server.seen_requests().remove(0);
        assert!(seen.line.starts_with(line), "{provider:?}: {}", seen.line);
        assert_eq!(seen.body, body, "{provider:?}");
        assert_eq!(seen.get_header(header), Some(format!("{before}s3cret/+ \"value").as_str()), "{provider:?}");
        search_web(&registry_with(&server, provider, None), 1).await.expect("results");
        assert_eq!(server.seen_requests()[1].get_header(header), None, "{provider:?}");
        let few = search_web(&registry_with(&server, provider, None), 1).await.expect("results");
        assert_eq!(few.get("count"), Some(&1.into()), "a provider may give more than it was asked for");
    }
}

#[tokio::test]
async fn what_goes_wrong_names_the_provider_or_the_setting() {
    let server = TestServer::start_fixed(http_reply("429 Too Many", &[("retry-after", "7")], "slow down")).await;
    let error =
        search_web(&registry_with(&server, SearchProvider::Serper, Some("KEY")), 1).await.expect_err("a refusal");
    assert_eq!((error.code, error.retry), (Code::FunctionFailed, Retry::After(7000)));
    assert_eq!(error.message, "the search provider serper answered with status 429: slow down");
    for odd in ["<html>", "[]"] {
        let server = TestServer::start_fixed(http_reply("200 OK", &[], odd)).await;
        let error = search_web(&registry_with(&server, SearchProvider::Brave, None), 1).await.expect_err("unreadable");
        assert!(error.message.starts_with("cannot read the response of the search provider brave"), "{error}");
    }
    let server = TestServer::start_fixed(http_reply("200 OK", &[], "{}")).await;
    let nothing = search_web(&registry_with(&server, SearchProvider::Brave, None), 1).await.expect("nothing found");
    assert_eq!(nothing.get("count"), Some(&0.into()));
    let error = search_web(&FunctionRegistry::new(client_for(&[])), 1).await.expect_err("no provider");
    assert!(error.code == Code::FunctionFailed && error.message.contains("[search]"), "{error}");
}
