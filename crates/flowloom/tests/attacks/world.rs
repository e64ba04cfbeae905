//! The target of the attacks: a server with two tenants, and canaries around it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::client::{HttpCall, HttpReply, encode_percent};
use crate::corpus::corpus_folder;
use crate::listener::{ForbiddenListener, RecordingServer, start_receiver};
use crate::oracle::{Canary, canary_value};
use crate::support::http::RunningServer;
use crate::support::{Workspace, exit_code};

/// A server, its attacker `bob`, its victim `ann`, and what must not leave its place.
pub(crate) struct World {
    pub(crate) place: Workspace,
    pub(crate) server: RunningServer,
    pub(crate) receiver: RecordingServer,
    /// The server of the operator: the provider of models and the shop, which receive their keys.
    pub(crate) trusted: RecordingServer,
    pub(crate) forbidden: ForbiddenListener,
    /// A folder that is not served, with two canaries.
    pub(crate) outside: tempfile::TempDir,
    /// The names of the files that are served, and the configuration.
    pub(crate) served: Vec<String>,
    /// The keys, by name.
    pub(crate) keys: BTreeMap<&'static str, String>,
    /// The replacement of `@{name}` in inputs and points.
    pub(crate) values: BTreeMap<String, String>,
}

/// Files of the outside folder.
const OUTSIDE_FILES: [&str; 2] = ["canary.txt", "canary.json"];

impl World {
    /// Starts a server on SQLite, or on a database of its own. The forbidden listener also listens on `more_ports`.
    pub(crate) fn start(database: Option<&str>, more_ports: &[u16]) -> World {
        World::start_with(database, more_ports, &|_| String::new())
    }

    /// Starts it with further configuration, which gets the address of the operator's server.
    pub(crate) fn start_with(
        database: Option<&str>,
        more_ports: &[u16],
        more_config: &dyn Fn(&str) -> String,
    ) -> World {
        let outside = tempfile::tempdir().expect("a folder");
        let json_file = json!([canary_value(Canary::File)]).to_string();
        for (name, content) in OUTSIDE_FILES.iter().zip([canary_value(Canary::File), json_file]) {
            std::fs::write(outside.path().join(name), content).expect("written");
        }
        let (receiver, trusted) = (start_receiver(), start_receiver());
        let forbidden = ForbiddenListener::start(more_ports);
        let config = configuration(&receiver, &trusted, forbidden.port, database);
        let place = Workspace::new(&(config + &more_config(&trusted.address)));
        for entry in std::fs::read_dir(corpus_folder().join("workflows")).expect("workflows").flatten() {
            std::fs::copy(entry.path(), place.path(&entry.file_name().to_string_lossy())).expect("copied");
        }
        std::fs::create_dir(place.path("files")).expect("created");
        place.write("files/known.txt", "known");
        let keys = create_keys(&place);
        let server = RunningServer::start_with(
            &place,
            &[],
            &[
                ("FLOWLOOM_SECRET_SHOP", &canary_value(Canary::Secret)),
                ("ATTACKED_VARIABLE", &canary_value(Canary::Environment)),
                ("OPENAI_API_KEY", &canary_value(Canary::ProviderKey)),
                ("HOUSE_KEY", &canary_value(Canary::ProviderKey)),
            ],
        );
        let values = BTreeMap::from([
            ("host".to_owned(), server.address.clone()),
            ("receiver".to_owned(), receiver.address.clone()),
            ("port".to_owned(), forbidden.port.to_string()),
            ("file".to_owned(), outside.path().join("canary.txt").display().to_string()),
            ("json_file".to_owned(), outside.path().join("canary.json").display().to_string()),
            ("data".to_owned(), place.path("data").display().to_string()),
            ("files".to_owned(), place.path("files").display().to_string()),
        ]);
        let mut world = World { place, server, receiver, trusted, forbidden, outside, served: vec![], keys, values };
        world.served = world.list_served();
        world.create_victim();
        for (name, key) in &world.keys {
            world.values.insert(format!("key.{name}"), key.clone());
        }
        world
    }

