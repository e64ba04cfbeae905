//! Every route of the OpenAPI description with every credential of `routes.json`: a new route is attacked, too.

use serde_json::Value;

use crate::client::{HttpCall, HttpReply};
use crate::corpus::{AttackRow, fill_in, read_file};
use crate::oracle;
use crate::world::World;

/// An operation that requires a key.
struct Operation {
    method: String,
    path: String,
    scopes: Vec<String>,
}

fn list_operations(description: &Value) -> Vec<Operation> {
    let mut all = Vec::new();
    for (path, item) in description["paths"].as_object().expect("paths") {
        for (method, operation) in item.as_object().expect("operations") {
            let scopes = operation["security"][0]["key"].as_array().into_iter().flatten();
            let scopes: Vec<String> = scopes.filter_map(|scope| scope.as_str().map(str::to_owned)).collect();
            if !scopes.is_empty() {
                all.push(Operation { method: method.to_uppercase(), path: path.clone(), scopes });
            }
        }
    }
    all
}

impl Operation {
    /// Whether a point such as `operations` or `operations needing write` includes it.
    fn is_meant_by(&self, point: &str) -> bool {
        match point.strip_prefix("operations needing ") {
            Some(scope) => self.scopes.iter().any(|one| one == scope),
            None => point == "operations",
        }
    }

    /// Calls it on ann's objects, with a credential as a header line.
    fn call(&self, world: &World, credential: &str) -> HttpReply {
        let run = world.values["ann.run"].as_str();
        let id = |part: &str| match part {
            "{user}" | "{user_id}" => "ann",
            "{id}" if self.path.contains("/runs/") => run,
            "{id}" if self.path.contains("/executions/") => world.values["ann.execution"].as_str(),
            _ => "mine",
        };
        let parts = self.path.split('/').map(|part| if part.starts_with('{') { id(part) } else { part });
        let path = parts.collect::<Vec<_>>().join("/");
        let headers = vec![credential.to_owned(), "Content-Type: application/json".to_owned()];
        HttpCall { method: &self.method, path: &path, headers, body: b"{}" }.send(&world.server.address)
    }
}

fn attack_operations(world: &World, operations: &[Operation], row: &AttackRow, failures: &mut Vec<String>) -> usize {
    let mut count = 0;
    for input in &row.inputs {
        let credential = fill_in(&input.to_text(), &world.values);
        for point in &row.points {
            for operation in operations.iter().filter(|operation| operation.is_meant_by(point)) {
                count += 1;
                let reply = operation.call(world, &credential);
                let found = oracle::find_canary(&reply.text);
                if found.is_some() || !row.expect.status.contains(&reply.status) {
                    let Operation { method, path, .. } = operation;
                    failures.push(format!(
                        "routes.json: {:?} at {method} {path}: status {}, {found:?}",
                        input.to_text(),
                        reply.status
                    ));
                }
            }
        }
        if let Err(why) = oracle::check_world(world, "") {
            failures.push(format!("routes.json: after {:?}: {why}", input.to_text()));
        }
    }
    count
}

#[test]
fn routes() {
    let world = World::start(None, &[]);
    let operations = list_operations(&world.call("bob", "GET", "/openapi.json", "").json());
    assert!(operations.len() > 80, "{} operations", operations.len());
    let (mut count, mut failures) = (0, Vec::new());
    for row in &read_file("routes").rows {
        count += attack_operations(&world, &operations, row, &mut failures);
    }
    if let Err(why) = oracle::check_records(&world) {
        failures.push(format!("routes.json: {why}"));
    }
    assert!(failures.is_empty(), "{} of {count} attacks:\n{}", failures.len(), failures.join("\n"));
}
