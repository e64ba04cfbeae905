//! Models over the network: one call with its retries, timeouts and secrets. Each protocol has its own file for writing
//! requests and reading answers; `resolve` selects the provider.

mod answer;
mod embeddings;
mod failure;
mod http;
mod native;
mod openai;
mod sse;

use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use flowloom_core::effect::GenerateRequest;
use flowloom_core::{Code, StepError};
use flowloom_runtime::effects::{Boxed, Context};
use futures_util::{FutureExt as _, TryFutureExt as _};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

pub(crate) use answer::Answer;
use failure::Failure;
use http::{Http, Reply};

use crate::catalog::Protocol;
use crate::settings::ModelSettings;

/// Maximum number of attempts of one call, including the first.
const MOST_TRIES: u32 = 3;
/// Maximum number of bytes read of an error body.
const MOST_ERROR: usize = 64 << 10;
/// Maximum size in bytes of an answer that is not streamed.
const MOST_BODY: usize = 32 << 20;

/// Provider and model of a call.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) provider: String,
    pub(crate) protocol: Protocol,
    pub(crate) base_url: String,
    pub(crate) key: Option<String>,
    pub(crate) model: String,
}

/// One call.
pub(crate) struct Call<'a> {
    pub(crate) target: &'a Target,
    pub(crate) request: &'a GenerateRequest,
    /// Idempotency key.
    pub(crate) key: &'a str,
    /// Maximum answer in tokens, for protocols that require one.
    pub(crate) max_tokens: u32,
    /// Whether to use the provider's own support for JSON schemas.
    pub(crate) native_schema: bool,
    idle: Duration,
}

/// Clock and timer, replaced in tests.
pub(crate) trait Pause: Send + Sync {
    fn now(&self) -> SystemTime;
    fn pause(&self, length: Duration) -> Boxed<'static, ()>;
}

struct RealPause;

impl Pause for RealPause {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }

    fn pause(&self, length: Duration) -> Boxed<'static, ()> {
        Box::pin(tokio::time::sleep(length))
    }
}

/// Client for all providers.
pub(crate) struct Remote {
    http: Http,
    idle: Duration,
    total: Duration,
    pub(crate) pause: Arc<dyn Pause>,
}

impl Remote {
    /// Opens nothing before the first call.
    pub(crate) fn new(settings: &ModelSettings) -> Remote {
        Remote {
            http: Http::new(settings.proxy.clone()),
            idle: settings.idle_timeout,
            total: settings.total_timeout,
            pause: Arc::new(RealPause),
        }
    }

    /// Calls a provider, and retries where that can help.
    pub(crate) async fn generate(
        &self,
        target: &Target,
        request: &GenerateRequest,
        context: &Context,
        key: &str,
        max_tokens: u32,
    ) -> Result<Answer, StepError> {
        let call = Call { target, request, key, max_tokens, native_schema: request.schema.is_some(), idle: self.idle };
        self.within(target, self.tries(call, context)).await
    }

