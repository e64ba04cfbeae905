//! Two servers on one Postgres are one service: each call of a conversation may go to another one.

mod support;

use std::collections::HashSet;

use serde_json::{Value, json};
use support::Workspace;
use support::http::RunningServer;

/// Number of conversations of each kind.
const CONVERSATIONS: usize = 20;

/// A conversation whose agent calls a function of the client.
const TALK: &str = r#"{"id": "talk", "name": "talk", "isConversational": true, "entrypointNodeId": "n1",
    "nodes": [{"id": "n1", "nodeType": "AGENT", "nodeName": "A", "agentId": "a"},
        {"id": "n2", "nodeType": "TOOL_EXECUTOR", "nodeName": "tool_executor", "agentId": null}],
    "edges": [
        {"id": "e1", "sourceNodeId": "n1", "targetNodeId": "n2", "conditionType": "CONDITIONAL", "conditionValue": "tool_executor"},
        {"id": "e2", "sourceNodeId": "n1", "targetNodeId": null, "conditionType": "CONDITIONAL", "conditionValue": "END"}],
    "agents": [{"id": "a", "name": "A", "systemPrompt": "x",
        "tools": [{"name": "weather", "execution_location": "client", "parameters": {"type": "object"}}]}]}"#;

/// The model asks for the weather until the answer is that it is sunny.
const SCRIPT: &str = r#"{"match": [{"contains": "sunny", "answer": "Fine."}],
    "default": {"text": "Let me look.", "tool_calls": [{"name": "weather", "arguments": {"city": "Bonn"}}]}}"#;

/// Two servers, with their folders.
struct ServerPair {
    servers: [RunningServer; 2],
    _places: [Workspace; 2],
}

impl ServerPair {
    /// `None` without a Postgres.
    fn start() -> Option<ServerPair> {
        let database = test_postgres::TestDatabase::create_database()?;
        // A lease that does not expire: nothing is reclaimed by chance.
        let config =
            format!("database = \"{}\"\nlease_ms = 600000\ndefault_model = \"scripted:script.json\"\n", database.url);
        let places = [(), ()].map(|()| {
            let place = Workspace::new(&config);
            place.write("talk.json", TALK);
            place.write("script.json", SCRIPT);
            place.write("ask.json", include_str!("../../../examples/steps/ask-a-person.json"));
            place
        });
        let servers = [0, 1].map(|number| RunningServer::start(&places[number], &[]));
        Some(ServerPair { servers, _places: places })
    }

    /// Sends a call to one of the servers.
    #[track_caller]
    fn post(&self, number: usize, path: &str, body: &Value) -> Value {
        let answer = self.servers[number % 2].post(path, body);
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    }
}

#[test]
fn results_of_tools_may_go_to_the_other_server() {
    let Some(pair) = ServerPair::start() else { return };
    for number in 0..CONVERSATIONS {
        let question = json!({"role": "user", "content": "How?"});
        let body = json!({"model": "talk", "messages": [question]});
        let first = pair.post(number, "/v1/chat/completions", &body);
        let asked = &first["choices"][0]["message"];
        let result = json!({"role": "tool", "tool_call_id": asked["tool_calls"][0]["id"], "content": "sunny"});
        let body = json!({"model": "talk", "messages": [question, asked, result]});
        let second = pair.post(number + 1, "/v1/chat/completions", &body);
        assert_eq!(second["choices"][0]["message"]["content"], "Fine.", "{second}");
    }
}

#[test]
fn the_answer_to_a_response_may_go_to_the_other_server() {
    let Some(pair) = ServerPair::start() else { return };
    for number in 0..CONVERSATIONS {
        let asked = pair.post(number, "/v1/responses", &json!({"model": "ask-a-person", "input": "tea"}));
        let body = json!({"model": "ask-a-person", "input": "yes", "previous_response_id": asked["id"]});
        let ended = pair.post(number + 1, "/v1/responses", &body);
        assert_eq!(ended["status"], "completed", "{ended}");
    }
}

#[test]
fn the_turns_of_a_thread_may_alternate_between_servers() {
    let Some(pair) = ServerPair::start() else { return };
    for number in 0..CONVERSATIONS {
        let message = json!({"role": "user", "content": format!("It is sunny on day {number}")});
        let body = json!({"model": "talk", "messages": [message], "metadata": {"thread": "t"}});
        for server in [number, number + 1] {
            let answer = pair.post(server, "/v1/chat/completions", &body);
            assert_eq!(answer["choices"][0]["message"]["content"], "Fine.", "{answer}");
        }
    }
}

#[test]
fn calls_with_one_key_that_reach_both_servers_together_are_one_run() {
    let Some(pair) = ServerPair::start() else { return };
    for number in 0..CONVERSATIONS {
        let key = format!("Idempotency-Key: k{number}");
        let headers = ["Content-Type: application/json", &key];
        let body = json!({"workflow": "ask-a-person", "inputs": "tea"}).to_string();
        let send = |server: usize| pair.servers[server].send_and_read("POST", "/api/v1/runs?wait=10", &headers, &body);
        let answers: Vec<_> = std::thread::scope(|scope| {
            let calls: Vec<_> = (0..6).map(|call| scope.spawn(move || send(call % 2))).collect();
            calls.into_iter().map(|call| call.join().expect("an answer")).collect()
        });
        let runs: HashSet<_> = answers.iter().map(|answer| answer.json()["run_id"].to_string()).collect();
        assert!(answers.iter().all(|answer| answer.status == 202) && runs.len() == 1, "{answers:?}");
    }
}
