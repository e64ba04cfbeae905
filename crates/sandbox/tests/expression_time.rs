//! The time limit of an expression is CPU time, also within a built-in function. The only test of its file, because it
//! measures the CPU time of all child processes.

mod support;

use std::time::Duration;

use flowloom_core::Code;
use flowloom_sandbox::{Sandbox, SandboxConfig, ScriptLimits};
use support::{evaluate_source, test_config};

/// Loops within the engine's own functions, which do not look at its clock.
const NATIVE_LOOPS: [&str; 9] = [
    "Array(2 ** 28).join('x')",
    "String.raw({ raw: { length: 2 ** 53 - 1 } })",
    "'x'.repeat(1e6).replaceAll('x', 'y'.repeat(1000))",
    "new Array(2 ** 32 - 1).join('')",
    "(() => { const a = []; a.length = 2 ** 32 - 1; a.reverse(); return 1 })()",
    "('a'.repeat(1e6) + 'b').includes('a'.repeat(5e5) + 'c')",
    "('a'.repeat(1e6) + 'b').split('a'.repeat(5e5) + 'c')",
    "('a' + '\\u0301\\u0316'.repeat(1e5)).normalize('NFD').length",
    "(() => { const a = [1]; a[2 ** 31] = 2; a.sort(); return 1 })()",
];

/// CPU time of all child processes that have ended, in milliseconds.
fn children_cpu_ms() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("/proc");
    let fields: Vec<&str> = stat.rsplit(')').next().expect("fields").split_whitespace().collect();
    // In user mode and in the kernel, in ticks of 10 ms: fields 16 and 17 of the line, of which 2 are cut off.
    fields[13..15].iter().map(|ticks| ticks.parse::<u64>().expect("a number") * 10).sum()
}

/// Waits until no child is left, so that the time of each is counted.
async fn wait_for_children() {
    let tasks = || std::fs::read_dir("/proc/self/task").expect("/proc").flatten();
    let children = || tasks().filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    while children().any(|list| !list.trim().is_empty()) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn native_loops_end_at_twice_the_limit() {
    let config = SandboxConfig { script: ScriptLimits { workers: 1, ..ScriptLimits::default() }, ..test_config() };
    let sandbox = Sandbox::new(config);
    let limit_ms = ScriptLimits::default().timeout.as_millis() as u64;
    let mut stopped = 0;
    for source in NATIVE_LOOPS {
        let before = children_cpu_ms();
        match evaluate_source(&sandbox, source).await {
            // An engine may be quick at it, or the memory may be used up first.
            Ok(_) => {}
            Err(error) => {
                assert_eq!(error.code, Code::ScriptLimit, "{source}: {}", error.message);
                stopped += usize::from(error.message.contains("it ran longer than 100 ms"));
            }
        }
        assert_eq!(evaluate_source(&sandbox, "1 + 1").await.as_deref(), Ok("2"), "after {source}");
        // A string as deep as this ends the worker that is idle now, so that its time is counted, too.
        evaluate_source(&sandbox, "(() => { for (;;); })()").await.unwrap_err();
        wait_for_children().await;
        let used_ms = children_cpu_ms() - before;
        // Two expressions, two starts of a worker, and the ticks.
        assert!(used_ms <= 3 * limit_ms + 2 * 50, "{source}: {used_ms} ms");
    }
    assert!(stopped >= 3, "only {stopped} were stopped for their time");
}
