//! The files in `deploy/` that start a cluster: as far as can be checked without containers, their commands, names, ports and
//! settings fit together.

mod support;

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use support::http::RunningServer;
use support::{Workspace, exit_code, stderr_text};

fn read_file(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(name);
    std::fs::read_to_string(path).expect("a file")
}

/// Whether the program accepts a command line: it prints its help instead of obeying.
fn check_command(command: &Value) {
    let words = command.as_array().expect("words").iter().filter_map(Value::as_str);
    // Kubernetes knows the address when it starts a pod.
    let words: Vec<String> = words.map(|word| word.replace("$(POD_IP)", "10.0.0.1")).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    assert_eq!(words[0], "flowloom");
    let output = Workspace::new("").run(&[&words[1..], &["--help"]].concat());
    assert_eq!(exit_code(&output), 0, "{words:?}: {}", stderr_text(&output));
}

/// Checks that the program accepts a configuration. Returns the host and the port of its Restate server.
fn check_config(config: &str) -> (String, u64) {
    let place = Workspace::with_hello(config);
    let output = place.run(&["check", "hello.json"]);
    assert_eq!(exit_code(&output), 0, "{config}: {}", stderr_text(&output));
    let url = config.lines().find_map(|line| line.strip_prefix("restate = \"")).expect("an engine");
    parse_address(url.trim_end_matches('"'))
}

fn parse_address(url: &str) -> (String, u64) {
    let (host, port) = url.strip_prefix("http://").and_then(|rest| rest.split_once(':')).expect("an address");
    (host.to_owned(), port.parse().expect("a port"))
}

/// The address that a worker gives to Restate.
fn worker_address(command: &Value) -> (String, u64) {
    let words = command.as_array().expect("words");
    let flag = words.iter().position(|word| word == "--url").expect("an address");
    parse_address(words[flag + 1].as_str().expect("text"))
}

#[test]
fn the_composition_fits_together() {
    let text = read_file("compose.yaml");
    let compose: Value = serde_saphyr::from_str(&text).expect("YAML");
    let services = compose["services"].as_object().expect("services");
    let commands: Vec<&Value> = ["worker", "server"].iter().map(|name| &services[*name]["command"]).collect();
    commands.iter().for_each(|command| check_command(command));
    assert_eq!(worker_address(commands[0]), ("worker".to_owned(), 9080));
    let replicas = ["worker", "server"].map(|name| services[name]["deploy"]["replicas"].as_u64().expect("a number"));
    assert_eq!(replicas, [3, 2]);
    // Each server needs a port of the machine.
    let published = services["server"]["ports"][0].as_str().expect("ports").rsplit(':').nth(1).expect("a port");
    let (first, last) = published.split_once('-').expect("a range");
    let count = last.parse::<u64>().expect("a port") - first.parse::<u64>().expect("a port") + 1;
    assert_eq!(count, replicas[1], "{published}");
    let (host, port) = check_config(&read_file("cluster.toml"));
    assert!(services.contains_key(&host) && port == 8080, "{host}:{port}");
    assert!(text.contains("./cluster.toml:/flows/flowloom.toml"), "the configuration is not mounted");
}

/// Checks that disruption budgets and network policies are about workloads and ports that exist.
fn check_policies(policies: &[&Value], workloads: &BTreeMap<String, Vec<u64>>) {
    let app = |selector: &Value| selector["matchLabels"]["app"].as_str().expect("a label").to_owned();
    for policy in policies {
        let spec = &policy["spec"];
        let selector = if spec["selector"].is_object() { &spec["selector"] } else { &spec["podSelector"] };
        let ports = &workloads[&app(selector)];
        for rule in spec["ingress"].as_array().into_iter().flatten() {
            // A rule without callers is for all of them.
            let callers = rule["from"].as_array().map_or(&[][..], Vec::as_slice);
            // Keys are created by a pod that is not in the file.
            let exists = |caller: &Value| {
                let app = app(&caller["podSelector"]);
                app == "flowloom-admin" || workloads.contains_key(&app)
            };
            assert!(callers.iter().all(exists), "{policy}");
            let allowed = rule["ports"].as_array().expect("ports").iter().filter_map(|port| port["port"].as_u64());
            assert!(allowed.into_iter().all(|port| ports.contains(&port)), "{policy}");
        }
    }
    assert_eq!(policies.len(), 5);
}