    /// Applies the total timeout to a call and converts its failure without secrets.
    ///
    /// Neither this nor [`idle`] is an `async fn`: such a future has room for its argument twice, and many calls wait
    /// in it.
    fn within<T>(
        &self,
        target: &Target,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> impl Future<Output = Result<T, StepError>> {
        tokio::time::timeout(self.total, work).map(move |result| {
            let result = result.unwrap_or_else(|_| {
                let message = format!("no complete answer within {} s", self.total.as_secs_f64());
                Err(Failure::passing(Code::ModelFailed, message))
            });
            let secrets: Vec<&str> = target.key.as_deref().into_iter().collect();
            result.map_err(|failure| failure.into_error(&target.provider, &secrets))
        })
    }

    async fn tries(&self, mut call: Call<'_>, context: &Context) -> Result<Answer, Failure> {
        let mut tries = 0;
        loop {
            tries += 1;
            let mut shown = false;
            let mut show = |text: &str| {
                shown = true;
                context.deltas.push(&context.path, context.attempt, text);
            };
            let result = match call.target.protocol {
                Protocol::OpenAi => self.openai(&call, &mut show).await,
                Protocol::Anthropic | Protocol::Gemini => {
                    Box::pin(native::once(self.http.web()?, &call, self.pause.now(), &mut show)).await
                }
            };
            let failure = match result {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            if call.native_schema && failure.refuses_schema() {
                // The answer is validated anyway, and the prompt contains the schema.
                call.native_schema = false;
                continue;
            }
            // Once text has been shown, a second answer would follow half of the first one.
            if !failure.again || shown || tries >= MOST_TRIES {
                return Err(failure);
            }
            self.pause_after(&failure, tries).await;
        }
    }

    async fn pause_after(&self, failure: &Failure, tries: u32) {
        self.pause.pause(failure.wait.unwrap_or_else(|| back_off(tries))).await;
    }

    async fn openai(&self, call: &Call<'_>, show: &mut (dyn FnMut(&str) + Send)) -> Result<Answer, Failure> {
        let body = openai::body(&call.target.model, call.request, call.native_schema).to_string();
        let mut reply = self.post(call.target, "chat/completions", call.key, body).await?;
        if reply.header("content-type").starts_with("application/json") {
            return whole(idle(call.idle, read(reply, MOST_BODY)).await?, show);
        }
        let mut stream = openai::Stream::default();
        let mut parser = sse::Parser::default();
        while let Some(piece) = idle(call.idle, reply.piece()).await?? {
            let events = parser
                .push(&piece)
                .map_err(|why| Failure::new(Code::ModelFailed, format!("cannot read the answer: {why:?}")))?;
            for event in &events {
                stream.event(event, show)?;
            }
            if stream.done {
                return stream.finish();
            }
        }
        if let Some(event) = parser.finish() {
            stream.event(&event, show)?;
        }
        stream.finish()
    }

    /// Sends a body to a provider with OpenAI's protocol; returns its response unless it is an error.
    async fn post(&self, target: &Target, path: &str, key: &str, body: String) -> Result<Reply, Failure> {
        let mut headers = HeaderMap::with_capacity(3);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(HeaderName::from_static("idempotency-key"), http::secret(key)?);
        if let Some(key) = &target.key {
            headers.insert(AUTHORIZATION, http::secret(&format!("Bearer {key}"))?);
        }
        let url = format!("{}/{path}", target.base_url);
        let reply = idle(self.idle, self.http.post(&url, headers, body)).await??;
        if (200..300).contains(&reply.status) {
            return Ok(reply);
        }
        let (status, headers) = (reply.status, reply.headers.clone());
        let body = idle(self.idle, read(reply, MOST_ERROR)).await?.0;
        Err(Failure::status(status, &headers, &String::from_utf8_lossy(&body), self.pause.now()))
    }
}

/// Reads the answer of a server that does not stream.
fn whole((body, complete): (Vec<u8>, bool), show: &mut dyn FnMut(&str)) -> Result<Answer, Failure> {
    if !complete {
        return Err(Failure::truncated("the connection was lost in the middle of the answer"));
    }
    let chunk = serde_json::from_slice(&body)
        .map_err(|error| Failure::new(Code::ModelFailed, format!("cannot parse the answer: {error}")))?;
    let mut stream = openai::Stream::default();
    stream.chunk(&chunk, show)?;
    stream.finish()
}

/// Up to `most` bytes of a body, and whether the body ended.
async fn read(mut reply: Reply, most: usize) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    loop {
        match reply.piece().await {
            Ok(Some(piece)) => body.extend_from_slice(&piece[..piece.len().min(most - body.len())]),
            Ok(None) => return (body, true),
            Err(_) => return (body, false),
        }
        if body.len() == most {
            return (body, false);
        }
    }
}

/// Waits for `work`, but no longer than `most`.
pub(crate) fn idle<T>(most: Duration, work: impl Future<Output = T>) -> impl Future<Output = Result<T, Failure>> {
    let silent = move |_| {
        // The provider may still be working, so the call is not repeated here.
        Failure::passing(Code::ModelTruncated, format!("received no data for {} s", most.as_secs_f64()))
    };
    tokio::time::timeout(most, work).map_err(silent)
}

/// Exponential backoff from half a second, with random jitter so that many callers do not retry at once.
fn back_off(tries: u32) -> Duration {
    let base = Duration::from_millis(500) * 2u32.pow(tries.saturating_sub(1).min(6));
    let random = RandomState::new().hash_one(tries);
    base + base.mul_f64((random >> 11) as f64 / (1u64 << 53) as f64)
}

/// Whether a URL refers to this machine.
pub(crate) fn is_loopback(address: &str) -> bool {
    let Ok(url) = reqwest::Url::parse(address) else { return false };
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
