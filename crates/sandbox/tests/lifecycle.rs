//! Workers start, end, and are never left behind: dropped futures, killed parents, runs of different users.

mod support;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use flowloom_core::chat::Message;
use flowloom_core::effect::{GenerateReply, HttpReply, HttpRequest};
use flowloom_core::{Code, json};
use flowloom_runtime::effects::{CodeRunner as _, EffectFuture, SandboxHost};
use flowloom_sandbox::{PythonLimits, Sandbox, SandboxConfig};
use support::attack::{guarded_sandboxes, processes_with, wait_for_none};
use support::{AnsweringRun, context_of, execute_body, python_request, run_block, test_config};

/// A run that never answers, and notifies when it receives a request.
struct SilentRun(tokio::sync::Notify);

impl SandboxHost for SilentRun {
    fn send_http<'a>(&'a self, _request: HttpRequest) -> EffectFuture<'a, HttpReply> {
        self.0.notify_one();
        Box::pin(std::future::pending())
    }

    fn generate_reply<'a>(&'a self, _messages: Vec<Message>) -> EffectFuture<'a, GenerateReply> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn a_dropped_block_is_killed() {
    for guarded in guarded_sandboxes(|_| ()).await {
        let silent = SilentRun(tokio::sync::Notify::new());
        let request = python_request(&execute_body("httpx.get('http://a.test')\nreturn {}"), "{}");
        let context = context_of("local");
        let mut running = guarded.sandbox.run_python(&request, &silent, &context);
        tokio::select! {
            done = &mut running => panic!("it waits for ever: {done:?}"),
            () = silent.0.notified() => {}
        }
        assert_eq!(processes_with(guarded.memory_bytes()).len(), 1);
        drop(running);
        guarded.wait_until_gone("a dropped block");
    }
}

#[tokio::test]
async fn waiting_for_the_run_is_not_the_blocks_time() {
    let python = PythonLimits { timeout: Duration::from_millis(100), warm: 0, ..PythonLimits::default() };
    let sandbox = Sandbox::new(SandboxConfig { python, ..test_config() });
    // Fifty answers of 5 ms each, one after another, take longer than the block may run.
    let source = execute_body("for i in range(50): httpx.get(f'http://a.test/{i}')\nreturn {'done': True}");
    let reply =
        sandbox.run_python(&python_request(&source, "{}"), &AnsweringRun::default(), &context_of("local")).await;
    assert_eq!(reply.map(|reply| json::write_json(&reply.output)).as_deref(), Ok("{\"done\":true}"));
}

#[tokio::test]
async fn a_block_asks_so_often_and_no_more() {
    let python = PythonLimits { requests: 10, warm: 0, ..PythonLimits::default() };
    let sandbox = Sandbox::new(SandboxConfig { python, ..test_config() });
    let error = run_block(&sandbox, &execute_body("while True: httpx.get('http://a.test')")).await.unwrap_err();
    assert_eq!(
        (error.code, error.message.as_str()),
        (Code::BlockLimit, "the block made more than 10 requests to its run")
    );
}

#[tokio::test]
async fn large_things_cross_both_ways_at_once() {
    let sandbox = Sandbox::new(test_config());
    let source = execute_body(
        "import asyncio\n\
         async def one(i):\n\
         \x20   async with httpx.AsyncClient() as client:\n\
         \x20       return len((await client.post(f'http://a.test/{i}', content='x' * (2 << 20))).text)\n\
         return {'sizes': min(await asyncio.gather(*[one(i) for i in range(8)])) > 2 << 20}",
    );
    assert_eq!(run_block(&sandbox, &source).await.as_deref(), Ok("{\"sizes\":true}"));
}

#[tokio::test]
async fn many_blocks_at_the_same_time() {
    let python = PythonLimits { blocks: 4, ..PythonLimits::default() };
    let sandbox = Sandbox::new(SandboxConfig { python, ..test_config() });
    let source = execute_body("import os\nreturn {'a': inputs}");
    let all = futures_util::future::join_all((0..20).map(|i| {
        let (sandbox, request) = (&sandbox, python_request(&source, &format!("{{\"i\":{i}}}")));
        async move {
            let reply =
                sandbox.run_python(&request, &AnsweringRun::default(), &context_of(&format!("owner {i}"))).await;
            json::write_json(&reply.unwrap().output)
        }
    }));
    let expected: Vec<String> = (0..20).map(|i| format!("{{\"a\":{{\"i\":{i}}}}}")).collect();
    assert_eq!(all.await, expected);
}

const CHILD_VARIABLE: &str = "SANDBOX_TEST_CHILD";

/// Not a test by itself: the process that the next test kills.
#[tokio::test]
async fn a_process_that_waits_for_ever() {
    let Some(bytes) = std::env::var(CHILD_VARIABLE).ok().and_then(|bytes| bytes.parse().ok()) else { return };
    let python = PythonLimits { memory_bytes: bytes, warm: 2, ..PythonLimits::default() };
    let sandbox = Sandbox::new(SandboxConfig { python, ..test_config() });
    run_block(&sandbox, &execute_body("return {}")).await.expect("an ordinary block");
    let silent = SilentRun(tokio::sync::Notify::new());
    let request = python_request(&execute_body("httpx.get('http://a.test')\nreturn {}"), "{}");
    let context = context_of("local");
    let running = sandbox.run_python(&request, &silent, &context);
    tokio::pin!(running);
    tokio::select! {
        _ = &mut running => {}
        () = silent.0.notified() => println!("\nit waits"),
    }
    let _ = running.await;
}

#[tokio::test]
async fn nothing_outlives_a_killed_parent() {
    if let Err(missing) = Sandbox::new(test_config()).check_availability().await.python {
        return support::skip_test(&missing);
    }
    let bytes = (600 << 20) + (u64::from(std::process::id()) << 12);
    let mut command = Command::new(std::env::current_exe().expect("this file"));
    command.args(["--exact", "a_process_that_waits_for_ever", "--nocapture"]).env(CHILD_VARIABLE, bytes.to_string());
    let mut parent = command.stdout(Stdio::piped()).spawn().expect("it starts");
    let said = BufReader::new(parent.stdout.take().expect("a pipe")).lines();
    assert!(said.map_while(Result::ok).any(|line| line == "it waits"), "the block did not start");
    assert!(!processes_with(bytes).is_empty());
    parent.kill().expect("it is killed");
    parent.wait().expect("it is gone");
    wait_for_none(bytes, "after the parent was killed");
}
