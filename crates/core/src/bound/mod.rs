//! The worst case of a plan before it runs: how many model calls, requests and writes it can make, what it can cost, and how
//! long its longest chain takes. What has no bound is listed with its place.

mod child;
mod count;
mod prompt;
mod python;
mod request;
mod walk;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::Serialize;

pub use count::Count;
pub use python::can_call_out;
pub use walk::bound_plan;

use crate::diagnostic::Span;
use crate::path::Path;
use crate::plan::Plan;

/// Maximum number of redirects that a request follows.
pub const MAX_REDIRECTS: u64 = 5;

/// The figures of models that the bound of a model call depends on.
pub trait ModelFigures {
    /// The model that a step gets if it names `named`, as `provider:model`.
    fn resolve(&self, named: Option<&str>) -> String;
    /// The largest prompt of a model, in tokens.
    fn window_tokens(&self, model: &str) -> u64;
    /// The longest answer of a model to a request that does not limit it, in tokens.
    fn answer_tokens(&self, model: &str) -> u64;
    /// The effects of a call of a function.
    fn find_reach(&self, function: &str) -> FunctionReach;
}

/// The effects of a call of a function, in addition to the call itself.
#[derive(Clone, Debug, Default)]
pub enum FunctionReach {
    /// Nothing that is counted by itself.
    #[default]
    Nothing,
    /// Sends a request. A method or host that depends on the call is `*`.
    Request {
        /// The method.
        method: String,
        /// The host.
        host: String,
    },
    /// Runs a workflow.
    Workflow(Arc<Plan>),
    /// Runs something that is not known before the call: this text describes it.
    Unknown(String),
}

/// How long effects take, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Latencies {
    /// A model call.
    pub model_ms: u64,
    /// An HTTP request or a page.
    pub request_ms: u64,
    /// A function or a tool.
    pub function_ms: u64,
    /// A Python block.
    pub block_ms: u64,
}

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies { model_ms: 2_000, request_ms: 300, function_ms: 300, block_ms: 200 }
    }
}

/// The most that a plan, or a step of it, can do.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Bound {
    /// Model calls by model.
    pub models: BTreeMap<String, CallBound>,
    /// HTTP requests and pages, by method and host; the host is `*` if it depends on the run.
    pub requests: BTreeMap<(String, String), Count>,
    /// Further requests that follow redirects of these, to any host.
    pub redirects: Count,
    /// Calls of functions and tools.
    pub functions: BTreeMap<String, Count>,
    /// Runs of Python blocks.
    pub blocks: Count,
    /// Requests that change something elsewhere, and writes of memory and files.
    pub writes: Count,
    /// Questions to people.
    pub questions: Count,
    /// Time of the longest chain, in milliseconds, without the time that people take.
    pub chain_ms: Count,
}

/// The most that the calls of a model can use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CallBound {
    /// Calls.
    pub calls: Count,
    /// Tokens of the prompts.
    pub input_tokens: Count,
    /// Tokens of the answers.
    pub output_tokens: Count,
}

/// The worst case of a plan.
#[derive(Clone, Debug, Default)]
pub struct WorstCase {
    /// The most that it can do.
    pub bound: Bound,
    /// The figures without a bound.
    pub unbounded: Vec<Unbounded>,
    /// The most iterations of each loop, by its place in the source, without those of included definitions.
    pub(crate) loops: HashMap<Span, u64>,
}

impl WorstCase {
    /// The most iterations of the loop at a place of the source; 0 if it is not reached.
    pub fn most_iterations(&self, looped: Span) -> u64 {
        self.loops.get(&looped).copied().unwrap_or(0)
    }
}

/// A step without a bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unbounded {
    /// The step.
    pub path: Path,
    /// Its place in the source; empty for a step of an included definition.
    pub span: Span,
    /// The figure without a bound, and the reason.
    pub reason: String,
    /// Whether only a budget ends it: neither the definition nor a person does.
    pub needs_budget: bool,
}

impl Bound {
    /// Requests of one kind, with the redirects that they may follow.
    fn of_requests(method: String, host: String, count: Count) -> Bound {
        let redirects = count.times(Count::from(MAX_REDIRECTS));
        Bound { requests: [((method, host), count)].into(), redirects, ..Bound::default() }
    }

    /// One after the other.
    fn then(mut self, next: Bound) -> Bound {
        let chain = self.chain_ms.plus(next.chain_ms);
        self.merge(next, Count::plus);
        Bound { chain_ms: chain, ..self }
    }

    /// Both at the same time.
    fn beside(mut self, other: Bound) -> Bound {
        let chain = self.chain_ms.max(other.chain_ms);
        self.merge(other, Count::plus);
        Bound { chain_ms: chain, ..self }
    }

    /// One or the other.
    fn or(mut self, other: Bound) -> Bound {
        let chain = self.chain_ms.max(other.chain_ms);
        self.merge(other, Count::max);
        Bound { chain_ms: chain, ..self }
    }

    /// The same, again and again.
    fn repeat_times(mut self, times: Count) -> Bound {
        let scale = |count: &mut Count| *count = count.times(times);
        for call in self.models.values_mut() {
            scale(&mut call.calls);
            scale(&mut call.input_tokens);
            scale(&mut call.output_tokens);
        }
        self.requests.values_mut().chain(self.functions.values_mut()).for_each(scale);
        let Bound { redirects, blocks, writes, questions, chain_ms, .. } = &mut self;
        for count in [redirects, blocks, writes, questions, chain_ms] {
            *count = count.times(times);
        }
        self
    }

    fn merge(&mut self, other: Bound, combine: fn(Count, Count) -> Count) {
        for (model, call) in other.models {
            let own = self.models.entry(model).or_default();
            own.calls = combine(own.calls, call.calls);
            own.input_tokens = combine(own.input_tokens, call.input_tokens);
            own.output_tokens = combine(own.output_tokens, call.output_tokens);
        }
        for (key, count) in other.requests {
            let own = self.requests.entry(key).or_default();
            *own = combine(*own, count);
        }
        for (key, count) in other.functions {
            let own = self.functions.entry(key).or_default();
            *own = combine(*own, count);
        }
        self.redirects = combine(self.redirects, other.redirects);
        self.blocks = combine(self.blocks, other.blocks);
        self.writes = combine(self.writes, other.writes);
        self.questions = combine(self.questions, other.questions);
    }

    /// Calls of all models together.
    pub fn total_calls(&self) -> CallBound {
        let add = |all: CallBound, call: &CallBound| CallBound {
            calls: all.calls.plus(call.calls),
            input_tokens: all.input_tokens.plus(call.input_tokens),
            output_tokens: all.output_tokens.plus(call.output_tokens),
        };
        self.models.values().fold(CallBound::default(), add)
    }

    /// HTTP requests and pages together.
    pub fn total_requests(&self) -> Count {
        self.requests.values().copied().fold(Count::ZERO, Count::plus)
    }

    /// Calls of functions and tools together.
    pub fn total_functions(&self) -> Count {
        self.functions.values().copied().fold(Count::ZERO, Count::plus)
    }
}
