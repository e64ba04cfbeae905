//! The endpoint of a worker: its services under the names of [`RunServices`], and the connections on which Restate calls
//! them.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use restate_sdk::discovery::ServiceName;
use restate_sdk::endpoint::{ContextInternal, Endpoint, Error, HandlerOptions, ServiceOptions};
use restate_sdk::hyper::HyperEndpoint;
use restate_sdk::prelude::HandlerError;
use restate_sdk::serde::Serialize;
use restate_sdk::service::macro_support::{ServiceBoxFuture, service_definition};
use restate_sdk::service::{Discoverable, Service, ServiceDefinition};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::task::TaskTracker;

use crate::names::RunServices;
use crate::service::{FlowRun, FlowSession};
use crate::session::WorkerHost;

/// Time after which Restate suspends a workflow that sleeps.
const SLEEP_TIMEOUT: Duration = Duration::from_secs(5);

/// Time after which Restate gives a session up from which it hears nothing: longer than any effect takes.
const SESSION_TIMEOUT: Duration = Duration::from_secs(7 * 24 * 3600);

/// Delay before Restate tries a session again that has failed, at first and at most.
const RETRY_DELAYS: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(5)];

/// How long Restate keeps the key of a workflow that has ended: a request to start it again is ignored so long. After that
/// it does nothing, because the run has ended.
const WORKFLOW_RETENTION: Duration = Duration::from_secs(3600);

/// Number of calls at the same time on one connection. Restate opens another one for more, which another worker of the same
/// address may accept.
const MAX_STREAMS: u32 = 8;

/// Age at which a connection is closed, so that the next one may reach another worker.
const CONNECTION_AGE: Duration = Duration::from_secs(5);

/// Interval at which a worker asks whether Restate is still there. A connection can break without a word, and then Restate
/// calls another worker, which waits for the effects of this one.
const PING_INTERVAL: Duration = Duration::from_secs(5);

/// Time for Restate to answer that.
const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// Serves the workflows and the sessions of runs until `stop` completes, and then at most for `drain_time` until the
/// sessions have ended.
pub async fn serve_worker(
    listener: TcpListener,
    host: Arc<dyn WorkerHost>,
    services: &RunServices,
    stop: impl Future<Output = ()>,
    drain_time: Duration,
) {
    let draining = TaskTracker::new();
    let endpoint = build_endpoint(host, services, draining.clone());
    let mut open = serve_endpoint(listener, endpoint, services, stop).await;
    let ended = async {
        while open.join_next().await.is_some() {}
        draining.close();
        draining.wait().await;
    };
    // Sessions may last longer; another worker continues them.
    drop(tokio::time::timeout(drain_time, ended).await);
}

fn build_endpoint(host: Arc<dyn WorkerHost>, services: &RunServices, draining: TaskTracker) -> Endpoint {
    let [first, most] = RETRY_DELAYS;
    let workflow = HandlerOptions::new().inactivity_timeout(SLEEP_TIMEOUT).workflow_retention(WORKFLOW_RETENTION);
    let session = HandlerOptions::new().inactivity_timeout(SESSION_TIMEOUT).abort_timeout(SESSION_TIMEOUT);
    let options = |handler: &str, driving: HandlerOptions| {
        ServiceOptions::new()
            .journal_retention(Duration::ZERO)
            .retry_policy_initial_interval(first)
            .retry_policy_exponentiation_factor(2.0)
            .retry_policy_max_interval(most)
            .retry_policy_max_attempts(u64::from(u32::MAX))
            .handler(handler, driving)
    };
    let runs = FlowRun { session: services.session_name() };
    Endpoint::builder()
        .bind(name_service(runs, services.workflow_name()).options(options("run", workflow)))
        .bind(
            name_service(FlowSession::new(host, draining), services.session_name()).options(options("drive", session)),
        )
        .build()
}

/// A service under a name that is known at run time only.
struct NamedService<S>(Arc<S>);

