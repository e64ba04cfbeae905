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
use rustix::thread::{CapabilitySet, remove_capability_from_bounding_set};
use support::attack::{again_as_an_ordinary_user, guarded_sandboxes, processes_with, wait_for_none};
use support::{AnsweringRun, SilentRun, context_of, execute_body, python_request, run_block, test_config};

#[test]
fn as_an_ordinary_user() {
    again_as_an_ordinary_user();
}

/// As in a container whose root may not mount, but may create user namespaces.
#[test]
fn as_root_with_user_namespaces() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    // Capabilities belong to a thread, and to the processes that it starts.
    let started = std::thread::spawn(|| {
        remove_capability_from_bounding_set(CapabilitySet::SYS_ADMIN).expect("root may do less");
        let mut command = Command::new(std::env::current_exe().expect("this file"));
        command.args(["--exact", "each_block_has_its_own_user_and_is_the_first_victim"]).output()
    });
    let output = started.join().expect("a thread").expect("the test starts");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && printed.contains("1 passed"), "{printed}");
}

#[tokio::test]
async fn a_dropped_block_is_killed() {
    for guarded in guarded_sandboxes(|_| ()).await {
        let silent = SilentRun::default();
        let request = python_request(&execute_body("httpx.get('http://a.test')\nreturn {}"), "{}");
        let context = context_of("local");
        let mut running = guarded.sandbox.run_python(&request, &silent, &context);
        tokio::select! {
            done = &mut running => panic!("it waits for ever: {done:?}"),
            () = silent.asked.notified() => {}
        }
        assert_eq!(processes_with(guarded.memory_bytes()).len(), 1);
        drop(running);
        guarded.wait_until_gone("a dropped block");
    }
}

/// A run whose answers take longer than a block may run.
struct SlowRun(Duration);

impl SandboxHost for SlowRun {
    fn send_http<'a>(&'a self, _request: HttpRequest) -> EffectFuture<'a, HttpReply> {
        Box::pin(async move {
            tokio::time::sleep(self.0).await;
            Ok(HttpReply { status: 200, headers: Vec::new(), body: String::new() })
        })
    }

    fn generate_reply<'a>(&'a self, _messages: Vec<Message>) -> EffectFuture<'a, GenerateReply> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn waiting_for_the_run_is_not_the_blocks_time() {
    let limit = Duration::from_secs(1);
    let python = PythonLimits { timeout: limit, warm: 0, ..PythonLimits::default() };
    let sandbox = Sandbox::new(SandboxConfig { python, ..test_config() });
    let source = execute_body("httpx.get('http://a.test')\nreturn {'done': True}");
    let run = SlowRun(limit + Duration::from_millis(200));
    let reply = sandbox.run_python(&python_request(&source, "{}"), &run, &context_of("local")).await;
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

/// The numbers in a line of a process's status.
fn status_numbers(process: u32, name: &str) -> Vec<u32> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.split_whitespace().filter_map(|id| id.parse().ok()).collect()
}

/// The ids of the users of a process: real, effective, saved, and for files.
fn users_of(process: u32) -> Vec<u32> {
    status_numbers(process, "Uid:")
}

fn parent_of(process: u32) -> u32 {
    status_numbers(process, "PPid:").first().copied().unwrap_or_default()
}

fn all_processes() -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

#[tokio::test]
async fn each_block_has_its_own_user_and_is_the_first_victim() {
    for guarded in guarded_sandboxes(|_| ()).await {
        let silent = SilentRun::default();
        let request = python_request(&execute_body("httpx.get('http://a.test')\nreturn {}"), "{}");
        let context = context_of("local");
        let mut first = guarded.sandbox.run_python(&request, &silent, &context);
        let mut second = guarded.sandbox.run_python(&request, &silent, &context);
        for _ in 0..2 {
            tokio::select! {
                _ = &mut first => panic!("it waits for ever"),
                _ = &mut second => panic!("it waits for ever"),
                () = silent.asked.notified() => {}
            }
        }
        let blocks = processes_with(guarded.memory_bytes());
        assert_eq!(blocks.len(), 2);
        let users: Vec<_> = blocks.iter().map(|block| users_of(*block)).collect();
        let own = rustix::process::geteuid();
        if own.is_root() {
            assert!(users.iter().flatten().all(|id| *id >= 2_100_000_000), "{users:?}");
            assert_ne!(users[0], users[1]);
            // A launcher may have the user of its block.
            let launchers: Vec<_> = blocks.iter().map(|block| parent_of(*block)).collect();
            let is_other = |process: &u32| !blocks.contains(process) && !launchers.contains(process);
            for process in all_processes().into_iter().filter(is_other) {
                assert!(!users.contains(&users_of(process)), "process {process} has the user of a block");
            }
        } else {
            assert!(users.iter().flatten().all(|id| *id == own.as_raw()), "{users:?}");
        }
        for block in &blocks {
            let preference = std::fs::read_to_string(format!("/proc/{block}/oom_score_adj")).expect("a process");
            assert_eq!(preference.trim(), "1000");
        }
        drop((first, second));
        guarded.wait_until_gone("two dropped blocks");
    }
}

