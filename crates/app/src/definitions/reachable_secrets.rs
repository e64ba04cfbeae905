//! The secrets that a run of a bundle can send. A bundle has the workflows of all functions, but its plan calls few of them.

use std::collections::BTreeSet;

use flowloom_core::plan::{Plan, list_called_functions};
use flowloom_formats::compile;

use super::bundle::Bundle;
use super::secret_check::find_secrets;

/// The names of the secrets in the files of a bundle, without the workflows of functions that nothing in it calls.
pub(crate) fn list_reachable_secrets(bundle: &Bundle, plan: &Plan) -> Vec<String> {
    let called = list_called_workflows(bundle, plan);
    let is_function = |file: &str| bundle.functions.values().any(|known| known.workflow.as_deref() == Some(file));
    let read =
        bundle.files.iter().filter(|(file, _)| **file == bundle.entry || called.contains(*file) || !is_function(file));
    let names: BTreeSet<&str> = read.flat_map(|(_, text)| find_secrets(text)).map(|(_, name)| name).collect();
    names.into_iter().map(str::to_owned).collect()
}

/// The files of the workflows that a plan calls as functions, and those that these call.
pub(crate) fn list_called_workflows(bundle: &Bundle, plan: &Plan) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    if bundle.functions.values().all(|function| function.workflow.is_none()) {
        return found;
    }
    let sources = bundle.to_sources();
    let mut pending = list_workflows_of(bundle, plan);
    while let Some(file) = pending.pop() {
        if !found.insert(file.clone()) {
            continue;
        }
        // A workflow that does not compile cannot run.
        pending.extend(compile(&file, &sources, None).plan.iter().flat_map(|plan| list_workflows_of(bundle, plan)));
    }
    found
}

fn list_workflows_of(bundle: &Bundle, plan: &Plan) -> Vec<String> {
    let called = list_called_functions(&plan.root);
    called.iter().filter_map(|function| bundle.functions.get(&**function)?.workflow.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definitions::bundle::compile_bundle;

    fn calling_steps(function: &str, prompt: &str) -> String {
        serde_json::json!({"id": "w", "name": "w", "steps": [{"name": "s", "functionId": function, "mode": "sequential",
            "errorMode": "fail", "promptTemplate": prompt}]})
        .to_string()
    }

    #[test]
    fn only_functions_that_are_called_count() {
        let request = |secret: &str| {
            calling_steps("tool::http_request", &format!("{{\"url\": \"http://a.test/?k={{{{secret.{secret}}}}}\"}}"))
        };
        let files = serde_json::json!({
            "main.json": calling_steps("my::outer", "x"), "outer.json": calling_steps("my::inner", "x"),
            "inner.json": request("INNER"), "unused.json": request("UNUSED"), "beside.json": request("BESIDE"),
        });
        let functions = serde_json::json!({"my::outer": {"workflow": "outer.json"}, "my::inner": {"workflow": "inner.json"},
            "my::unused": {"workflow": "unused.json"}});
        let bundle = serde_json::json!({"entry": "main.json", "format": "steps", "files": files, "functions": functions,
            "agents": {}, "model": null, "aliases": []});
        let bundle = Bundle::parse(&bundle.to_string()).expect("a bundle");
        let plan = compile_bundle(&bundle).expect("it compiles");
        assert_eq!(list_reachable_secrets(&bundle, &plan), ["BESIDE", "INNER"]);
    }
}
