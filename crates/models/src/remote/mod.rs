//! Models over the network: one call with its retries, timeouts and secrets. Each protocol has its own file for writing
//! requests and reading answers; `resolve` selects the provider.

mod answer;
mod embeddings;
mod error;
mod http;
mod idle;
mod native;
mod openai;
mod sse;
mod status;

use std::future::{self, Future};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use flowloom_core::effect::GenerateRequest;
use flowloom_runtime::descriptors::{self, is_out_of_descriptors};
use flowloom_runtime::effects::{BoxFuture, EffectContext};
use flowloom_runtime::timing::ResponseTimer;
use futures_util::future::Either;
use futures_util::{FutureExt as _, TryFutureExt as _};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

pub(crate) use answer::ProviderAnswer;
pub use error::ProviderCallError;
use error::ProviderError;
use http::{HttpClient, HttpReply};
use idle::{IdleTimer, with_idle_timeout};
use openai::Progress;
pub use sse::{SseEvent, SseParser, Unreadable};

use crate::catalog::Protocol;
use crate::error::ModelError;
use crate::settings::ModelSettings;

/// Maximum number of attempts of one call of a provider, including the first.
pub const MAX_CALL_ATTEMPTS: u32 = 3;
/// Maximum number of bytes read of an error body.
const MAX_ERROR_BODY_BYTES: usize = 64 << 10;
/// Maximum size in bytes of an answer that is not streamed.
const MAX_BODY_BYTES: usize = 32 << 20;

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
pub(crate) struct ProviderCall<'a> {
    pub(crate) target: &'a Target,
    pub(crate) request: &'a GenerateRequest,
    /// Idempotency key.
    pub(crate) key: &'a str,
    /// The trace that the call belongs to, as the header `traceparent`.
    pub(crate) traceparent: Option<String>,
    /// Maximum answer in tokens, for protocols that require one.
    pub(crate) max_tokens: u32,
    /// Whether to use the provider's own support for JSON schemas.
    pub(crate) native_schema: bool,
    idle: Duration,
}

/// A body for a provider with OpenAI's protocol.
struct JsonPost<'a> {
    /// The path below the base URL.
    path: &'a str,
    /// Idempotency key.
    key: &'a str,
    /// The trace that the call belongs to.
    traceparent: Option<&'a str>,
    body: String,
    /// Timeout until the head of the response.
    idle: Duration,
}

/// Clock and timer, replaced in tests.
pub(crate) trait RetryClock: Send + Sync {
    fn now(&self) -> SystemTime;
    fn wait_for(&self, length: Duration) -> BoxFuture<'static, ()>;
}

struct RealPause;

impl RetryClock for RealPause {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }

    fn wait_for(&self, length: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(length))
    }
}

/// Client for all providers.
pub(crate) struct RemoteModels {
    http: HttpClient,
    idle: Duration,
    total: Duration,
    pub(crate) pause: Arc<dyn RetryClock>,
}

impl RemoteModels {
    /// Opens nothing before the first call.
    pub(crate) fn new(settings: &ModelSettings) -> RemoteModels {
        RemoteModels {
            http: HttpClient::new(settings.proxy.clone()),
            idle: settings.idle_timeout,
            total: settings.total_timeout,
            pause: Arc::new(RealPause),
        }
    }

    /// Calls a provider, and retries where that can help.
    pub(crate) async fn generate_answer(
        &self,
        target: &Target,
        request: &GenerateRequest,
        context: &EffectContext,
        key: &str,
        max_tokens: u32,
    ) -> Result<ProviderAnswer, ModelError> {
        let (traceparent, native_schema) = (context.traceparent(), request.schema.is_some());
        let mut call = ProviderCall { target, request, key, traceparent, max_tokens, native_schema, idle: self.idle };
        // The time in which the call waits for a descriptor does not count towards its time-out.
        let timer = ResponseTimer::start();
        let _permit = descriptors::acquire_for_call(&context.user).await;
        timer.end_queue();
        let mut answer = self.with_timeout(target, self.call_with_retries(&mut call, context, &timer)).await?;
        timer.add_to(&mut answer.response);
        Ok(answer)
    }