/// A service under another name than that of its type, which is all that the attributes of the SDK can give it.
fn name_service<S>(service: S, name: String) -> ServiceDefinition
where
    S: Discoverable + Send + Sync + 'static,
    NamedService<S>: Service<Future = ServiceBoxFuture>,
{
    let mut discovery = S::discover();
    // The names of `RunServices` have no other characters than those that are allowed.
    if let Ok(name) = ServiceName::try_from(name) {
        discovery.name = name;
    }
    service_definition(NamedService(Arc::new(service)), discovery)
}

impl Service for NamedService<FlowRun> {
    type Future = ServiceBoxFuture;

    fn handle(&self, ctx: ContextInternal) -> ServiceBoxFuture {
        let service = self.0.clone();
        Box::pin(async move {
            match ctx.handler_name() {
                "run" => {
                    let (input, metadata) = ctx.input().await;
                    let result = service.run((&ctx, metadata).into(), input).await;
                    end_call(&ctx, result)
                }
                "wake" => {
                    let (input, metadata) = ctx.input().await;
                    let result = service.wake((&ctx, metadata).into(), input).await;
                    end_call(&ctx, result)
                }
                unknown => Err(Error::unknown_handler(ctx.service_name(), unknown)),
            }
        })
    }
}

impl Service for NamedService<FlowSession> {
    type Future = ServiceBoxFuture;

    fn handle(&self, ctx: ContextInternal) -> ServiceBoxFuture {
        let service = self.0.clone();
        Box::pin(async move {
            match ctx.handler_name() {
                "drive" => {
                    let (input, metadata) = ctx.input().await;
                    let result = service.drive((&ctx, metadata).into(), input).await;
                    end_call(&ctx, result)
                }
                unknown => Err(Error::unknown_handler(ctx.service_name(), unknown)),
            }
        })
    }
}

fn end_call<T: Serialize>(ctx: &ContextInternal, result: Result<T, HandlerError>) -> Result<(), Error> {
    ctx.handle_handler_result(result);
    ctx.end();
    Ok(())
}

/// Serves an endpoint until `stop` completes. Returns the connections that are still open.
async fn serve_endpoint(
    listener: TcpListener,
    endpoint: Endpoint,
    services: &RunServices,
    stop: impl Future<Output = ()>,
) -> JoinSet<()> {
    let endpoint = HyperEndpoint::new(endpoint);
    let services = services.clone();
    let (stopping, stopped) = watch::channel(());
    let mut open = JoinSet::new();
    let mut stop = std::pin::pin!(stop);
    loop {
        tokio::select! {
            Ok((stream, remote)) = listener.accept() => {
                let (endpoint, services, mut stopped) = (endpoint.clone(), services.clone(), stopped.clone());
                open.spawn(async move {
                    let answer = |request: Request<Incoming>| {
                        let answered = match services.may_serve_path(request.uri().path()) {
                            true => Ok(endpoint.call(request)),
                            false => Err(io::Error::other("this worker has other services")),
                        };
                        async { Ok::<_, io::Error>(match answered?.await { Ok(response) => response }) }
                    };
                    let connection = http2::Builder::new(TokioExecutor::new())
                        .timer(TokioTimer::new())
                        .keep_alive_interval(PING_INTERVAL)
                        .keep_alive_timeout(PING_TIMEOUT)
                        .max_concurrent_streams(MAX_STREAMS)
                        .serve_connection(TokioIo::new(stream), service_fn(answer));
                    let mut connection = std::pin::pin!(connection);
                    let aged = tokio::time::sleep(CONNECTION_AGE);
                    let ended = tokio::select! {
                        ended = &mut connection => ended,
                        _ = async { tokio::select! { () = aged => {}, _ = stopped.changed() => {} } } => {
                            // Calls in progress end on it, and others get another connection.
                            connection.as_mut().graceful_shutdown();
                            connection.await
                        }
                    };
                    if let Err(error) = ended {
                        tracing::debug!("the connection of {remote} ends: {error}");
                    }
                });
            }
            Some(_) = open.join_next() => {}
            () = &mut stop => break,
        }
    }
    drop(stopping);
    open
}
