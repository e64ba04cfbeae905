//! [`StartOptions`]: the parameters of a new run.

use std::sync::Arc;

use flowloom_core::event::{ForkOrigin, ParentStep, RunCreated, RunProject};
use flowloom_core::hash::Hash;
use flowloom_core::id::RunId;
use flowloom_core::limits::Limits;
use flowloom_core::plan::Plan;
use flowloom_core::trace::TraceContext;
use flowloom_core::trigger::RunTrigger;
use flowloom_core::value::Value;

use crate::engine_semantics;

/// The parameters of a new run.
pub struct StartOptions {
    /// The compiled definition.
    pub plan: Arc<Plan>,
    /// Hash of the bundle from which the plan was compiled.
    pub bundle: Hash,
    /// The inputs.
    pub inputs: Value,
    /// The user who owns the run.
    pub user: String,
    /// The agent on whose behalf the run acts.
    pub agent: Option<String>,
    /// The limits.
    pub limits: Limits,
    /// Number of runs around this one.
    pub depth: u32,
    /// The step that starts the run, if it is a child run.
    pub parent: Option<ParentStep>,
    /// The workflow id under which the definition was started, if it is not its own.
    pub workflow: Option<String>,
    /// The key under which the conversation is stored for the user, together with the run's last event.
    pub thread_key: Option<String>,
    /// The id of the run; `None` for a new one.
    pub id: Option<RunId>,
    /// The distributed trace that the run belongs to.
    pub trace: Option<TraceContext>,
    /// Whether effects that may happen at most once wait for a person.
    pub asks_first: bool,
    /// The trigger of the run; `None` for child runs.
    pub trigger: Option<RunTrigger>,
}

impl StartOptions {
    /// A run of a plan with inputs for a user, within the limits of the plan. It has no agent, no parent and no
    /// conversation, and gets a new id.
    pub fn new(plan: Arc<Plan>, bundle: Hash, inputs: Value, user: impl Into<String>) -> StartOptions {
        StartOptions {
            bundle,
            inputs,
            user: user.into(),
            agent: None,
            limits: Limits::default().narrow_to(&plan.limits),
            depth: 0,
            parent: None,
            workflow: None,
            thread_key: None,
            id: None,
            trace: None,
            asks_first: false,
            trigger: None,
            plan,
        }
    }

    /// The event with which the run begins.
    pub(crate) fn into_event(self, project: Option<RunProject>, fork: Option<ForkOrigin>) -> RunCreated {
        let StartOptions { plan, bundle, inputs, user, agent, limits, depth, parent, thread_key, .. } = self;
        RunCreated {
            engine_semantics: engine_semantics(),
            format: plan.format,
            name: plan.name.clone(),
            bundle,
            inputs,
            user,
            agent,
            limits,
            depth,
            parent,
            workflow: self.workflow.or_else(|| plan.id.clone()),
            thread_key,
            project,
            trace: self.trace,
            fork,
            asks_first: self.asks_first,
            trigger: self.trigger,
        }
    }
}
