//! One user's code does not keep another user's code from running.

mod support;

use std::time::Duration;

use flowloom_core::effect::PythonRequest;
use flowloom_runtime::effects::CodeRunner as _;
use flowloom_sandbox::{PythonLimits, Sandbox, SandboxConfig, ScriptLimits};
use futures_util::future::join_all;
use support::{AnsweringRun, context_of, execute_body, python_request, script_request, test_config};

/// How often the busy user's code is queued.
const QUEUED: usize = 200;

/// How long the busy user's code runs before it is stopped; far longer than the other user's code needs.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

fn block_request(body: &str) -> PythonRequest {
    python_request(&execute_body(body), "{}")
}

#[tokio::test]
async fn a_block_does_not_wait_for_the_queue_of_another_user() {
    let python = PythonLimits { timeout: BUSY_TIMEOUT, blocks: 4, warm: 0, ..PythonLimits::default() };
    let sandbox = Sandbox::new(SandboxConfig { python, ..test_config() });
    let (endless, trivial) = (block_request("while True: pass"), block_request("return {'done': True}"));
    let (run, ann, bob) = (AnsweringRun::default(), context_of("ann"), context_of("bob"));
    let queue = join_all((0..QUEUED).map(|_| sandbox.run_python(&endless, &run, &ann)));
    tokio::select! {
        // In the order of the text: ann's blocks are queued first.
        biased;
        _ = queue => panic!("bob's block waits for all of ann's"),
        reply = sandbox.run_python(&trivial, &run, &bob) => assert!(reply.is_ok(), "{reply:?}"),
        () = tokio::time::sleep(BUSY_TIMEOUT * 5) => panic!("bob's block waits for many of ann's"),
    }
}

#[tokio::test]
async fn an_expression_does_not_wait_for_the_queue_of_another_user() {
    let script = ScriptLimits { workers: 1, ..test_config().script };
    let sandbox = Sandbox::new(SandboxConfig { script, ..test_config() });
    let (endless, trivial) = (script_request("(() => { while (true) {} })()", &[]), script_request("1 + 1", &[]));
    let (ann, bob) = (context_of("ann"), context_of("bob"));
    let queue = join_all((0..QUEUED).map(|_| sandbox.evaluate_script(&endless, &ann)));
    tokio::select! {
        biased;
        _ = queue => panic!("bob's expression waits for all of ann's"),
        value = sandbox.evaluate_script(&trivial, &bob) => assert!(value.is_ok(), "{value:?}"),
    }
}

#[tokio::test]
async fn a_block_that_waits_for_its_run_leaves_its_turn_to_others() {
    let python = PythonLimits { blocks: 1, warm: 0, ..PythonLimits::default() };
    let sandbox = Sandbox::new(SandboxConfig { python, ..test_config() });
    let (waiting, trivial) =
        (block_request("httpx.get('http://a.test')\nreturn {}"), block_request("return {'done': True}"));
    let (silent, run, ann) = (support::SilentRun::default(), AnsweringRun::default(), context_of("ann"));
    let mut first = sandbox.run_python(&waiting, &silent, &ann);
    tokio::select! {
        done = &mut first => panic!("it waits for ever: {done:?}"),
        () = silent.asked.notified() => {}
    }
    tokio::select! {
        done = first => panic!("it waits for ever: {done:?}"),
        reply = sandbox.run_python(&trivial, &run, &ann) => assert!(reply.is_ok(), "{reply:?}"),
    }
}

/// Starts a request that is never answered, and computes for ever.
const COMPUTE_WITH_REQUEST: &str = "import asyncio\nasyncio.create_task(httpx.AsyncClient().get('http://a.test'))\nawait asyncio.sleep(0)\n\
                                    await asyncio.sleep(0.01)\nwhile True: pass";

/// Counts time by user.
#[derive(Debug, Default)]
struct CountingMeter(std::sync::Mutex<Duration>);

impl flowloom_sandbox::SandboxMeter for CountingMeter {
    fn reserve_time<'a>(
        &'a self,
        _user: &'a str,
        _longest: Duration,
    ) -> flowloom_runtime::effects::BoxFuture<
        'a,
        Result<flowloom_sandbox::TimeReservation, flowloom_core::error::StepFailure>,
    > {
        Box::pin(std::future::ready(Ok(Box::new(()) as flowloom_sandbox::TimeReservation)))
    }

    fn add_time(&self, _user: &str, time: Duration) {
        *self.0.lock().expect("a lock") += time;
    }
}

fn limited(blocks: usize, timeout: Duration) -> SandboxConfig {
    SandboxConfig { python: PythonLimits { blocks, timeout, warm: 0, ..PythonLimits::default() }, ..test_config() }
}

#[tokio::test]
async fn an_open_request_does_not_give_a_block_more_time() {
    let meter = std::sync::Arc::new(CountingMeter::default());
    let config = SandboxConfig { meter: Some(meter.clone()), ..limited(1, Duration::from_secs(1)) };
    let sandbox = Sandbox::new(config);
    let (silent, ann) = (support::SilentRun::default(), context_of("ann"));
    let computing = block_request(COMPUTE_WITH_REQUEST);
    let done = tokio::time::timeout(Duration::from_secs(20), sandbox.run_python(&computing, &silent, &ann)).await;
    let failure = done.expect("it ends").expect_err("its time is over");
    assert_eq!(failure.code, flowloom_core::Code::BlockLimit, "{failure:?}");
    let counted = *meter.0.lock().expect("a lock");
    assert!(counted >= Duration::from_millis(900), "{counted:?}");
}

#[tokio::test]
async fn blocks_with_open_requests_compute_in_turns() {
    let sandbox = Sandbox::new(limited(1, Duration::from_secs(1)));
    let (silent, ann) = (support::SilentRun::default(), context_of("ann"));
    let computing = block_request(COMPUTE_WITH_REQUEST);
    let since = tokio::time::Instant::now();
    let all = join_all((0..3).map(|_| sandbox.run_python(&computing, &silent, &ann))).await;
    assert!(all.iter().all(Result::is_err), "{all:?}");
    assert!(since.elapsed() >= Duration::from_millis(2700), "{:?}: they computed at the same time", since.elapsed());
}

#[tokio::test]
async fn a_block_that_sleeps_leaves_its_turn_to_others() {
    for sleep in ["import time\ntime.sleep(60)\nreturn {}", "import asyncio\nawait asyncio.sleep(60)\nreturn {}"] {
        let sandbox = Sandbox::new(limited(1, BUSY_TIMEOUT * 6));
        let (sleeping, trivial) = (block_request(sleep), block_request("return {'done': True}"));
        let (run, ann, bob) = (AnsweringRun::default(), context_of("ann"), context_of("bob"));
        tokio::select! {
            biased;
            done = sandbox.run_python(&sleeping, &run, &ann) => panic!("it sleeps for long: {done:?}"),
            reply = sandbox.run_python(&trivial, &run, &bob) => assert!(reply.is_ok(), "{reply:?}"),
            () = tokio::time::sleep(BUSY_TIMEOUT * 2) => panic!("{sleep}: it keeps its turn"),
        }
    }
}
