//! Attacks by expressions, X-01 to X-11: whatever an expression tries, it reaches nothing but its names, its worker
//! ends at the time limit, and the next expression is served.

mod support;

use std::time::{Duration, Instant};

use flowloom_core::Code;
use flowloom_core::error::StepFailure;
use flowloom_runtime::effects::CodeRunner as _;
use flowloom_sandbox::{Sandbox, SandboxConfig, ScriptLimits};
use support::attack::again_as_an_ordinary_user;
use support::{context_of, evaluate_source, evaluate_with, script_request, test_config};

/// The default limits, whatever the other tests allow.
fn limited_config() -> SandboxConfig {
    SandboxConfig { script: ScriptLimits::default(), ..test_config() }
}

/// Evaluates an attack and checks that it learned nothing, and that the next expression is served.
async fn attack_with(sandbox: &Sandbox, source: &str) -> Result<String, StepFailure> {
    let since = Instant::now();
    let outcome = evaluate_source(sandbox, source).await;
    // The limit is 100 ms; the rest allows for a busy machine.
    assert!(since.elapsed() < Duration::from_secs(2), "{source}: {:?}", since.elapsed());
    let printed = outcome.clone().unwrap_or_else(|error| error.message);
    for (key, value) in std::env::vars().filter(|(_, value)| value.len() > 8) {
        assert!(!printed.contains(&value), "${key} was read: {source}\n{printed}");
    }
    assert_eq!(evaluate_source(sandbox, "1 + 1").await.as_deref(), Ok("2"), "after {source}");
    outcome
}

async fn expect_failures(sandbox: &Sandbox, sources: &[&str], expected: &str) {
    for source in sources {
        let error = attack_with(sandbox, source).await.expect_err(source);
        assert_eq!(error.code, Code::ExpressionFailed, "{source}: {}", error.message);
        assert!(error.message.contains(expected), "{source}: {}", error.message);
    }
}

async fn expect_stopped(sandbox: &Sandbox, sources: &[&str]) {
    for source in sources {
        let error = attack_with(sandbox, source).await.expect_err(source);
        assert_eq!(error.code, Code::ScriptLimit, "{source}: {}", error.message);
    }
}

#[test]
fn as_an_ordinary_user() {
    again_as_an_ordinary_user();
}

#[tokio::test]
async fn x01_constructors_of_functions() {
    let sandbox = Sandbox::new(limited_config());
    let sources = [
        "(() => {}).constructor('return this')()",
        "[].map.constructor('return 1')()",
        "(async () => {}).constructor('return 1')()",
        "(function* () {}).constructor('yield 1')()",
        "(async function* () {}).constructor('yield 1')()",
        "new (class extends (() => {}).constructor {})('return 1')",
        "Object.getPrototypeOf(() => {}).constructor('return 1')",
        "(() => {}).constructor.constructor('return 1')()",
        "Math.max.constructor.call(null, 'return 1')()",
        "dedent.constructor('return process')()",
    ];
    expect_failures(&sandbox, &sources, "code from text is not evaluated").await;
    expect_failures(&sandbox, &["eval('1')", "Function('return 1')()", "new Function('1')"], "is not defined").await;
    let renamed = "(Object.defineProperty(Object.getPrototypeOf(() => 1), 'constructor', { value: 1 }), 1)";
    expect_failures(&sandbox, &[renamed], "TypeError").await;
}

#[tokio::test]
async fn x02_x03_prototypes_and_odd_syntax() {
    let sandbox = Sandbox::new(limited_config());
    for source in [
        "({})['__pro' + 'to__']",
        "({})[['__proto__']]",
        "({})[`constr${'uct'}or`]",
        "(({ constructor: c }) => c)({})",
        "(class Z extends (0, Object) {}).name",
        "((x) => { label: for (;;) { break label } return x })(1)",
        "(function () { return new.target })()",
        "dedent`${[].constructor.constructor}`",
        "import('fs')",
        "(async () => 1)()",
        "{ get a() { return globalThis } }",
    ] {
        // It may run: there is nothing it could reach.
        let _ = attack_with(&sandbox, source).await;
    }
    expect_failures(
        &sandbox,
        &["(() => { with ({}) {} })()", "import.meta", "a; b", "return 1", "", "}"],
        "SyntaxError",
    )
    .await;
}

