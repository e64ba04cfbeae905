//! Arguments of `flowloom worker`.

use clap::Args;

use super::serve::LogArg;

#[derive(Debug, Args)]
pub(crate) struct WorkerArgs {
    /// Address of the Restate server's ingress [default: `restate` in `[engine]` of flowloom.toml]
    #[arg(long, value_name = "URL")]
    pub(crate) restate: Option<String>,
    /// Address of the Restate server's admin API [default: port 9070 of the same host]
    #[arg(long, value_name = "URL")]
    pub(crate) admin: Option<String>,
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9080")]
    pub(crate) listen: std::net::SocketAddr,
    /// Address under which Restate reaches the workers, for example that of a load balancer [default: the address
    /// listened on]
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// Address for health checks and metrics: `/health/live`, `/health/ready`, `/metrics` [default: none]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) monitor: Option<std::net::SocketAddr>,
    /// Log format [default: text]
    #[arg(long, value_enum, value_name = "STYLE")]
    pub(crate) log: Option<LogArg>,
}
