//! MCP servers: a small one in Python, started as a real process.

use std::collections::BTreeMap;
use std::path::Path as FilePath;
use std::sync::Arc;
use std::time::Duration;

use flowloom_core::code::Code;
use flowloom_core::effect::{CallRequest, Payload};
use flowloom_core::error::{Retry, StepFailure};
use flowloom_core::plan::EffectClass;
use flowloom_core::rich::Rich;
use flowloom_core::value::Value;
use flowloom_runtime::effects::Functions as _;

use super::{NoChildEffects, client_for, rich_text, test_context};
use crate::mcp::{McpConfig, McpServer};
use crate::{Capabilities, FunctionRegistry};

fn test_config() -> McpConfig {
    let script = FilePath::new(env!("CARGO_MANIFEST_DIR")).join("src/tests/data/mcp_server.py");
    let mut config = McpConfig::new("python3");
    config.args = vec![script.display().to_string()];
    config.env = vec![("PATH".to_owned(), std::env::var("PATH").expect("a path").as_str().into())];
    config
}

fn config_with_mode(mode: &str) -> McpConfig {
    let mut config = test_config();
    config.args.extend([String::new(), mode.to_owned()]);
    config
}

fn new_server(config: McpConfig) -> Arc<McpServer> {
    let secrets = BTreeMap::from([("KEY".to_owned(), "s3cret-value".to_owned())]);
    Arc::new(McpServer::new("test", config, Arc::new(secrets)))
}

fn to_payload<const N: usize>(arguments: [(&str, Value); N]) -> Payload {
    Payload::from_arguments(Value::map(arguments).as_map().cloned().unwrap_or_default())
}

async fn call_tool(server: &McpServer, tool: &str) -> Result<Value, StepFailure> {
    Ok(server.call_tool(tool, &to_payload([]), &test_context()).await?)
}

#[tokio::test]
async fn every_page_of_tools_is_listed_with_its_schemas() {
    let tools = new_server(test_config()).list_tools().await.expect("it starts");
    let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["add", "echo", "point", "environment", "pid", "spawn", "fail", "die", "hang", "cancelled"]);
    assert_eq!(tools[0].description, "Adds two numbers.");
    let required = tools[0].parameters.get("required").expect("a schema");
    assert_eq!(required, &Value::list(vec!["a".into(), "b".into()]));
}

#[tokio::test]
async fn text_is_text_and_structured_content_is_data() {
    let server = new_server(test_config());
    let sum = server.call_tool("add", &to_payload([("a", 2.into()), ("b", 3.into())]), &test_context()).await;
    assert_eq!(sum.expect("it answers"), "5".into());
    let point = call_tool(&server, "point").await.expect("it answers");
    assert_eq!(flowloom_core::render::to_json(&point), r#"{"x":1,"y":[2,3]}"#);
}

#[tokio::test]
async fn a_prompt_is_the_argument_that_the_tool_requires() {
    let registry = FunctionRegistry::new(client_for(&[])).with_server(new_server(test_config()));
    let payload = Payload { prompt: Some(Rich::from("hello")), ..Payload::from_arguments(Default::default()) };
    let request = CallRequest { function: "test::echo".into(), payload };
    assert_eq!(
        registry.call_function(&request, &test_context(), &NoChildEffects).await.expect("it answers"),
        "hello".into()
    );
}

#[tokio::test]
async fn a_tool_that_says_it_failed_fails_with_its_words() {
    let error = call_tool(&new_server(test_config()), "fail").await.expect_err("an error");
    assert_eq!((error.code, error.message.as_str()), (Code::FunctionFailed, "test::fail: the shelf is empty"));
}

#[tokio::test]
async fn a_server_that_dies_is_reported_and_started_again() {
    let server = new_server(test_config());
    let first = call_tool(&server, "pid").await.expect("it answers");
    assert_eq!(call_tool(&server, "pid").await.expect("it answers"), first, "one process for all calls");
    let error = call_tool(&server, "die").await.expect_err("an error");
    assert_eq!(error.code, Code::McpFailed);
    assert!(error.message.contains("ended during the call"), "{}", error.message);
    assert_eq!(error.retry, Retry::Never, "nobody knows whether it has acted");
    assert_ne!(call_tool(&server, "pid").await.expect("it answers again"), first);
}

#[tokio::test]
async fn a_call_that_hangs_is_given_up_and_the_server_is_notified() {
    let server = new_server(McpConfig {
        call_timeout: Duration::from_millis(300),
        effects: [("hang".to_owned(), EffectClass::AtLeastOnce)].into(),
        ..test_config()
    });
    let error = call_tool(&server, "hang").await.expect_err("an error");
    assert_eq!((error.code, error.retry), (Code::McpFailed, Retry::Maybe));
    assert!(error.message.contains("did not answer within 300 ms"), "{}", error.message);
    // The cancellation arrives before the next request, which uses the same pipe.
    while call_tool(&server, "cancelled").await.expect("it answers") != "1".into() {}
}

#[tokio::test]
async fn a_server_gets_only_the_environment_that_is_listed() {
    let mut config = test_config();
    config.env.push(("TOKEN".to_owned(), rich_text("${secret.KEY}")));
    let names = call_tool(&new_server(config), "environment").await.expect("it answers");
    let names: Vec<&str> = names.as_list().expect("a list").iter().filter_map(Value::as_str).collect();
    assert!(names.contains(&"TOKEN") && names.contains(&"PATH"), "{names:?}");
    // A shell that starts Python adds some variables of its own.
    let added = |name: &str| matches!(name, "PATH" | "PWD" | "SHLVL" | "_") || name.contains("PYENV");
    let ours: Vec<&&str> = names.iter().filter(|name| std::env::var_os(name).is_some() && !added(name)).collect();
    assert!(ours.is_empty(), "{ours:?}");
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some(), "there is something to keep back");
}