#[tokio::test]
async fn x04_code_in_values() {
    let sandbox = Sandbox::new(limited_config());
    for (source, expected) in [
        ("({ toJSON() { return Object.keys(globalThis) } })", "[]"),
        ("({ get a() { return typeof process } })", "{\"a\":\"undefined\"}"),
        ("({ [Symbol.toPrimitive]: 1 })", "ReferenceError: Symbol is not defined"),
        ("(Error.prepareStackTrace = () => { throw 1 }, new Error('x').stack, 1)", "1"),
        ("(Object.prototype.toJSON = () => 'mine', { a: 1 })", "\"mine\""),
        ("(JSON.stringify = () => '{\"forged\":1}', { a: 1 })", "{\"a\":1}"),
    ] {
        let outcome = attack_with(&sandbox, source).await.unwrap_or_else(|error| error.message);
        assert_eq!(outcome, expected, "{source}");
    }
    expect_stopped(&sandbox, &["({ toJSON() { for (;;); } })", "({ get a() { while (true); } })"]).await;
}

#[tokio::test]
async fn x05_loops() {
    let sandbox = Sandbox::new(limited_config());
    let sources = [
        "(() => { while (true) {} })()",
        "(() => { for (;;) { try { for (;;) {} } catch (e) {} } })()",
        "(() => { const f = () => { try { f() } finally { f() } }; f() })()",
        "[1].map(function f() { for (;;); })",
        "(function* () { for (;;) yield 1 })().next().value + [...(function* () { for (;;) yield 1 })()]",
    ];
    expect_stopped(&sandbox, &sources).await;
    let sources = ["(() => { const f = () => f(); f() })()", "(() => { const a = () => b(), b = () => a(); a() })()"];
    expect_failures(&sandbox, &sources, "RangeError").await;
    let error = evaluate_source(&sandbox, "(() => { for (;;); })()").await.unwrap_err();
    assert_eq!(error.message, "the expression was stopped: it ran longer than 100 ms: (() => { for (;;); })()");
}

#[tokio::test]
async fn x06_bombs() {
    let sandbox = Sandbox::new(limited_config());
    for source in [
        "Array(2 ** 28).join('x')",
        "'x'.repeat(2 ** 30)",
        "'a'.padStart(2 ** 29)",
        "Array(1e7).fill(0).sort(() => Math.random() - .5)",
        "[...'x'.repeat(1e8)]",
        "new Array(2 ** 32 - 1).join('')",
        "(() => { const a = []; a.length = 2 ** 32 - 1; a.reverse(); return 1 })()",
        "(() => { const s = 'a'.repeat(1e6); for (let i = 0; i < 1e6; i++) s.indexOf('b') })()",
        "(() => { let s = 'x'; for (;;) s += s })()",
        "(() => { const a = []; for (;;) a.push({ a }) })()",
        "Array.from({ length: 1e9 })",
        "(() => { let a = {}; for (let i = 0; i < 1e6; i++) a = { a }; return a })()",
        "Object.assign({}, 'x'.repeat(1e7))",
        "JSON.parse('['.repeat(1e6))",
        "JSON.stringify('x'.repeat(2e7))",
        "'x'.repeat(9e6)",
        "String.raw({ raw: { length: 2 ** 53 - 1 } })",
    ] {
        attack_with(&sandbox, source).await.expect_err(source);
    }
}

#[tokio::test]
async fn x07_patterns() {
    let sandbox = Sandbox::new(limited_config());
    let sources = [
        "/^(a+)+$/.test('a'.repeat(40) + 'b')",
        "/(.*)*x/.test('a'.repeat(1e4))",
        "/(a|a)*$/.test('a'.repeat(50) + 'b')",
    ];
    for source in sources {
        let outcome = attack_with(&sandbox, source).await;
        // An engine may optimise one of them and return a value.
        let stopped = outcome.as_ref().is_err_and(|error| error.code == Code::ScriptLimit);
        assert!(stopped || outcome.as_deref() == Ok("false"), "{source}: {outcome:?}");
    }
}

