//! The built-in functions that the steps of a plan call. Those that lack a setting are found before the first step.

use flowloom_core::error::StepFailure;
use flowloom_core::plan::{Block, BlockCode, Leaf, OnError, Plan, Step, StepKind};
use flowloom_tools::functions::check_settings;

use crate::config::Config;

/// Fails if a step cannot succeed because the function that it calls lacks a setting, such as the search engine, and the run
/// would end there.
pub fn check_functions(config: &Config, plan: &Plan) -> Result<(), StepFailure> {
    let mut checked = Ok(());
    plan.root.visit(&mut |step| {
        if let (true, Some(function)) = (checked.is_ok(), find_needed_function(step))
            && !config.functions.contains_key(function)
        {
            checked = check_settings(function, config.search.is_some(), config.files_root.is_some());
        }
    });
    checked
}

/// The function that a step calls, if the run fails with it.
fn find_needed_function(step: &Step) -> Option<&str> {
    match &step.kind {
        _ if step.policy.on_error == OnError::Continue => None,
        StepKind::Leaf(Leaf::Call(call)) => Some(&call.function),
        StepKind::Leaf(Leaf::Block(Block { code: BlockCode::Function(function), .. })) => Some(function),
        _ => None,
    }
}
