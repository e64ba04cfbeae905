//! A caller with a key cannot send a secret of the operator elsewhere by changing a step, or by choosing what a step reads.

mod support;

use serde_json::{Value, json};
use support::http::{HttpAnswer, RunningServer};
use support::{TestServer, Workspace};

/// The value of the secret of these tests.
const SHOP: &str = "shop-4f1c99-canary";

/// A place with a flow of the operator that sends a secret to the address in the reply of its first step.
struct Shop {
    receiver: TestServer,
    server: RunningServer,
    place: Workspace,
}

impl Shop {
    fn start(secrets: impl FnOnce(&TestServer) -> String) -> Shop {
        let receiver = TestServer::start();
        let config = format!("default_model = \"scripted:echo\"\n{}{}", receiver.egress_config(), secrets(&receiver));
        let place = Workspace::new(&config);
        let request = |method: &str, path: &str, name: &str, headers: Value| {
            let url = format!("http://{}{path}", receiver.address);
            json!({"type": "apiCall", "config": {"url": url, "method": method, "headers": headers,
                "responseVariable": name}})
        };
        let secret = json!([{"key": "x-key", "value": "${secret.SHOP}"}]);
        let steps = [request("POST", "/first", "reply", json!([])), request("GET", "${reply.path}", "second", secret)];
        place.write("two.json", &json!({"name": "Two", "description": "d", "steps": steps}).to_string());
        place.run(&["keys", "create", "--name", "first"]);
        let server = RunningServer::start_with(&place, &[], &[("FLOWLOOM_SECRET_SHOP", SHOP)]);
        Shop { receiver, server, place }
    }

    fn create_key(&self, arguments: &[&str]) -> String {
        let made = self.place.run(&[&["keys", "create", "--name", "k"], arguments].concat());
        format!("Authorization: Bearer {}", String::from_utf8_lossy(&made.stdout).trim())
    }

    fn post(&self, key: &str, path: &str, body: &Value) -> HttpAnswer {
        self.server.send_and_read("POST", path, &[key, "Content-Type: application/json"], &body.to_string())
    }

    /// Runs the flow and returns the path of the run.
    fn run_whole(&self, key: &str) -> String {
        let run = self.post(key, "/api/v1/runs?wait=60", &json!({"workflow": "two", "inputs": {}})).json();
        assert_eq!(run["status"], "succeeded", "{run}");
        format!("/api/v1/runs/{}", run["run_id"].as_str().expect("an id"))
    }

    fn run_second(&self, key: &str) -> Value {
        let body = json!({"workflow": "two", "step": "/second", "inputs": {"reply": {"path": "/steal"}}});
        self.post(key, "/api/v1/runs?wait=60", &body).json()
    }

    /// Asserts that the secret was refused, and that nothing was sent.
    fn assert_kept(&self, answer: &Value) {
        let code = answer["error"]["code"].as_str().or(answer["code"].as_str());
        assert_eq!((code, self.receiver.request_count("/steal")), (Some("FL1039"), 0), "{answer}");
    }
}

#[test]
fn changing_a_step_needs_the_scope_write() {
    let shop = Shop::start(|_| String::new());
    let key = shop.create_key(&["--user", "ann", "--scopes", "run,read"]);
    let fork = format!("{}/fork?wait=60", shop.run_whole(&key));
    let edits = json!([{"path": "/second", "field": "url", "text": format!("http://{}/steal", shop.receiver.address)}]);
    for changes in [json!({"edits": edits}), json!({"models": ["scripted:other"]})] {
        let refused = shop.post(&key, &fork, &changes);
        assert_eq!((refused.status, refused.error_code().as_str()), (403, "FL1503"), "{changes}: {refused:?}");
    }
    assert_eq!(shop.receiver.request_count("/steal"), 0);
}

#[test]
fn a_changed_definition_belongs_to_the_caller() {
    let shop = Shop::start(|receiver| format!("[secrets.SHOP]\nhosts = [\"{}\"]\n", receiver.address));
    let key = shop.create_key(&["--scopes", "run,read,write"]);
    let fork = format!("{}/fork?wait=60", shop.run_whole(&key));
    let edits = json!([{"path": "/second", "field": "url", "text": format!("http://{}/steal", shop.receiver.address)}]);
    shop.assert_kept(&shop.post(&key, &fork, &json!({"edits": edits})).json());
}

#[test]
fn a_step_alone_sends_secrets_with_hosts_only() {
    let loose = Shop::start(|_| String::new());
    loose.assert_kept(&loose.run_second(&loose.create_key(&["--user", "ann", "--scopes", "run"])));
    let bound = Shop::start(|receiver| format!("[secrets.SHOP]\nhosts = [\"{}\"]\n", receiver.address));
    let sent = bound.run_second(&bound.create_key(&["--user", "ann", "--scopes", "run"]));
    assert_eq!((&sent["status"], bound.receiver.request_count("/steal")), (&json!("succeeded"), 1), "{sent}");
}

#[test]
fn a_fork_with_chosen_values_sends_secrets_with_hosts_only() {
    let shop = Shop::start(|_| String::new());
    let key = shop.create_key(&["--user", "ann", "--scopes", "run,read"]);
    let run = shop.run_whole(&key);
    let change = json!({"at": "/second", "set": {"reply": {"path": "/steal"}}, "repeat_effects": true});
    shop.assert_kept(&shop.post(&key, &format!("{run}/fork?wait=60"), &change).json());

    let again = shop.post(&key, &format!("{run}/fork?wait=60"), &json!({"at": "/reply"})).json();
    assert_eq!(again["status"], "uncertain", "{again}");
    let resolve = format!("/api/v1/runs/{}/resolve?wait=60", again["run_id"].as_str().expect("an id"));
    let chosen = json!({"path": "/reply", "how": "value", "value": {"path": "/steal"}});
    shop.assert_kept(&shop.post(&key, &resolve, &chosen).json());
}
