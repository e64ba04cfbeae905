//! Models over the network: one call with its retries, timeouts and secrets. How each protocol writes a request and
//! reads an answer is in its own file; which provider is asked is decided in `resolve`.

mod answer;
mod embeddings;
mod failure;
mod native;
mod openai;
mod sse;

use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use flowloom_core::request::GenerateRequest;
use flowloom_core::{Code, StepError};
use flowloom_runtime::effects::{Boxed, Context};
use futures_util::StreamExt;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};

pub(crate) use answer::Answer;
use failure::Failure;

use crate::catalog::Protocol;
use crate::settings::ModelSettings;

/// Sends of one call, the first included.
const MOST_TRIES: u32 = 3;
/// Bytes of an error body that are read.
const MOST_ERROR: usize = 64 << 10;
/// Bytes of an answer that comes in one piece.
const MOST_BODY: usize = 32 << 20;

/// Where a call goes.
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
    /// Largest answer for protocols that must be told one.
    pub(crate) max_tokens: u32,
    /// Ask for the schema in the provider's own way.
    pub(crate) native_schema: bool,
    idle: Duration,
}

/// Waiting and the time of day, so that tests need neither.
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

/// The way to every provider.
pub(crate) struct Remote {
    client: OnceLock<reqwest::Client>,
    proxy: Option<String>,
    idle: Duration,
    total: Duration,
    pub(crate) pause: Arc<dyn Pause>,
}

impl Remote {
    /// Nothing is opened before the first call.
    pub(crate) fn new(settings: &ModelSettings) -> Remote {
        Remote {
            client: OnceLock::new(),
            proxy: settings.proxy.clone(),
            idle: settings.idle_timeout,
            total: settings.total_timeout,
            pause: Arc::new(RealPause),
        }
    }

    /// Asks a provider, again where that can help.
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

    /// Waits for a call, but not longer than one may take, and tells its failure without secrets.
    async fn within<T>(&self, target: &Target, work: impl Future<Output = Result<T, Failure>>) -> Result<T, StepError> {
        let result = match tokio::time::timeout(self.total, work).await {
            Ok(result) => result,
            Err(_) => {
                let message = format!("no whole answer within {} s", self.total.as_secs_f64());
                Err(Failure::passing(Code::ModelFailed, message))
            }
        };
        let secrets: Vec<&str> = target.key.as_deref().into_iter().collect();
        result.map_err(|failure| failure.into_error(&target.provider, &secrets))
    }

    async fn tries(&self, mut call: Call<'_>, context: &Context) -> Result<Answer, Failure> {
        let client = self.client()?;
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
                    native::once(client.clone(), &call, self.pause.now(), &mut show).await
                }
            };
            let failure = match result {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            if call.native_schema && failure.refuses_schema() {
                // The answer is checked anyway, and the prompt says what is wanted.
                call.native_schema = false;
                continue;
            }
            // Once text has been shown, a second answer would stand behind half of a first one.
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
        let reply = self.post(call.target, "chat/completions", call.key, body).await?;
        let kind = reply.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if kind.starts_with("application/json") {
            return whole(idle(call.idle, read(reply, MOST_BODY)).await?, show);
        }
        let mut stream = openai::Stream::default();
        let mut parser = sse::Parser::default();
        let mut bytes = reply.bytes_stream();
        while let Some(piece) = idle(call.idle, bytes.next()).await? {
            let piece = piece.map_err(|_| Failure::truncated("the connection was lost in the middle of the answer"))?;
            let events = parser
                .push(&piece)
                .map_err(|why| Failure::new(Code::ModelFailed, format!("the answer cannot be read: {why:?}")))?;
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

    /// Sends a body to a provider that speaks OpenAI's protocol; what it answers with if that is no error.
    async fn post(&self, target: &Target, path: &str, key: &str, body: String) -> Result<reqwest::Response, Failure> {
        let mut send = self
            .client()?
            .post(format!("{}/{path}", target.base_url))
            .header(CONTENT_TYPE, "application/json")
            .header("Idempotency-Key", key)
            .body(body);
        if let Some(key) = &target.key {
            let mut value = HeaderValue::from_str(&format!("Bearer {key}"))
                .map_err(|_| Failure::new(Code::ModelKeyMissing, "the key has characters that no key has"))?;
            value.set_sensitive(true);
            send = send.header(AUTHORIZATION, value);
        }
        let reply = idle(self.idle, send.send()).await?.map_err(|error| Failure::unreachable(&error))?;
        if reply.status().is_success() {
            return Ok(reply);
        }
        let (status, headers) = (reply.status().as_u16(), reply.headers().clone());
        let body = idle(self.idle, read(reply, MOST_ERROR)).await?.0;
        Err(Failure::status(status, &headers, &String::from_utf8_lossy(&body), self.pause.now()))
    }

    fn client(&self) -> Result<reqwest::Client, Failure> {
        if let Some(client) = self.client.get() {
            return Ok(client.clone());
        }
        let failed = |error: reqwest::Error| {
            Failure::new(Code::ModelFailed, format!("the HTTP client cannot be set up: {}", error.without_url()))
        };
        // No redirects: they would carry the prompt, and some protocols' keys, to another host.
        let mut builder = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(Duration::from_secs(10));
        if let Some(proxy) = &self.proxy {
            builder = builder.proxy(reqwest::Proxy::all(proxy).map_err(failed)?);
        }
        let client = builder.build().map_err(failed)?;
        Ok(self.client.get_or_init(|| client).clone())
    }
}

/// An answer of a server that did not stream.
fn whole((body, complete): (Vec<u8>, bool), show: &mut dyn FnMut(&str)) -> Result<Answer, Failure> {
    if !complete {
        return Err(Failure::truncated("the connection was lost in the middle of the answer"));
    }
    let chunk = serde_json::from_slice(&body)
        .map_err(|error| Failure::new(Code::ModelFailed, format!("the answer cannot be read: {error}")))?;
    let mut stream = openai::Stream::default();
    stream.chunk(&chunk, show)?;
    stream.finish()
}

/// Up to `most` bytes of a body, and whether it ended by itself.
async fn read(reply: reqwest::Response, most: usize) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    let mut stream = reply.bytes_stream();
    while let Some(piece) = stream.next().await {
        let Ok(piece) = piece else { return (body, false) };
        body.extend_from_slice(&piece[..piece.len().min(most - body.len())]);
        if body.len() == most {
            return (body, false);
        }
    }
    (body, true)
}

/// Waits for `work`, but not longer than `most`.
pub(crate) async fn idle<T>(most: Duration, work: impl Future<Output = T>) -> Result<T, Failure> {
    let silent = || format!("nothing came for {} s", most.as_secs_f64());
    let waited = tokio::time::timeout(most, work).await;
    // A silent provider may still be at work, so the call is not doubled here.
    waited.map_err(|_| Failure::passing(Code::ModelTruncated, silent()))
}

/// Half a second, doubled with every try, and up to as much again so that many callers do not come back at once.
fn back_off(tries: u32) -> Duration {
    let base = Duration::from_millis(500) * 2u32.pow(tries.saturating_sub(1).min(6));
    let random = RandomState::new().hash_one(tries);
    base + base.mul_f64((random >> 11) as f64 / (1u64 << 53) as f64)
}

/// Whether an address is this machine.
pub(crate) fn is_loopback(address: &str) -> bool {
    let Ok(url) = reqwest::Url::parse(address) else { return false };
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
