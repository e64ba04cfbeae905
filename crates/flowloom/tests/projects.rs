//! Projects: a folder with a configuration or with data, found by searching upwards. Each has its own runs, and a process
//! continues only runs of its own project and configuration.

mod support;

use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use support::http::RunningServer;
use support::{TestServer, Workspace, exit_code, stderr_text, two_calls_flow};

/// Configuration of a project whose runs need no model.
const SCRIPTED: &str = "default_model = \"scripted:echo\"\n";

/// A command in a folder of a workspace, with the data folder of its project.
fn build_project_command(place: &Workspace, folder: &str, arguments: &[&str]) -> Command {
    let mut command = place.build_command(arguments);
    command.current_dir(place.path(folder)).env_remove("FLOWLOOM_DATA_DIR");
    command.env("HOME", place.path("home")).env_remove("XDG_DATA_HOME");
    command
}

fn run_in(place: &Workspace, folder: &str, arguments: &[&str]) -> Output {
    build_project_command(place, folder, arguments).output().expect("the program runs")
}

fn stdout_text(output: &Output) -> String {
    assert_eq!(exit_code(output), 0, "{}", stderr_text(output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn write_file(place: &Workspace, file: &str, text: &str) {
    let path = place.path(file);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("created");
    std::fs::write(path, text).expect("written");
}

fn prompt_flow(name: &str) -> String {
    json!({"name": name, "steps": [
        {"type": "start", "config": {"variables": [{"name": "who", "value": "you"}]}},
        {"type": "llmInstruction", "config": {"instruction": "Greet ${who}", "resultVariable": "greeting"}},
    ]})
    .to_string()
}

/// A workspace without a configuration of its own, with the projects `a` and `b`.
fn two_projects() -> Workspace {
    let place = Workspace::new("");
    std::fs::remove_file(place.path("flowloom.toml")).expect("removed");
    for project in ["a", "b"] {
        write_file(&place, &format!("{project}/flowloom.toml"), SCRIPTED);
        write_file(&place, &format!("{project}/flows/greet.json"), &prompt_flow(project));
    }
    place
}

#[test]
fn each_project_has_its_own_runs_and_is_found_from_below() {
    let place = two_projects();
    let greeted = stdout_text(&run_in(&place, "a/flows", &["run", "greet.json", "-i", "who=Ann"]));
    assert!(greeted.contains("Greet Ann"), "{greeted}");
    let data = place.path("a/.flowloom");
    assert_eq!(std::fs::metadata(&data).expect("it exists").permissions().mode() & 0o777, 0o700);
    assert_eq!(std::fs::read_to_string(data.join(".gitignore")).expect("it exists"), "*\n");
    for folder in ["a", "a/flows"] {
        let runs: Value =
            serde_json::from_str(&stdout_text(&run_in(&place, folder, &["runs", "--json"]))).expect("JSON");
        assert_eq!(runs.as_array().map(Vec::len), Some(1), "{folder}: {runs}");
    }
    stdout_text(&run_in(&place, "b", &["run", "greet"]));
    assert!(stdout_text(&run_in(&place, "b", &["show", "last"])).contains("b (flow)"));
    assert!(stdout_text(&run_in(&place, "a", &["show", "last"])).contains("a (flow)"));
}

#[test]
fn a_definition_of_another_project_runs_there_and_commands_name_the_next_step() {
    let place = two_projects();
    let question = json!({"id": "q", "name": "q", "steps": [{"name": "s", "functionId": "human::ask", "mode": "sequential",
        "errorMode": "fail", "promptTemplate": "Who?"}]});
    write_file(&place, "a/flows/ask.json", &question.to_string());
    let asked = run_in(&place, ".", &["run", "a/flows/ask.json", "--input", "/dev/null"]);
    let message = stderr_text(&asked);
    assert_eq!(exit_code(&asked), 4, "{message}");
    assert!(message.contains("flowloom --config a/flowloom.toml answer "), "{message}");
    assert!(place.path("a/.flowloom").exists() && !place.path(".flowloom").exists());
    let lost = run_in(&place, ".", &["show", "last"]);
    assert_eq!(exit_code(&lost), 2);
    assert!(stderr_text(&lost).contains("--config a/flowloom.toml"), "{}", stderr_text(&lost));
    assert!(!place.path(".flowloom").exists(), "looking creates nothing");
    stdout_text(&run_in(&place, ".", &["--config", "a/flowloom.toml", "show", "last"]));
}

#[test]
fn a_definition_from_elsewhere_runs_in_the_current_project_and_one_below_in_its_own() {
    let place = two_projects();
    stdout_text(&run_in(&place, "b", &["run", "../a/flows/greet.json"]));
    assert!(place.path("b/.flowloom").exists() && !place.path("a/.flowloom").exists());
    write_file(&place, "b/inner/flowloom.toml", SCRIPTED);
    write_file(&place, "b/inner/greet.json", &prompt_flow("inner"));
    stdout_text(&run_in(&place, "b", &["run", "inner/greet.json"]));
    assert!(place.path("b/inner/.flowloom").exists());
}

#[test]
fn outside_of_a_project_runs_are_kept_where_the_command_runs_or_what_it_serves() {
    let place = two_projects();
    write_file(&place, "loose/greet.json", &prompt_flow("loose"));
    stdout_text(&run_in(&place, "loose", &["run", "greet.json", "--model", "scripted:echo"]));
    assert!(place.path("loose/.flowloom").exists());
    std::fs::create_dir(place.path("loose/below")).expect("created");
    assert!(stdout_text(&run_in(&place, "loose/below", &["show", "last"])).contains("loose (flow)"));
    // Data in the home folder does not make everything below it a project.
    write_file(&place, "home/greet.json", &prompt_flow("home"));
    stdout_text(&run_in(&place, "home", &["run", "greet.json", "--model", "scripted:echo"]));
    std::fs::create_dir(place.path("home/work")).expect("created");
    assert_eq!(exit_code(&run_in(&place, "home/work", &["show", "last"])), 2);
}

#[test]
fn a_configuration_further_up_that_belongs_to_another_user_is_refused() {
    let place = two_projects();
    // Only root can give files away.
    if chown(place.path("a/flowloom.toml"), Some(12_345), None).is_err() {
        return;
    }
    let refused = run_in(&place, "a/flows", &["runs"]);
    assert_eq!(exit_code(&refused), 2);
    assert!(stderr_text(&refused).contains("belongs to another user (uid 12345)"), "{}", stderr_text(&refused));
    stdout_text(&run_in(&place, "a/flows", &["--config", "../flowloom.toml", "run", "greet.json"]));
    stdout_text(&run_in(&place, "a", &["runs"]));
}

#[test]
fn an_env_file_sets_what_the_environment_does_not() {
    let place = two_projects();
    write_file(&place, "a/.env", "FLOWLOOM_DEFAULT_MODEL=\"scripted:from-env-file.json\"\n");
    let model = |command: &mut Command| {
        let report: Value =
            serde_json::from_str(&String::from_utf8_lossy(&command.output().expect("it runs").stdout)).expect("JSON");
        let row = report.as_array().expect("rows").iter().find(|row| row["name"] == "default model").cloned();
        let row = row.expect("the row");
        (row["ok"].as_bool(), row["value"].as_str().unwrap_or_default().to_owned())
    };
    let mut command = build_project_command(&place, "a/flows", &["doctor", "--json"]);
    let (is_fine, value) = model(&mut command);
    assert!(value.starts_with("scripted:from-env-file.json the script") && is_fine == Some(false), "{value}");
    command.env("FLOWLOOM_DEFAULT_MODEL", "scripted:echo");
    assert_eq!(model(&mut command), (Some(true), "scripted:echo".to_owned()));
    for (text, line) in
        [("A=b\n\nno assignment here\n", 3), ("A=b\nKEY=sk-live-123 456\n", 2), ("KEY=\"sk-live-123\nA=b\n", 1)]
    {
        write_file(&place, "a/.env", text);
        let broken = run_in(&place, "a", &["runs"]);
        let message = stderr_text(&broken);
        assert_eq!(exit_code(&broken), 2, "{message}");
        assert!(message.contains(&format!(".env:{line}: expected NAME=VALUE")), "{message}");
        assert!(!message.contains("sk-live") && !message.contains("assignment"), "{message}");
    }
}

#[test]
fn a_script_of_the_configuration_is_found_from_every_folder() {
    let place = two_projects();
    write_file(&place, "a/flowloom.toml", "default_model = \"scripted:answers.json\"\n");
    write_file(&place, "a/answers.json", "{\"default\": \"from the project\"}");
    write_file(&place, "a/flows/one.json", &prompt_flow("one"));
    for folder in ["a", "a/flows"] {
        let flow = if folder == "a" { "flows/one.json" } else { "one.json" };
        assert_eq!(stdout_text(&run_in(&place, folder, &["run", flow])), "from the project\n");
    }
}

#[test]
fn an_empty_data_folder_is_none() {
    let place = two_projects();
    write_file(&place, "a/flowloom.toml", "data_dir = \"\"\ndefault_model = \"scripted:echo\"\n");
    write_file(&place, "a/flows/one.json", &prompt_flow("one"));
    stdout_text(&run_in(&place, "a", &["run", "flows/one.json"]));
    assert!(place.path("a/.flowloom/flowloom.db").exists() && !place.path("a/flowloom.db").exists());
}

#[test]
fn each_folder_has_its_own_conversation() {
    let place = two_projects();
    write_file(&place, "a/other/greet.json", &prompt_flow("other"));
    let send_text = |folder: &str, text: &str| run_in(&place, "a", &["agent", folder, "-m", text]);
    stdout_text(&send_text("flows", "my password is swordfish"));
    let other = send_text("other", "hello");
    assert!(!stderr_text(&other).contains("continuing"), "{}", stderr_text(&other));
    let again = send_text("flows", "hello");
    assert!(stderr_text(&again).contains("continuing with 2 messages"), "{}", stderr_text(&again));
}

#[test]
fn each_file_has_its_own_conversation() {
    let place = two_projects();
    let agent = |prompt: &str| json!({"name": "helper", "systemPrompt": prompt}).to_string();
    write_file(&place, "a/x/ag.json", &agent("Help."));
    write_file(&place, "a/y/ag.json", &agent("Totally different."));
    let graph = |name: &str| {
        let node = json!({"id": "n", "nodeType": "AGENT", "nodeName": name, "agentId": "a"});
        json!({"id": "g", "name": name, "entrypointNodeId": "n", "nodes": [node], "edges": []}).to_string()
    };
    write_file(&place, "a/x/graph.json", &graph("X"));
    write_file(&place, "a/y/graph.json", &graph("Y"));
    let send_text = |file: &str, text: &str| run_in(&place, "a", &["chat", file, "-m", text]);
    stdout_text(&send_text("x/ag.json", "my password is swordfish"));
    let other = send_text("y/ag.json", "hello");
    assert!(!stderr_text(&other).contains("continuing"), "{}", stderr_text(&other));
    send_text("x/graph.json", "hello");
    let other = send_text("y/graph.json", "hello");
    assert!(!stderr_text(&other).contains("continuing"), "{}", stderr_text(&other));
    let again = send_text("./x/ag.json", "hello");
    assert!(stderr_text(&again).contains("continuing with 2 messages"), "{}", stderr_text(&again));
}

/// The commands that `doctor` prints for the data of earlier versions, as a person would type them.
fn run_printed_commands(place: &Workspace, folder: &str) {
    let report = stdout_text(&run_in(place, folder, &["doctor"]));
    let commands: Vec<&str> = report.lines().map(str::trim).filter(|line| line.starts_with("flowloom ")).collect();
    assert_eq!(commands.len(), 2, "{report}");
    for command in commands {
        let arguments: Vec<&str> = command.split(' ').skip(1).collect();
        stdout_text(&run_in(place, folder, &arguments));
    }
}

#[test]
fn data_of_earlier_versions_is_copied_with_the_commands_that_doctor_prints() {
    let place = two_projects();
    std::fs::create_dir_all(place.path("home/.local/share")).expect("created");
    let shared = place.path("home/.local/share/flowloom").display().to_string();
    stdout_text(&run_in(&place, "a", &["run", "greet", "--data-dir", &shared]));
    // A fresh project, and one with runs of its own.
    run_printed_commands(&place, "b");
    assert!(stdout_text(&run_in(&place, "b", &["runs", "--json"])).contains("\"succeeded\""));
    stdout_text(&run_in(&place, "a", &["run", "greet"]));
    run_printed_commands(&place, "a");
}

#[test]
fn projects_that_share_a_database_share_no_conversations_memory_or_workflows() {
    let place = two_projects();
    for project in ["a", "b"] {
        write_file(&place, &format!("{project}/flowloom.toml"), &format!("project = \"{project}\"\n{SCRIPTED}"));
    }
    let run =
        |folder: &str, arguments: &[&str]| run_in(&place, folder, &[&["--data-dir", "../data"], arguments].concat());
    stdout_text(&run("a", &["agent", "flows", "-m", "my password is swordfish"]));
    let other = run("b", &["agent", "flows", "-m", "hello"]);
    assert!(!stderr_text(&other).contains("continuing"), "{}", stderr_text(&other));
    let again = run("a", &["agent", "flows", "-m", "hello"]);
    assert!(stderr_text(&again).contains("continuing with 2 messages"), "{}", stderr_text(&again));

    stdout_text(&run("a", &["user", "set", "name=Ann"]));
    assert_eq!(stdout_text(&run("b", &["user", "show"])), "");
    assert_eq!(stdout_text(&run("a", &["user", "show"])), "name = Ann\n");

    stdout_text(&run("a", &["sync", "flows"]));
    std::fs::remove_dir_all(place.path("a/flows")).expect("removed");
    stdout_text(&run("a", &["run", "greet"]));
    std::fs::remove_dir_all(place.path("b/flows")).expect("removed");
    assert_eq!(exit_code(&run("b", &["run", "greet"])), 2);
    let listed = |folder: &str| stdout_text(&run(folder, &["runs", "--json"]));
    assert!(listed("b").contains("hello") && !listed("b").contains("greet"), "{}", listed("b"));
}

/// Starts a run of `flow.json` in a folder, and kills it in its second call.
fn interrupt_run(place: &Workspace, slow: &TestServer, folder: &str) {
    let before = slow.request_count("/slow");
    let mut command = build_project_command(place, folder, &["run", "flow.json", "--data-dir", "../data"]);
    let mut child = command.stderr(Stdio::null()).spawn().expect("it starts");
    slow.wait_for_requests("/slow", before + 1);
    child.kill().expect("killed");
    child.wait().expect("ended");
}

/// Serves a folder of the workspace until its recovery has looked at all runs.
fn serve_once(place: &Workspace, folder: &str, options: &[&str]) {
    let all = [&["serve", ".", "--bind", "127.0.0.1:0", "--data-dir", "../data"][..], options].concat();
    let mut server = RunningServer::spawn_command(build_project_command(place, folder, &all));
    // The server answers after the first look.
    assert_eq!(server.get("/health").status, 200);
    server.child.kill().expect("killed");
    server.child.wait().expect("ended");
}

/// Shows the last run of `a` to a user who works in `folder`.
fn describe_last_run(place: &Workspace, folder: &str) -> String {
    stdout_text(&run_in(place, folder, &["--data-dir", "../data", "show", &find_last_run(place)]))
}

fn find_last_run(place: &Workspace) -> String {
    let listed = stdout_text(&run_in(place, "a", &["--data-dir", "../data", "runs", "--limit", "1", "--json"]));
    let runs: Value = serde_json::from_str(&listed).expect("JSON");
    runs[0]["run_id"].as_str().expect("an id").to_owned()
}

#[test]
fn a_server_leaves_runs_of_other_projects_and_configurations_alone() {
    let (place, slow) = (two_projects(), TestServer::start());
    let config = |project: &str, more: &str| format!("project = \"{project}\"\n{SCRIPTED}{more}");
    let allowing = config("a", &slow.egress_config());
    write_file(&place, "a/flowloom.toml", &allowing);
    write_file(&place, "a/flow.json", &two_calls_flow(&slow, "GET", "/slow"));
    interrupt_run(&place, &slow, "a");

    // Another project.
    write_file(&place, "b/flowloom.toml", &config("b", &slow.egress_config()));
    serve_once(&place, "b", &[]);
    let none = run_in(&place, "b", &["--data-dir", "../data", "show", "last"]);
    assert!(stderr_text(&none).contains("error[FL1203]: there are no runs yet"), "{}", stderr_text(&none));
    for command in ["resume", "retry"] {
        let elsewhere = run_in(&place, "b", &["--data-dir", "../data", command, &find_last_run(&place)]);
        assert!(stderr_text(&elsewhere).contains("error[FL1210]"), "{command}: {}", stderr_text(&elsewhere));
    }
    let shown = describe_last_run(&place, "b");
    assert!(shown.contains("interrupted") && shown.contains("belongs to the project a"), "{shown}");

    // The same project, under a configuration that would refuse the second call.
    write_file(&place, "a/flowloom.toml", &config("a", ""));
    serve_once(&place, "a", &[]);
    let shown = describe_last_run(&place, "a");
    assert!(shown.contains("interrupted") && shown.contains("the configuration has changed"), "{shown}");
    assert!(shown.contains("(egress)"), "{shown}");

    // A change that cannot alter the result.
    slow.release_slow();
    write_file(&place, "a/flowloom.toml", &format!("{allowing}[retention]\nfailed = \"30d\"\n"));
    let before = slow.request_count("/slow");
    let all = ["serve", ".", "--bind", "127.0.0.1:0", "--data-dir", "../data"];
    let _server = RunningServer::spawn_command(build_project_command(&place, "a", &all));
    slow.wait_for_requests("/slow", before + 1);
}

/// An answer that reaches a server with another configuration is stored, and does not continue the run under it.
#[test]
fn an_answer_waits_for_a_server_with_the_configuration_of_the_start() {
    let (place, world) = (two_projects(), TestServer::start());
    let call = json!({"url": format!("http://{}/second", world.address)}).to_string();
    let step = |name: &str, function: &str, prompt: &str| json!({"name": name, "functionId": function, "mode": "sequential", "errorMode": "fail", "promptTemplate": prompt});
    let steps = [step("q", "human::ask", "Which?"), step("f", "tool::http_request", &call)];
    let ask = json!({"id": "ask", "name": "ask", "description": "d", "steps": steps});
    write_file(&place, "a/ask.json", &ask.to_string());
    let serve = |egress: &str| {
        write_file(&place, "a/flowloom.toml", &format!("recovery_interval_ms = 50\n{SCRIPTED}{egress}"));
        let all = ["serve", ".", "--bind", "127.0.0.1:0", "--data-dir", "../data"];
        RunningServer::spawn_command(build_project_command(&place, "a", &all))
    };
    let asked = serve(&world.egress_config()).post("/api/v1/runs?wait=30", &json!({"workflow": "ask"})).json();
    let run = asked["run_id"].as_str().expect("an id").to_owned();
    let answered = serve("").post(&format!("/api/v1/runs/{run}/answer?wait=0.5"), &json!({"value": "this"}));
    assert_eq!((answered.status, &answered.json()["status"]), (202, &json!("interrupted")), "{answered:?}");
    let shown = describe_last_run(&place, "a");
    assert!(shown.contains("FL1212") && shown.contains("the commands that were sent to it are stored"), "{shown}");
    let interruption = answered.json()["interruption"].to_string();
    assert!(interruption.contains("FL1212") && interruption.contains("(egress)"), "{answered:?}");
    assert_eq!(world.request_count("/second"), 0);
    let server = serve(&world.egress_config());
    let ended = server.follow_to_end(&run);
    assert_eq!(world.request_count("/second"), 1, "{ended}");
    assert_eq!(server.get(&format!("/api/v1/runs/{run}")).json().get("interruption"), None);
}

#[test]
fn the_operator_may_accept_another_configuration() {
    let (place, slow) = (two_projects(), TestServer::start());
    write_file(&place, "a/flowloom.toml", &format!("{SCRIPTED}{}", slow.egress_config()));
    write_file(&place, "a/flow.json", &two_calls_flow(&slow, "GET", "/slow"));
    interrupt_run(&place, &slow, "a");
    slow.release_slow();
    let more = format!("[egress]\nallow = [\"{}\", \"10.1.2.3:80\"]\n", slow.address);
    write_file(&place, "a/flowloom.toml", &format!("{SCRIPTED}{more}"));
    serve_once(&place, "a", &[]);
    assert!(describe_last_run(&place, "a").contains("interrupted"));
    let before = slow.request_count("/slow");
    let all = ["serve", ".", "--bind", "127.0.0.1:0", "--data-dir", "../data", "--accept-config-change"];
    let _server = RunningServer::spawn_command(build_project_command(&place, "a", &all));
    slow.wait_for_requests("/slow", before + 1);
}

#[test]
fn a_new_project_runs_at_once() {
    let place = two_projects();
    let created = stdout_text(&run_in(&place, ".", &["init", "new"]));
    assert!(created.contains("created new/flowloom.toml"), "{created}");
    assert!(stdout_text(&run_in(&place, "new", &["check", "."])).contains("describe.json (flow): ok"));
    let run = run_in(&place, "new", &["run", "describe", "-i", "topic=tides", "--model", "scripted:echo"]);
    assert!(stdout_text(&run).contains("tides"));
    let again = run_in(&place, ".", &["init", "new"]);
    assert_eq!(exit_code(&again), 0, "nothing differs: {}", stderr_text(&again));
    write_file(&place, "new/describe.json", "{}");
    let again = run_in(&place, ".", &["init", "new"]);
    assert!(stderr_text(&again).contains("new/describe.json already exist"), "{}", stderr_text(&again));
}

#[test]
fn a_project_starts_with_any_definition() {
    let place = two_projects();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    for (file, id) in [
        ("markdown/review.mdx", "review"),
        ("graph/helpdesk.json", "helpdesk"),
        ("steps/refine.json", "refine"),
        ("flow/summarize-page.json", "summarize-page"),
    ] {
        let from = examples.join(file).display().to_string();
        let created = stdout_text(&run_in(&place, ".", &["init", id, "--from", &from]));
        assert!(created.contains(&format!("created {id}/{id}.")), "{created}");
        let listed = stdout_text(&run_in(&place, id, &["list"]));
        assert!(listed.contains(&format!("✓ {id}")), "{listed}");
    }
}

#[test]
fn a_folder_is_listed_and_checked() {
    let place = two_projects();
    write_file(&place, "a/broken.json", "{\"steps\": [");
    write_file(&place, "a/data.json", "{\"wind\": 3}");
    write_file(&place, "a/README.md", "# Not a workflow\n");
    let listed = stdout_text(&run_in(&place, "a", &["list"]));
    assert!(listed.contains("✗ broken") && listed.contains("✓ flows.greet") && !listed.contains("README"), "{listed}");
    let checked = run_in(&place, "a", &["check", "."]);
    assert_eq!(exit_code(&checked), 2);
    let (report, notes) = (String::from_utf8_lossy(&checked.stdout).into_owned(), stderr_text(&checked));
    assert!(report.contains("flows/greet.json (flow): ok") && report.contains("broken.json"), "{report}");
    assert!(notes.contains("not workflows: ") && notes.contains("data.json"), "{notes}");
    let misspelt = run_in(&place, "a", &["run", "gret"]);
    assert!(stderr_text(&misspelt).contains("there is no file or workflow gret"), "{}", stderr_text(&misspelt));
}

#[test]
fn commands_find_a_workflow_by_its_name() {
    let place = two_projects();
    let graph = json!({"id": "desk", "name": "Desk", "entrypointNodeId": "n", "edges": [],
        "nodes": [{"id": "n", "nodeType": "AGENT", "nodeName": "Desk", "agentId": "a"}],
        "agents": [{"id": "a", "systemPrompt": "Help."}]});
    write_file(&place, "a/desk.json", &graph.to_string());
    write_file(&place, "a/flows/wish.json", &prompt_flow("a").replace("Greet", "Wish"));
    for (arguments, expected) in [
        (&["graph", "greet"][..], "greeting"),
        (&["check", "greet", "flows.wish"], "flows/wish.json (flow): ok"),
        (&["check"], "desk.json (graph): ok"),
        (&["plan", "greet", "--as", "flow"], "model calls"),
        (&["convert", "greet", "--to", "steps"], "Greet {{"),
        (&["chat", "desk", "--message", "Hello"], "Hello"),
        (&["agent", "desk", "--message", "Hello"], "Hello"),
        (&["schedule", "add", "greet", "--cron", "0 6 * * *"], "greet"),
    ] {
        let shown = stdout_text(&run_in(&place, "a", arguments));
        assert!(shown.contains(expected), "{arguments:?}: {shown}");
    }
    let hook = run_in(&place, "a", &["hooks", "add", "wish"]);
    assert!(stderr_text(&hook).contains("starts wish"), "{}", stderr_text(&hook));
    let diff = run_in(&place, "a", &["diff", "greet", "flows.wish"]);
    assert!(
        exit_code(&diff) == 1 && String::from_utf8_lossy(&diff.stdout).contains("+ Wish"),
        "{}",
        stderr_text(&diff)
    );
    for arguments in
        [&["graph", "gret"][..], &["check", "gret"], &["chat", "gret"], &["convert", "gret", "--to", "steps"]]
    {
        let refused = run_in(&place, "a", arguments);
        assert_eq!(exit_code(&refused), 2, "{arguments:?}");
        assert!(stderr_text(&refused).contains("there is no file or workflow gret"), "{}", stderr_text(&refused));
    }
    let wrong = run_in(&place, "a", &["plan", "greet", "--as", "flwo"]);
    assert_eq!(exit_code(&wrong), 2, "{}", stderr_text(&wrong));
}

#[test]
fn a_definition_is_read_from_stdin() {
    let place = two_projects();
    for (command, expected) in [("check", "stdin.json (flow): ok"), ("run", "Greet you")] {
        let mut child = build_project_command(&place, "a", &[command, "-"])
            .stdin(std::fs::File::open(place.path("a/flows/greet.json")).expect("it opens"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let output = child.wait().and_then(|_| child.wait_with_output()).expect("it ends");
        assert!(stdout_text(&output).contains(expected), "{}", String::from_utf8_lossy(&output.stdout));
    }
}

#[test]
fn schedules_and_webhooks_belong_to_the_project_of_their_workflow() {
    let place = two_projects();
    for arguments in
        [&["schedule", "add", "a/flows/greet.json", "--cron", "0 6 * * *"][..], &["hooks", "add", "a/flows/greet.json"]]
    {
        stdout_text(&run_in(&place, ".", arguments));
        let listed = |folder: &str| stdout_text(&run_in(&place, folder, &[arguments[0], "list", "--json"]));
        assert!(listed("a").contains("greet"), "{}", listed("a"));
        assert!(!listed(".").contains("greet"), "{}", listed("."));
    }
}
