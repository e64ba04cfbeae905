//! The worst-case cost of a workflow before it runs. The cost of its past runs is in `typical_case`.

use std::collections::BTreeMap;
use std::sync::Arc;

use flowloom_core::bound::{Bound, CallBound, Count, FunctionReach, Latencies, ModelFigures, WorstCase, bound_plan};
use flowloom_core::limits::Limits;
use flowloom_core::plan::{Plan, find_flow_id};
use flowloom_core::value::Value;
use flowloom_models::Models;
use flowloom_runtime::effects::Model as _;
use flowloom_tools::find_request_method;
use serde_json::json;

use crate::config::{Config, FunctionSettings};
use crate::definitions::bundle::{AvailableTools, compile_bundle};
use crate::definitions::source::Loader;

/// The figures of the configured models and functions.
pub struct ConfiguredFigures<'a> {
    /// The configuration.
    pub config: &'a Config,
    /// The models.
    pub models: &'a Models,
    /// The tools of the definition. With them, the workflows that tools and functions run are read, and bounded as well.
    pub tools: Option<&'a AvailableTools>,
}

impl ModelFigures for ConfiguredFigures<'_> {
    fn resolve(&self, named: Option<&str>) -> String {
        self.models.choose_model(named).unwrap_or_else(|_| named.unwrap_or("default").to_owned())
    }

    fn window_tokens(&self, model: &str) -> u64 {
        self.models.context_window(model)
    }

    fn answer_tokens(&self, model: &str) -> u64 {
        self.models.default_max_tokens(model)
    }

    fn find_reach(&self, function: &str) -> FunctionReach {
        match self.config.functions.get(function) {
            Some(FunctionSettings { workflow: Some(file), .. }) => self.find_workflow(function, file),
            Some(FunctionSettings { url: Some(url), method, .. }) => FunctionReach::Request {
                method: method.as_deref().unwrap_or("POST").trim().to_ascii_uppercase(),
                host: url::Url::parse(url)
                    .ok()
                    .as_ref()
                    .and_then(url::Url::host_str)
                    .unwrap_or(UNKNOWN_TARGET)
                    .to_owned(),
            },
            _ if function.starts_with("author::") => FunctionReach::Unknown(format!("the function {function}")),
            _ => match find_request_method(function) {
                Some(method) => FunctionReach::Request { method: method.to_owned(), host: UNKNOWN_TARGET.to_owned() },
                None => find_flow_id(function).map_or(FunctionReach::Nothing, |id| self.find_tool_plan(id)),
            },
        }
    }
}

impl ConfiguredFigures<'_> {
    /// The workflow that a tool of an agent runs, if the tool is known and its definition can be used.
    fn find_tool_plan(&self, workflow: &str) -> FunctionReach {
        let tool = self.tools.and_then(|tools| tools.flows.as_ref()?.get(workflow));
        let plan = tool.and_then(|tool| compile_bundle(&tool.bundle).ok());
        plan.map_or(FunctionReach::Nothing, FunctionReach::Workflow)
    }

    /// The workflow of a function, if it can be read.
    fn find_workflow(&self, function: &str, file: &str) -> FunctionReach {
        let unknown = || FunctionReach::Unknown(format!("the workflow of the function {function}"));
        if self.tools.is_none() {
            return unknown();
        }
        let loaded = Loader::new(self.config).compile(&self.config.base_folder().join(file));
        loaded.compiled.plan.map_or_else(unknown, |plan| FunctionReach::Workflow(Arc::new(plan)))
    }
}

/// A method or host that depends on the run.
const UNKNOWN_TARGET: &str = "*";

/// The worst case of a workflow, with its price.
pub struct Estimate {
    /// The worst case.
    pub worst: WorstCase,
    /// The cost of each model, in millionths of a US dollar; `None` if its price is unknown.
    pub micro_usd: BTreeMap<String, Option<Count>>,
}