/// The workers of this process for expressions.
fn script_workers() -> Vec<u32> {
    let is_worker = |id: &u32| {
        let command = std::fs::read_to_string(format!("/proc/{id}/cmdline")).unwrap_or_default();
        command.contains("__worker-js") && parent_of(*id) == std::process::id()
    };
    all_processes().into_iter().filter(is_worker).collect()
}

#[tokio::test]
async fn each_worker_for_expressions_has_its_own_user_and_is_the_first_victim() {
    let sandbox = Sandbox::new(test_config());
    for user in ["ada", "bob"] {
        let request = support::script_request("1", &[]);
        sandbox.evaluate_script(&request, &context_of(user)).await.expect("an ordinary expression");
    }
    let workers = script_workers();
    assert!(workers.len() >= 2, "{workers:?}");
    let own = rustix::process::geteuid();
    let mut users: Vec<_> = workers.iter().flat_map(|worker| users_of(*worker)).collect();
    users.dedup();
    if own.is_root() {
        assert!(users.len() == workers.len() && users.iter().all(|id| *id >= 2_100_000_000), "{users:?}");
    } else {
        assert_eq!(users, [own.as_raw()]);
    }
    for worker in workers {
        let preference = std::fs::read_to_string(format!("/proc/{worker}/oom_score_adj")).expect("a process");
        assert_eq!(preference.trim(), "1000");
    }
}

#[tokio::test]
async fn workers_join_the_cgroup_or_run_nothing() {
    // A folder that looks like a cgroup: who writes 0 is the one who joins.
    let folder = tempfile::tempdir().expect("a folder");
    let members = folder.path().join("cgroup.procs");
    std::fs::write(&members, "").expect("a file");
    let python = PythonLimits { warm: 0, ..PythonLimits::default() };
    let config = SandboxConfig { python, cgroup: Some(folder.path().to_owned()), ..test_config() };
    let sandbox = Sandbox::new(config.clone());
    run_block(&sandbox, &execute_body("return {}")).await.expect("an ordinary block");
    assert_eq!(std::fs::read_to_string(&members).expect("a file"), "0");
    std::fs::write(&members, "").expect("a file");
    support::evaluate_source(&sandbox, "1").await.expect("an ordinary expression");
    assert_eq!(std::fs::read_to_string(&members).expect("a file"), "0");

    let missing = Sandbox::new(SandboxConfig { cgroup: Some(folder.path().join("none")), ..config });
    for error in [
        run_block(&missing, &execute_body("return {}")).await.unwrap_err(),
        support::evaluate_source(&missing, "1").await.unwrap_err(),
    ] {
        assert_eq!(error.code, Code::NoSandbox);
        assert!(error.message.contains("joining the cgroup") && error.message.contains("none"), "{}", error.message);
    }
}

const CHILD_VARIABLE: &str = "SANDBOX_TEST_CHILD";

/// Not a test by itself: the process that the next test kills.
#[tokio::test]
async fn a_process_that_waits_for_ever() {
    let Some(bytes) = std::env::var(CHILD_VARIABLE).ok().and_then(|bytes| bytes.parse().ok()) else { return };
    let python = PythonLimits { memory_bytes: bytes, warm: 2, ..PythonLimits::default() };
    let sandbox = Sandbox::new(SandboxConfig { python, ..test_config() });
    run_block(&sandbox, &execute_body("return {}")).await.expect("an ordinary block");
    let silent = SilentRun::default();
    let request = python_request(&execute_body("httpx.get('http://a.test')\nreturn {}"), "{}");
    let context = context_of("local");
    let running = sandbox.run_python(&request, &silent, &context);
    tokio::pin!(running);
    tokio::select! {
        _ = &mut running => {}
        () = silent.asked.notified() => println!("\nit waits"),
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
    let printed = BufReader::new(parent.stdout.take().expect("a pipe")).lines();
    assert!(printed.map_while(Result::ok).any(|line| line == "it waits"), "the block did not start");
    assert!(!processes_with(bytes).is_empty());
    parent.kill().expect("it is killed");
    parent.wait().expect("it is gone");
    wait_for_none(bytes, "after the parent was killed");
}
