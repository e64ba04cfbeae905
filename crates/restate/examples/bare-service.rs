//! A service of Restate's SDK without Flowloom, for `bench`: what Restate itself does in the same time.
//!
//! `bare-service ADDRESS` serves until it is killed. `Bare/chain` journals actions one after another, as the session of a
//! run journals its batches; `BareRun/KEY/run` calls it as the workflow of a run calls its session.
#![allow(clippy::print_stdout)]

use std::time::Duration;

use restate_sdk::context::RequestTarget;
use restate_sdk::endpoint::ServiceOptions;
use restate_sdk::prelude::*;
use serde::{Deserialize, Serialize};
use tokio::net::TcpSocket;

/// Actions to journal.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Chain {
    /// Number of actions.
    actions: usize,
    /// Size of the result of each, in bytes.
    bytes: usize,
    /// Duration of each.
    milliseconds: u64,
}

struct Bare;

#[restate_sdk::service(name = "Bare")]
impl Bare {
    #[handler]
    async fn chain(&self, ctx: Context<'_>, chain: Json<Chain>) -> Result<u64, HandlerError> {
        let Chain { actions, bytes, milliseconds } = chain.into_inner();
        let mut total = 0;
        for index in 0..actions {
            let action = ctx.run(move || async move {
                if milliseconds > 0 {
                    tokio::time::sleep(Duration::from_millis(milliseconds)).await;
                }
                Ok("r".repeat(bytes))
            });
            total += action.name(format!("/action{index}")).await?.len() as u64;
        }
        Ok(total)
    }
}

struct BareRun;

#[restate_sdk::workflow(name = "BareRun")]
impl BareRun {
    #[handler]
    async fn run(&self, ctx: WorkflowContext<'_>, chain: Json<Chain>) -> Result<u64, HandlerError> {
        Ok(ctx.request::<_, u64>(RequestTarget::service("Bare", "chain"), chain).call().await?)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).ok_or("usage: bare-service ADDRESS")?;
    // As a worker of Flowloom listens: without TCP_NODELAY, small messages wait for acknowledgements.
    let socket = TcpSocket::new_v4()?;
    socket.set_nodelay(true)?;
    socket.bind(address.parse()?)?;
    let listener = socket.listen(1024)?;
    println!("at http://{}", listener.local_addr()?);
    let options = || ServiceOptions::new().journal_retention(Duration::ZERO);
    let endpoint = Endpoint::builder()
        .bind(Bare.into_service_definition().options(options()))
        .bind(BareRun.into_service_definition().options(options()))
        .build();
    HttpServer::new(endpoint).serve_with_cancel(listener, std::future::pending::<()>()).await;
    Ok(())
}