#[tokio::test]
async fn a_secret_that_a_server_sends_is_taken_out() {
    let server = new_server(test_config());
    let prompt =
        Payload { prompt: Some(rich_text("the key is ${secret.KEY}")), ..Payload::from_arguments(Default::default()) };
    let answer = server.call_tool("echo", &prompt, &test_context()).await.expect("it answers");
    assert_eq!(answer, "the key is ${secret.KEY}".into());
    let prompt = Payload { prompt: Some(rich_text("${secret.NONE}")), ..Payload::from_arguments(Default::default()) };
    assert_eq!(
        server.call_tool("echo", &prompt, &test_context()).await.expect_err("an error").code(),
        Code::SecretUnknown
    );
}

#[tokio::test]
async fn an_unknown_tool_names_the_nearest_and_only_allowed_ones_can_be_called() {
    let server = new_server(McpConfig { tools: Some(vec!["ad".to_owned(), "echo".to_owned()]), ..test_config() });
    let error = call_tool(&server, "ad").await.expect_err("an error");
    assert_eq!(error.code, Code::FunctionUnknown);
    assert!(error.message.ends_with("did you mean test::add?"), "{}", error.message);
    let error = call_tool(&server, "point").await.expect_err("an error");
    assert!(error.message.contains("is not in the configured list of tools"), "{}", error.message);
    assert_eq!(server.list_tools().await.expect("it starts").len(), 2);
}

#[tokio::test]
async fn a_server_that_cannot_start_says_why() {
    let missing = new_server(McpConfig::new("no-such-program-here")).list_tools().await.expect_err("an error");
    assert_eq!(missing.code(), Code::McpFailed);
    assert!(missing.to_string().contains("cannot start no-such-program-here"), "{missing}");
    let refused = new_server(config_with_mode("refuse")).list_tools().await.expect_err("an error");
    assert!(refused.to_string().contains("the MCP server test cannot be used"), "{refused}");
    let mute = McpConfig { start_timeout: Duration::from_millis(300), ..config_with_mode("mute") };
    let mute = new_server(mute).list_tools().await.expect_err("an error");
    assert!(mute.to_string().contains("was not ready within 300 ms"), "{mute}");
}

/// Whether a process runs; a zombie does not.
fn is_running(pid: &Value) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_str().expect("a number")));
    stat.is_ok_and(|stat| !stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with(['Z', 'X'])))
}

#[tokio::test]
async fn a_stopped_server_is_gone_with_all_that_it_started() {
    let server = new_server(test_config());
    let pid = call_tool(&server, "pid").await.expect("it answers");
    let child = call_tool(&server, "spawn").await.expect("it answers");
    assert!(is_running(&pid) && is_running(&child));
    server.stop_process();
    let gone = async {
        while is_running(&pid) || is_running(&child) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), gone).await.expect("both are killed");
    assert_ne!(call_tool(&server, "pid").await.expect("it is started again"), pid);
}

#[test]
fn effects_and_grants_are_those_of_the_functions() {
    let effects = BTreeMap::from([("echo".to_owned(), EffectClass::AtLeastOnce)]);
    let server = new_server(McpConfig { effects, ..test_config() });
    let grants = BTreeMap::from([("a".to_owned(), vec!["test::".to_owned()])]);
    let registry =
        FunctionRegistry::new(client_for(&[])).with_server(server).with_capabilities(Capabilities::new(grants));
    let class = |id: &str| registry.effect_class(&CallRequest { function: id.into(), payload: to_payload([]) });
    assert_eq!(class("test::add"), EffectClass::AtMostOnce);
    assert_eq!(class("test::echo"), EffectClass::AtLeastOnce);
    assert!(
        registry.check_permission("a", "test::add").is_ok() && registry.check_permission("b", "test::add").is_err()
    );
}
