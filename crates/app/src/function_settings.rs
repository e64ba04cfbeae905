//! The built-in functions that the steps of a plan call. Those that lack a setting are found before the first step.

use flowloom_core::error::StepFailure;
use flowloom_core::plan::{OnError, Plan, find_called_function};
use flowloom_tools::functions::check_settings;

use crate::config::Config;

/// Fails if a step cannot succeed because the function that it calls lacks a setting, such as the search engine, and the run
/// would end there.
pub fn check_functions(config: &Config, plan: &Plan) -> Result<(), StepFailure> {
    let mut checked = Ok(());
    plan.root.visit(&mut |step| {
        // A run goes on after a step whose failure is ignored.
        let is_needed = step.policy.on_error == OnError::Fail && checked.is_ok();
        if let Some(function) = find_called_function(step).filter(|_| is_needed)
            && !config.functions.contains_key(&**function)
        {
            checked = check_settings(function, config.search.is_some(), config.files_root.is_some());
        }
    });
    checked
}
