//! Keys, secrets, functions and MCP servers over HTTP: who sees what, and that no value leaves the server.

mod support;

use serde_json::{Value, json};
use support::http::RunningServer;
use support::{Workspace, exit_code};

const JSON: &str = "Content-Type: application/json";

/// Creates a key in the terminal; returns its header.
fn create_key(place: &Workspace, name: &str, arguments: &[&str]) -> String {
    let made = place.run(&[&["keys", "create", "--name", name], arguments].concat());
    assert_eq!(exit_code(&made), 0);
    format!("Authorization: Bearer {}", String::from_utf8_lossy(&made.stdout).trim())
}

fn list_field(list: &Value, field: &str) -> Vec<String> {
    let items = list["items"].as_array().unwrap_or_else(|| panic!("{list}"));
    items.iter().filter_map(|item| Some(item[field].as_str()?.to_owned())).collect()
}

#[test]
fn administrators_manage_keys_and_nobody_else() {
    let place = Workspace::new("");
    let admin = create_key(&place, "admin", &["--scopes", "admin"]);
    let reader = create_key(&place, "reader", &["--scopes", "read,run,write"]);
    let tenant = create_key(&place, "tenant", &["--scopes", "admin", "--user", "ann"]);
    let server = RunningServer::start(&place, &[]);
    let list = |key: &str| server.send_and_read("GET", "/api/v1/keys", &[key], "");
    for refused in [&reader, &tenant] {
        assert_eq!(list(refused).status, 403);
        let body = json!({"name": "x", "scopes": ["read"]}).to_string();
        assert_eq!(server.send_and_read("POST", "/api/v1/keys", &[refused, JSON], &body).status, 403);
    }

    let body = json!({"name": "ci", "scopes": ["read"], "user": "bob", "expires": "90d"}).to_string();
    let once = ["Idempotency-Key: once", &admin, JSON];
    let created = server.send_and_read("POST", "/api/v1/keys", &once, &body);
    let repeated = server.send_and_read("POST", "/api/v1/keys", &once, &body);
    assert_eq!(
        (repeated.status, repeated.error_code()),
        (409, "FL1506".to_owned()),
        "a repetition makes no second key"
    );
    assert_eq!(created.status, 201, "{created:?}");
    let (id, secret) = (created.json()["id"].clone(), created.json()["key"].as_str().expect("a key").to_owned());
    let bearer = format!("Authorization: Bearer {secret}");
    assert_eq!(server.send_and_read("GET", "/api/v1/workflows", &[&bearer], "").status, 200);
    let listed = list(&admin);
    assert_eq!(list_field(&listed.json(), "name"), ["admin", "reader", "tenant", "ci"]);
    assert!(!listed.body.contains(&secret), "the secret is part of one response only");

    let url = format!("/api/v1/keys/{}", id.as_str().expect("an id"));
    assert_eq!(server.send_and_read("DELETE", &url, &[&reader], "").status, 403);
    assert_eq!(server.send_and_read("DELETE", &url, &[&admin], "").status, 204);
    assert_eq!(server.send_and_read("DELETE", &url, &[&admin], "").status, 404);
    assert_eq!(server.send_and_read("GET", "/api/v1/workflows", &[&bearer], "").status, 401);
    let audit = server.send_and_read("GET", "/api/v1/audit", &[&admin], "").json();
    let actions = list_field(&audit, "action");
    assert!(["key.revoke", "key.create"].iter().all(|action| actions.contains(&(*action).to_owned())), "{audit}");
    for wrong in [
        json!({"name": " ", "scopes": ["read"]}),
        json!({"name": "a\u{0}", "scopes": ["read"]}),
        json!({"name": "x", "scopes": []}),
        json!({"name": "x", "scopes": ["all"]}),
        json!({"name": "x", "scopes": ["read"], "user": ""}),
        json!({"name": "x", "scopes": ["read"], "expires": "yesterday"}),
    ] {
        let refused = server.send_and_read("POST", "/api/v1/keys", &[&admin, JSON], &wrong.to_string());
        assert_eq!((refused.status, refused.error_code().as_str()), (400, "FL1505"), "{wrong}");
    }
}

#[test]
fn secrets_are_listed_without_values_to_those_who_may_use_them() {
    let config = "[secrets.SHARED]\nhosts = [\"api.example\"]\nusers = [\"ann\", \"bob\"]\n\
                  [secrets.OWN]\nhosts = [\"own.example\"]\nusers = [\"bob\"]\n";
    let place = Workspace::new(config);
    let admin = create_key(&place, "admin", &["--scopes", "admin"]);
    let reader = create_key(&place, "reader", &["--scopes", "read"]);
    let ann = create_key(&place, "ann", &["--scopes", "read", "--user", "ann"]);
    let server = RunningServer::start_with(&place, &[], &[("FLOWLOOM_SECRET_SHARED", "hunter2")]);
    let list = |key: &str| server.send_and_read("GET", "/api/v1/secrets", &[key], "");
    assert_eq!(list(&reader).status, 403);
    let all = list(&admin);
    assert!(!all.body.contains("hunter2"), "{}", all.body);
    assert_eq!(list_field(&all.json(), "name"), ["OWN", "SHARED"]);
    let own = list(&ann).json();
    let expected = json!([{"name": "SHARED", "is_set": true, "hosts": ["api.example"], "users": ["ann"], "workflows": [], "webhooks": false}]);
    assert_eq!(own["items"], expected);
}

#[test]
fn functions_and_servers_are_listed() {
    let config = "[functions.\"mail::send\"]\nurl = \"http://mail.internal/send\"\ndescription = \"Sends a mail.\"\n\
                  needs_approval = true\n[mcp.files]\ncommand = \"no-such-program\"\n";
    let place = Workspace::new(config);
    let admin = create_key(&place, "admin", &["--scopes", "admin"]);
    let ann = create_key(&place, "ann", &["--scopes", "read,run", "--user", "ann"]);
    let server = RunningServer::start(&place, &[]);
    let get = |path: &str, key: &str| server.send_and_read("GET", path, &[key], "");
    let listed = get("/api/v1/functions", &admin).json();
    assert_eq!(listed["items"][0]["target"], "http://mail.internal/send");
    assert_eq!(listed["items"][0]["needs_approval"], true);
    assert!(list_field(&listed, "id").contains(&"agent::chat".to_owned()), "{listed}");
    let seen = get("/api/v1/functions", &ann);
    assert!(!seen.body.contains("mail.internal"), "a tenant does not see addresses: {}", seen.body);
    assert!(!get("/api/v1/servers", &ann).body.contains("no-such-program"));
    assert_eq!(list_field(&get("/api/v1/servers", &ann).json(), "name"), ["files"]);
    assert_eq!(get("/api/v1/servers/files/tools", &admin).status, 502);
    assert_eq!(get("/api/v1/servers/other/tools", &admin).status, 404);
}
