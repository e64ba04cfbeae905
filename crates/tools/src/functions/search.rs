//! `tool::web_search`: queries the configured search engine and converts its results to a common shape.

use flowloom_core::effect::HttpRequest;
use flowloom_core::json::parse_value;
use flowloom_core::render;
use flowloom_core::rich::Rich;
use flowloom_core::value::Value;
use flowloom_runtime::effects::EffectContext;

use super::endpoint::error_from_response;
use super::error::FunctionError;
use crate::error::ToolError;
use crate::http::{HttpClient, RequestSender};

/// Default and maximum number of results.
const DEFAULT_RESULTS: i64 = 5;
const MAX_RESULTS: i64 = 20;

/// A supported search engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchProvider {
    /// Serper: takes the query as JSON; results are in `organic`.
    Serper,
    /// Brave: results are in `web.results`.
    Brave,
    /// Tavily: takes the query as JSON; results are in `results`.
    Tavily,
    /// A SearXNG instance with JSON output.
    Searxng,
}

impl SearchProvider {
    /// All providers.
    pub const ALL: [SearchProvider; 4] =
        [SearchProvider::Serper, SearchProvider::Brave, SearchProvider::Tavily, SearchProvider::Searxng];

    /// Name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            SearchProvider::Serper => "serper",
            SearchProvider::Brave => "brave",
            SearchProvider::Tavily => "tavily",
            SearchProvider::Searxng => "searxng",
        }
    }

    /// The provider called `name`.
    pub fn parse(name: &str) -> Option<SearchProvider> {
        SearchProvider::ALL.into_iter().find(|provider| provider.name() == name)
    }

    /// URL of its API; `None` for providers that are self-hosted.
    pub fn default_url(self) -> Option<&'static str> {
        match self {
            SearchProvider::Serper => Some("https://google.serper.dev/search"),
            SearchProvider::Brave => Some("https://api.search.brave.com/res/v1/web/search"),
            SearchProvider::Tavily => Some("https://api.tavily.com/search"),
            SearchProvider::Searxng => None,
        }
    }

    /// The header that contains its key.
    fn key_header(self, secret: &str) -> (String, Rich) {
        let (header, before) = match self {
            SearchProvider::Serper => ("x-api-key", ""),
            SearchProvider::Brave => ("x-subscription-token", ""),
            SearchProvider::Tavily | SearchProvider::Searxng => ("authorization", "Bearer "),
        };
        let mut value = Rich::from(before);
        value.push_secret(secret);
        (header.to_owned(), value)
    }

    fn response_shape(self) -> ResponseShape {
        match self {
            SearchProvider::Serper => ResponseShape { list: &["organic"], link: "link", text: "snippet" },
            SearchProvider::Brave => ResponseShape { list: &["web", "results"], link: "url", text: "description" },
            SearchProvider::Tavily | SearchProvider::Searxng => {
                ResponseShape { list: &["results"], link: "url", text: "content" }
            }
        }
    }
}

/// The shape of a provider's response.
struct ResponseShape {
    /// Path to the list of results.
    list: &'static [&'static str],
    /// The field of a result with its link.
    link: &'static str,
    /// The field of a result with its text.
    text: &'static str,
}

/// The configured search engine.
#[derive(Clone, Debug)]
pub struct WebSearch {
    /// The provider.
    pub provider: SearchProvider,
    /// URL of its API.
    pub url: String,
    /// Name of the secret with its key, if it needs one.
    pub key: Option<String>,
}

impl WebSearch {
    /// Searches and returns `{query_used, results: [{title, url, link, snippet}], count}`. The address has two names: AgentOS
    /// calls it `url`, AgentFlow calls it `link`.
    pub(super) async fn search_web(
        &self,
        client: &HttpClient,
        query: &str,
        count: Option<i64>,
        context: &EffectContext,
    ) -> Result<Value, ToolError> {
        let provider = self.provider.name();
        let count = count.unwrap_or(DEFAULT_RESULTS).clamp(1, MAX_RESULTS);
        let received =
            client.exchange(&self.build_request(query, count)?, &RequestSender::of_configuration(context)).await?;
        if !(200..300).contains(&received.status) {
            return Err(error_from_response(format!("the search provider {provider}"), &received).into());
        }
        let answer =
            parse_value(&received.text).map_err(|source| FunctionError::SearchResponseNotJson { provider, source })?;
        let shape = self.provider.response_shape();
        // Providers may omit the list if there are no results.
        let list = shape.list.iter().try_fold(&answer, |at, name| at.get(name));
        let list = list.and_then(Value::as_list).unwrap_or_default();
        if answer.as_map().is_none() {
            return Err(FunctionError::SearchResponseNotAnObject { provider }.into());
        }
        let row = |found: &Value| {
            let field = |name: &str| Value::from(found.get(name).and_then(Value::as_str).unwrap_or_default().trim());
            let address = field(shape.link);
            let named = [("title", field("title")), ("url", address.clone()), ("link", address)];
            Value::map(named.into_iter().chain([("snippet", field(shape.text))]))
        };
        let results: Vec<Value> = list.iter().take(count as usize).map(row).collect();
        let count = Value::from(results.len() as i64);
        Ok(Value::map([("results", Value::list(results)), ("query_used", query.into()), ("count", count)]))
    }

    fn build_request(&self, query: &str, count: i64) -> Result<HttpRequest, FunctionError> {
        let mut headers: Vec<(String, Rich)> = vec![("accept".to_owned(), "application/json".into())];
        headers.extend(self.key.iter().map(|key| self.provider.key_header(key)));
        let with = |pairs: &[(&str, &str)]| {
            let url = url::Url::parse_with_params(&self.url, pairs);
            url.map(|url| url.to_string()).map_err(FunctionError::InvalidSearchUrl)
        };
        let number = count.to_string();
        let body = |query_key: &str, most: &str| {
            let body = Value::map([(query_key, Value::from(query)), (most, count.into())]);
            Some(Rich::from(render::to_json(&body).as_str()))
        };
        let (method, url, body) = match self.provider {
            SearchProvider::Serper => ("POST", self.url.clone(), body("q", "num")),
            SearchProvider::Tavily => ("POST", self.url.clone(), body("query", "max_results")),
            SearchProvider::Brave => ("GET", with(&[("q", query), ("count", &number)])?, None),
            SearchProvider::Searxng => ("GET", with(&[("q", query), ("format", "json")])?, None),
        };
        if body.is_some() {
            headers.push(("content-type".to_owned(), "application/json".into()));
        }
        Ok(HttpRequest { method: method.to_owned(), url: url.as_str().into(), headers, body, uses_tool_host: false })
    }
}