/// Estimates a workflow. `inputs` makes the estimate tighter if they are known.
pub fn estimate_plan(
    plan: &Plan,
    inputs: Option<&Value>,
    limits: &Limits,
    figures: &ConfiguredFigures<'_>,
    latencies: Latencies,
) -> Estimate {
    let worst = bound_plan(plan, inputs, limits, figures, latencies);
    let cost = |(model, call): (&String, &CallBound)| {
        let price = figures.models.find_price(model);
        let cost = price.map(|price| {
            let (Some(input), Some(output)) = (call.input_tokens.0, call.output_tokens.0) else {
                return if price.input == 0 && price.output == 0 { Count::ZERO } else { Count::UNBOUNDED };
            };
            Count::from(price.compute_cost(input, output))
        });
        (model.clone(), cost)
    };
    let micro_usd = worst.bound.models.iter().map(cost).collect();
    Estimate { worst, micro_usd }
}

/// A bound that an estimate must not exceed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Maximum {
    /// The bounded figure: `usd`, `tokens`, `calls`, `requests`, `writes` or `time`.
    pub name: String,
    /// The bound, in millionths of a US dollar, in milliseconds, or as a number.
    pub most: u64,
}

impl Estimate {
    /// The cost of all models; `None` if a price is unknown.
    pub fn total_micro_usd(&self) -> Option<Count> {
        self.micro_usd.values().copied().try_fold(Count::ZERO, |all, cost| Some(all.plus(cost?)))
    }

    /// Why the worst case exceeds a maximum; `None` if it does not.
    pub fn find_excess(&self, maximum: &Maximum) -> Option<String> {
        let Bound { writes, chain_ms, .. } = &self.worst.bound;
        let calls = self.worst.bound.total_calls();
        let count = match maximum.name.as_str() {
            "usd" => match self.total_micro_usd() {
                None => return Some("usd: the price of a model is unknown, so there is no bound".to_owned()),
                Some(count) => count,
            },
            "tokens" => calls.input_tokens.plus(calls.output_tokens),
            "calls" => calls.calls,
            "requests" => self.worst.bound.total_requests(),
            "writes" => *writes,
            _ => *chain_ms,
        };
        let show = |number: u64| match maximum.name.as_str() {
            "usd" => format!("${:.6}", number as f64 / 1e6),
            "time" => format!("{number} ms"),
            _ => number.to_string(),
        };
        let (name, most) = (&maximum.name, show(maximum.most));
        match count.0 {
            None => Some(format!("{name}: there is no bound, and the maximum is {most}")),
            Some(count) if count > maximum.most => {
                Some(format!("{name}: up to {}, and the maximum is {most}", show(count)))
            }
            Some(_) => None,
        }
    }

    /// The estimate as JSON. Bounds that do not exist are null.
    pub fn to_json(&self) -> serde_json::Value {
        let Bound { models, requests, redirects, functions, blocks, writes, questions, chain_ms } = &self.worst.bound;
        let model = |(model, call): (&String, &CallBound)| {
            let cost = self.micro_usd.get(model).copied().flatten();
            json!({"model": model, "calls": call.calls, "input_tokens": call.input_tokens,
                "output_tokens": call.output_tokens, "usd": cost.and_then(to_usd), "price_known": cost.is_some()})
        };
        let request = |((method, host), count): (&(String, String), &Count)| json!({"method": method, "host": host, "count": count});
        json!({
            "models": models.iter().map(model).collect::<Vec<_>>(),
            "usd": self.total_micro_usd().and_then(to_usd),
            "requests": requests.iter().map(request).collect::<Vec<_>>(),
            "redirects": redirects,
            "functions": functions,
            "blocks": blocks,
            "writes": writes,
            "questions": questions,
            "longest_chain_ms": chain_ms,
        })
    }
}

fn to_usd(cost: Count) -> Option<f64> {
    cost.0.map(|micro| micro as f64 / 1e6)
}