#[tokio::test]
async fn x08_numbers() {
    let sandbox = Sandbox::new(limited_config());
    for (source, expected) in [
        ("1e400", "\"Infinity\""),
        ("-0", "0"),
        ("0.1 + 0.2", "0.30000000000000004"),
        ("2 ** 53 + 1", "9007199254740992"),
        ("[1e21, 1e-7, 123456789012345680000, 5e-324]", "[1e+21,1e-7,123456789012345680000,5e-324]"),
        ("0x10 + 0b11 + 0o7", "26"),
    ] {
        assert_eq!(attack_with(&sandbox, source).await.as_deref(), Ok(expected), "{source}");
    }
    attack_with(&sandbox, "(2n ** (2n ** 24n)).toString()").await.unwrap_err();
    attack_with(&sandbox, "Number(2n ** (2n ** 40n))").await.unwrap_err();
}

#[tokio::test]
async fn x09_pollution() {
    let sandbox = Sandbox::new(limited_config());
    for (source, expected) in [
        ("JSON.parse('{\"__proto__\":{\"admin\":1}}').admin", "undefined"),
        ("Object.assign({}, JSON.parse('{\"__proto__\":{\"admin\":1}}')).admin && ({}).admin", "undefined"),
        ("({ ...JSON.parse('{\"__proto__\":{\"admin\":1}}') })", "{\"__proto__\":{\"admin\":1}}"),
        ("({}).admin", "undefined"),
    ] {
        assert_eq!(attack_with(&sandbox, source).await.as_deref(), Ok(expected), "{source}");
    }
    let names =
        ["__proto__", "constructor", "hasOwnProperty", "toString", "$", "this", "prototype", "globalThis", "Object"];
    let entries = names.map(|name| (name, Some("{\"admin\":1}")));
    for name in names.iter().filter(|name| **name != "this") {
        let value = evaluate_with(&sandbox, &format!("[{name}, ({{}}).admin]"), &entries).await;
        assert_eq!(value.as_deref(), Ok("[{\"admin\":1},null]"), "{name}");
    }
}

#[tokio::test]
async fn x10_nothing_stays_behind() {
    let sandbox = Sandbox::new(limited_config());
    for source in [
        "(Array.prototype.map = () => 'mine', 1)",
        "(Object.prototype.admin = 1, 1)",
        "(globalThis.left = 1, 1)",
        "(Math.max = () => 'mine', Date.now = () => 0, 1)",
        "(Object.freeze(Object.prototype), String.prototype.trim = null, 1)",
    ] {
        assert_eq!(attack_with(&sandbox, source).await.as_deref(), Ok("1"), "{source}");
        for user in ["local", "other"] {
            let probe = script_request(
                "[[1].map((x) => x)[0], typeof ({}).admin, typeof globalThis.left, Math.max(1, 2), Date.now(), ' a'.trim()]",
                &[],
            );
            let value = sandbox.evaluate_script(&probe, &context_of(user)).await.unwrap().unwrap();
            let expected = "[1,\"undefined\",\"undefined\",2,1700000000000,\"a\"]";
            assert_eq!(flowloom_core::json::write_json(&value), expected, "{source}");
        }
    }
}

#[tokio::test]
async fn x11_hosts() {
    let sandbox = Sandbox::new(limited_config());
    let names = [
        "process",
        "require",
        "module",
        "fetch",
        "XMLHttpRequest",
        "console",
        "setTimeout",
        "queueMicrotask",
        "print",
        "std",
        "os",
        "scriptArgs",
        "Deno",
        "Bun",
        "window",
        "global",
        "WebAssembly",
        "SharedArrayBuffer",
        "Atomics",
        "Worker",
        "Promise",
        "Proxy",
        "Reflect",
        "performance",
        "navigator",
        "gc",
        "__loadScript",
        "Function",
        "eval",
    ];
    for name in names {
        let error = attack_with(&sandbox, &format!("{name}.env")).await.expect_err(name);
        assert_eq!(error.message, format!("ReferenceError: {name} is not defined"));
    }
    let globals = attack_with(&sandbox, "Object.getOwnPropertyNames(globalThis).sort().join(' ')").await.unwrap();
    let expected = "Array Boolean Error Infinity JSON Math NaN Number Object RegExp String globalThis undefined";
    assert_eq!(globals, format!("\"{expected}\""));
    assert_eq!(attack_with(&sandbox, "globalThis").await.as_deref(), Ok("{}"));
}