    /// Applies the total timeout to a call and redacts the secrets of its error.
    ///
    /// Not an `async fn`, for the reason that [`with_idle_timeout`] has.
    fn with_timeout<T>(
        &self,
        target: &Target,
        work: impl Future<Output = Result<T, ProviderError>>,
    ) -> impl Future<Output = Result<T, ModelError>> {
        tokio::time::timeout(self.total, work).map(move |result| {
            let result = result.unwrap_or_else(|_| Err(ProviderError::TotalTimeout { limit: self.total }));
            let secrets: Vec<&str> = target.key.as_deref().into_iter().collect();
            result.map_err(|error| Box::new(ProviderCallError::new(&target.provider, &error, &secrets)).into())
        })
    }

    async fn call_with_retries(
        &self,
        call: &mut ProviderCall<'_>,
        context: &EffectContext,
        timer: &ResponseTimer,
    ) -> Result<ProviderAnswer, ProviderError> {
        let mut tries = 0;
        loop {
            tries += 1;
            let mut has_shown = false;
            let mut show = |text: &str| {
                has_shown = true;
                timer.note_text();
                context.deltas.push(&context.path, context.attempt, text);
            };
            let result = match call.target.protocol {
                Protocol::OpenAi => self.call_openai(call, &mut show).await,
                Protocol::Anthropic | Protocol::Gemini => {
                    Box::pin(native::call_once(self.http.web_client()?, call, self.pause.now(), &mut show)).await
                }
            };
            let error = match result {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            if is_out_of_descriptors(&error) {
                // Nothing was sent. The total timeout ends the wait.
                tries -= 1;
                self.pause.wait_for(descriptors::RETRY_INTERVAL).await;
                continue;
            }
            if call.native_schema && error.refuses_schema() {
                // The answer is validated anyway, and the prompt contains the schema.
                call.native_schema = false;
                continue;
            }
            // Once text has been shown, a second answer would follow half of the first one.
            if !error.can_retry() || has_shown || tries >= MAX_CALL_ATTEMPTS {
                return Err(error);
            }
            self.pause_after(&error, tries).await;
        }
    }

    async fn pause_after(&self, error: &ProviderError, tries: u32) {
        self.pause.wait_for(error.wait().unwrap_or_else(|| retry_delay(tries))).await;
    }

    async fn call_openai(
        &self,
        call: &ProviderCall<'_>,
        show: &mut (dyn FnMut(&str) + Send),
    ) -> Result<ProviderAnswer, ProviderError> {
        let Target { provider, model, .. } = call.target;
        // An answer that is not streamed begins when it is complete.
        let idle = if call.request.options.stream == Some(false) { self.total } else { call.idle };
        let post = JsonPost {
            path: "chat/completions",
            key: call.key,
            traceparent: call.traceparent.as_deref(),
            body: openai::request_body(provider, model, call.request, call.native_schema).to_string(),
            idle,
        };
        let mut reply = self.post_json(call.target, post).await?;
        if reply.get_header("content-type").to_ascii_lowercase().starts_with("application/json") {
            let body = with_idle_timeout(call.idle, read_body(&mut reply, MAX_BODY_BYTES)).await?;
            return parse_whole_answer(&body.require_complete()?, show);
        }
        let mut stream = openai::AnswerAssembler::default();
        let mut parser = SseParser::default();
        let mut idle = IdleTimer::start(call.idle);
        while let Some(piece) = idle.wait_for(reply.next_piece()).await?? {
            for event in &parser.push_bytes(&piece).map_err(ProviderError::UnreadableStream)? {
                if stream.push_event(event, show)? == Progress::Answer {
                    idle.restart();
                }
            }
            if stream.done {
                return stream.finish_answer();
            }
        }
        if let Some(event) = parser.finish_stream() {
            stream.push_event(&event, show)?;
        }
        stream.finish_answer()
    }

    /// Sends a body to a provider with OpenAI's protocol; returns its response unless it is an error.
    ///
    /// Not an `async fn`: such a future has room for what builds the request, and many calls wait in it.
    fn post_json<'a>(
        &'a self,
        target: &Target,
        post: JsonPost<'_>,
    ) -> impl Future<Output = Result<HttpReply, ProviderError>> + use<'a> {
        match self.start_post(target, post) {
            Ok(sent) => Either::Left(sent.and_then(|reply| match reply.status {
                200..300 => Either::Left(future::ready(Ok(reply))),
                _ => Either::Right(Box::pin(self.read_error(reply))),
            })),
            Err(error) => Either::Right(future::ready(Err(error))),
        }
    }

    /// Sends a body; the future completes with the head of the response. Fails if there can be no such request.
    fn start_post<'a>(
        &'a self,
        target: &Target,
        post: JsonPost<'_>,
    ) -> Result<impl Future<Output = Result<HttpReply, ProviderError>> + use<'a>, ProviderError> {
        let JsonPost { path, key, traceparent, body, idle } = post;
        let mut headers = HeaderMap::with_capacity(4);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(HeaderName::from_static("idempotency-key"), http::secret_header(key)?);
        if let Some(traceparent) = traceparent.and_then(|text| HeaderValue::from_str(text).ok()) {
            headers.insert(HeaderName::from_static("traceparent"), traceparent);
        }
        if let Some(key) = &target.key {
            headers.insert(AUTHORIZATION, http::secret_header(&format!("Bearer {key}"))?);
        }
        let url = format!("{}/{path}", target.base_url);
        Ok(with_idle_timeout(idle, self.http.post_json(&url, headers, body)?).map(|sent| sent.flatten()))
    }

    /// Reads the reason of an error; returns it as an error.
    async fn read_error(&self, mut reply: HttpReply) -> Result<HttpReply, ProviderError> {
        let body = with_idle_timeout(self.idle, read_body(&mut reply, MAX_ERROR_BODY_BYTES)).await?.bytes;
        Err(status::status_error(reply.status, &reply.headers, &String::from_utf8_lossy(&body), self.pause.now()))
    }
}

