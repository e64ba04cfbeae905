//! Which runs a list or a statistic is about.

use std::sync::Arc;

use flowloom_app::definitions::catalog::Catalog;
use flowloom_app::runs::trigger::parse_trigger;
use flowloom_core::code::Code;
use flowloom_core::status::Status;
use flowloom_store::RunFilter;

use crate::blocking::run_blocking;
use crate::caller::Caller;
use crate::problem::{ApiResult, Problem};

/// The filter of a request for runs.
pub(crate) struct RunChoice {
    /// Runs with this status.
    pub(crate) status: Option<String>,
    /// Runs of the workflow with this id, or in the file with this name.
    pub(crate) workflow: Option<String>,
    /// Runs that were started through this interface, or by this schedule or webhook.
    pub(crate) trigger: Option<String>,
}

impl RunChoice {
    /// The filter for these runs of the caller. Fails with `RequestInvalid` if there is no such status or trigger.
    pub(crate) async fn build_filter(self, caller: &Caller, catalog: Arc<Catalog>) -> ApiResult<RunFilter> {
        let RunChoice { status, mut workflow, trigger } = self;
        if let Some(status) = status.as_deref().filter(|status| Status::parse(status).is_none()) {
            return Err(Problem::new(Code::RequestInvalid, format!("unknown status {status:?}")));
        }
        let trigger = trigger.as_deref().map(parse_trigger).transpose();
        let trigger = trigger.map_err(|message| Problem::new(Code::RequestInvalid, message))?;
        if let Some(name) = workflow.take() {
            workflow = Some(run_blocking(move || catalog.id_of_name(&name)).await?);
        }
        Ok(RunFilter { user: caller.user.clone(), status, workflow, trigger, ..RunFilter::default() })
    }
}
