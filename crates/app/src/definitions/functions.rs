//! Functions that are workflows, described to models.

use crate::config::{Config, FunctionSettings};
use crate::definitions::source::Loader;
use crate::tools::descriptor::describe_function;

/// Describes the functions that are workflows by the inputs of their workflows, where the configuration does not. Done once,
/// so that checks, runs and the bundles of runs agree.
pub fn describe_functions(mut config: Config) -> Config {
    let loader = Loader::new(&config);
    let describe = |(id, function): (&String, &FunctionSettings)| {
        if function.description.is_some() && function.parameters.is_some() {
            return None;
        }
        let file = config.base_folder().join(function.workflow.as_ref()?);
        let plan = loader.compile(&file).compiled.plan?;
        let mut function = function.clone();
        describe_function(&mut function, id, plan.into());
        Some((id.clone(), function))
    };
    let described: Vec<_> = config.functions.iter().filter_map(describe).collect();
    config.functions.extend(described);
    config
}