/// Rules about metrics that do not exist never fire.
#[test]
fn alerts_are_about_metrics_that_the_server_has() {
    let rules: Value = serde_saphyr::from_str(&read_file("alerts.yaml")).expect("YAML");
    let rules = rules["groups"][0]["rules"].as_array().expect("rules");
    let place = Workspace::with_hello("");
    let server = RunningServer::start(&place, &[]);
    server.post("/api/v1/runs?wait=60", &serde_json::json!({"workflow": "hello", "inputs": "lamps"}));
    let metrics = server.get("/metrics").body;
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut names = Vec::new();
    for rule in rules {
        let expression = rule["expr"].as_str().expect("an expression");
        names.extend(expression.split(|c| !is_part(c)).filter(|word| word.starts_with("flowloom_")));
    }
    assert!(names.len() >= 4, "{names:?}");
    for name in names {
        let is_there = metrics.lines().any(|line| {
            line.starts_with(&format!("{name}{{"))
                || line.starts_with(&format!("{name} "))
                || line.contains(&format!("TYPE {name} "))
        });
        assert!(is_there, "{name} is not in {metrics}");
    }
}

/// A database without certificates is reached without encryption, or not at all.
#[test]
fn addresses_of_a_database_without_certificates_turn_encryption_off() {
    for file in ["compose.yaml", "kubernetes.yaml"] {
        let text = read_file(file);
        assert!(text.contains("image: postgres:"), "{file}");
        let addresses: Vec<&str> = text.split("postgres://").skip(1).collect();
        let is_plain = |rest: &&str| rest.lines().next().is_some_and(|line| line.contains("?sslmode=disable"));
        assert!(!addresses.is_empty() && addresses.iter().all(is_plain), "{file}: {addresses:?}");
    }
}

#[test]
fn the_manifest_fits_together() {
    let objects: Vec<Value> = serde_saphyr::from_multiple(&read_file("kubernetes.yaml")).expect("YAML");
    let name = |object: &Value| object["metadata"]["name"].as_str().expect("a name").to_owned();
    // The ports of the containers of each workload, by the label that services select.
    let (mut workloads, mut services, mut replicas) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    let mut policies = Vec::new();
    for object in &objects {
        match object["kind"].as_str().expect("a kind") {
            "Deployment" | "StatefulSet" => {
                let pod = &object["spec"]["template"];
                let labels = &pod["metadata"]["labels"];
                assert_eq!(&object["spec"]["selector"]["matchLabels"], labels, "{}", name(object));
                let containers = pod["spec"]["containers"].as_array().expect("containers");
                for container in containers {
                    if container["image"] == "flowloom" {
                        check_command(&container["command"]);
                    }
                }
                let ports = containers.iter().flat_map(|container| container["ports"].as_array().expect("ports"));
                let ports: Vec<u64> = ports.filter_map(|port| port["containerPort"].as_u64()).collect();
                workloads.insert(labels["app"].as_str().expect("a label").to_owned(), ports);
                replicas.insert(name(object), object["spec"]["replicas"].as_u64().expect("a number"));
            }
            "Service" => {
                services.insert(name(object), object);
            }
            "PodDisruptionBudget" | "NetworkPolicy" => policies.push(object),
            "ConfigMap" => {}
            kind => panic!("{kind} is not expected"),
        }
    }
    for (name, service) in &services {
        let ports = &workloads[service["spec"]["selector"]["app"].as_str().expect("a label")];
        for port in service["spec"]["ports"].as_array().expect("ports") {
            assert!(ports.contains(&port["targetPort"].as_u64().expect("a port")), "{name}");
        }
    }
    check_policies(&policies, &workloads);
    let find = |kind: &str, wanted: &str| {
        let is_it = |object: &&Value| object["kind"] == kind && name(object) == wanted;
        objects.iter().find(is_it).expect("an object")
    };
    let worker = &find("Deployment", "flowloom-worker")["spec"]["template"]["spec"]["containers"][0]["command"];
    let config = find("ConfigMap", "flowloom")["data"]["flowloom.toml"].as_str().expect("text");
    for (host, port) in [check_config(config), worker_address(worker)] {
        let ports = services[&host]["spec"]["ports"].as_array().expect("ports");
        assert!(ports.iter().any(|one| one["port"] == port), "{host}:{port}");
    }
    assert_eq!((replicas["flowloom-worker"], replicas["flowloom-server"]), (3, 2));
}