/// Reads the answer of a server that does not stream.
fn parse_whole_answer(body: &[u8], show: &mut dyn FnMut(&str)) -> Result<ProviderAnswer, ProviderError> {
    let chunk = serde_json::from_slice(body).map_err(ProviderError::AnswerNotJson)?;
    let mut stream = openai::AnswerAssembler::default();
    stream.push_chunk(&chunk, show)?;
    stream.finish_answer()
}

/// The body of a response, or its beginning.
struct ResponseBody {
    bytes: Vec<u8>,
    /// Whether the body was read to its end.
    is_complete: bool,
}

impl ResponseBody {
    /// The bytes of a complete body.
    fn require_complete(self) -> Result<Vec<u8>, ProviderError> {
        if self.is_complete { Ok(self.bytes) } else { Err(ProviderError::ConnectionLost(None)) }
    }
}

/// Reads up to `most` bytes of a body.
async fn read_body(reply: &mut HttpReply, most: usize) -> ResponseBody {
    let mut bytes = Vec::new();
    loop {
        match reply.next_piece().await {
            Ok(Some(piece)) => bytes.extend_from_slice(&piece[..piece.len().min(most - bytes.len())]),
            Ok(None) => return ResponseBody { bytes, is_complete: true },
            Err(_) => return ResponseBody { bytes, is_complete: false },
        }
        if bytes.len() == most {
            return ResponseBody { bytes, is_complete: false };
        }
    }
}

/// Exponential backoff from half a second, with random jitter so that many callers do not retry at the same time.
fn retry_delay(tries: u32) -> Duration {
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