    /// The names of the files that are served, and the configuration. Attacks of the command line write two others.
    pub(crate) fn list_served(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.place.path(".")).expect("the folder").flatten();
        let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.retain(|name| !["data", "restored", "backup.db"].contains(&name.as_str()));
        names.sort();
        names.push(std::fs::read_to_string(self.place.path("flowloom.toml")).expect("readable"));
        names
    }

    /// Sends a request with a key.
    pub(crate) fn call(&self, key: &str, method: &str, path: &str, body: &str) -> HttpReply {
        let mut headers = vec![];
        if let Some(key) = self.keys.get(key) {
            headers.push(format!("Authorization: Bearer {key}"));
        }
        if !body.is_empty() {
            headers.push("Content-Type: application/json".to_owned());
        }
        HttpCall { method, path, headers, body: body.as_bytes() }.send(&self.server.address)
    }

    /// Stores a definition for bob and runs it.
    pub(crate) fn run_definition(&self, id: &str, media_type: &str, definition: &str, inputs: &Value) -> HttpReply {
        let headers =
            vec![format!("Authorization: Bearer {}", self.keys["bob"]), format!("Content-Type: {media_type}")];
        let path = format!("/api/v1/workflows/{}", encode_percent(id));
        let call = HttpCall { method: "PUT", path: &path, headers, body: definition.as_bytes() };
        let stored = call.send(&self.server.address);
        if !(200..300).contains(&stored.status) {
            return stored;
        }
        self.call("bob", "POST", "/api/v1/runs?wait=60", &json!({"workflow": id, "inputs": inputs}).to_string())
    }

    /// Stores a canary of ann's in an object of every kind.
    fn create_victim(&mut self) {
        let canary = canary_value(Canary::Tenant);
        let call = |method: &str, path: &str, body: Value| {
            let reply = self.call("ann", method, path, &body.to_string());
            assert!((200..300).contains(&reply.status), "{method} {path}: {}", reply.text);
            reply.json()
        };
        call("PUT", "/api/v1/memory/ann/diary", json!(canary));
        let steps = json!({"id": "mine", "name": "mine", "description": canary, "steps": [
            {"name": "s", "functionId": "agent::chat", "mode": "sequential", "promptTemplate": canary}]});
        call("PUT", "/api/v1/workflows/mine", steps);
        let part = json!({"name": canary, "description": canary, "category": "process", "execution_type": "llm",
            "prompt_template": canary, "input_schema": {}, "output_schema": {}, "systemPrompt": canary});
        for kind in ["blocks", "agents", "tools"] {
            call("PUT", &format!("/api/v1/{kind}/mine"), part.clone());
        }
        let schedule = json!({"workflow": "mine", "cron": "0 0 1 1 *", "inputs": {"input": canary}});
        call("PUT", "/api/v1/schedules/mine", schedule);
        call("PUT", "/api/v1/hooks/mine", json!({"workflow": "mine"}));
        let flow = json!({"name": canary, "uuid": "myflow", "config": {"steps": []}});
        call("POST", "/api/agent-flows/save", flow);
        let node = json!({"id": "n1", "block_id": "notify_push", "inputs": {"title": canary, "body": canary}});
        call("POST", "/api/pipelines", json!({"id": "mypipe", "name": canary, "nodes": [node], "edges": []}));
        let execution = call("POST", "/api/pipelines/mypipe/run", json!({}));
        let file = json!({"path": "diary.txt", "content": canary});
        let written = call("POST", "/api/v1/runs?wait=60", json!({"workflow": "steps-write", "inputs": file}));
        assert_eq!(written["status"], "succeeded", "{written}");
        let run = call("POST", "/api/v1/runs?wait=60", json!({"workflow": "ask", "inputs": canary}));
        call("POST", "/api/v1/threads/graph/secret-thread?wait=60", json!({"message": canary}));
        let text = |value: &Value| value["run_id"].as_str().expect("an id").to_owned();
        let (run, execution) = (text(&run), text(&execution));
        self.values.extend([("ann.run".to_owned(), run), ("ann.execution".to_owned(), execution)]);
    }
}

fn configuration(receiver: &RecordingServer, trusted: &RecordingServer, port: u16, database: Option<&str>) -> String {
    let database = database.map_or_else(String::new, |url| format!("database = \"{url}\"\n"));
    format!(
        "default_model = \"scripted:echo\"\ndurability = \"off\"\n{database}\
         [egress]\nallow = [\"{receiver}\", \"{trusted}\"]\nports = [80, 443, {port}]\n\
         [files]\nroot = \"files\"\n\
         [providers.house]\nbase_url = \"http://{trusted}/v1\"\nkey_env = \"HOUSE_KEY\"\n\
         [secrets.SHOP]\nhosts = [\"{trusted}\"]\nusers = [\"ann\"]\n\
         [server]\nhead_timeout_ms = 1000\nbody_timeout_ms = 2000\n",
        receiver = receiver.address,
        trusted = trusted.address
    )
}

/// Keys of the tenants; `bob` is the attacker.
fn create_keys(place: &Workspace) -> BTreeMap<&'static str, String> {
    let keys = [
        ("ann", "ann", "read,run,write"),
        ("bob", "bob", "read,run,write"),
        ("reader", "bob", "read"),
        ("runner", "bob", "run"),
        ("writer", "bob", "write"),
    ];
    let create = |(name, user, scopes): (&'static str, &str, &str)| {
        let output = place.run(&["keys", "create", "--name", name, "--user", user, "--scopes", scopes]);
        assert_eq!(exit_code(&output), 0, "{}", String::from_utf8_lossy(&output.stderr));
        (name, String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    keys.into_iter().map(create).collect()
}
