//! Ordinary use of JavaScript expressions.

mod support;

use flowloom_core::Code;
use flowloom_runtime::effects::CodeRunner as _;
use flowloom_sandbox::Sandbox;
use support::{context_of, evaluate_source, evaluate_with, script_request, test_config};

#[tokio::test]
async fn expressions_give_json() {
    let sandbox = Sandbox::new(test_config());
    for (source, expected) in [
        ("1 + 2", "3"),
        ("'a' + 'b' // a comment", "\"ab\""),
        ("{ a: [1, , null], b: undefined }", "{\"a\":[1,null,null]}"),
        ("undefined", "undefined"),
        ("() => 1", "undefined"),
        ("[() => 1]", "[null]"),
        (
            "[NaN, Infinity, -0, 1e21, 0.1 + 0.2, 2 ** 53 + 1]",
            "[null,null,0,1e+21,0.30000000000000004,9007199254740992]",
        ),
        ("NaN", "\"NaN\""),
        ("new Date()", "\"2023-11-14T22:13:20.000Z\""),
        ("[Date.now(), new Date(0).getTimezoneOffset(), new Date().constructor === Date]", "[1700000000000,0,true]"),
        (
            "[new Date(2020, 1, 3, 4), Date.UTC(1970, 0, 2), typeof Date()]",
            "[\"2020-02-03T04:00:00.000Z\",86400000,\"string\"]",
        ),
        ("[1, 2, 3].map((x) => x * 2).filter((x) => x > 2).join('-')", "\"4-6\""),
        ("`${[3, 1, 2].sort()}`", "\"1,2,3\""),
        ("/(\\d+)/.exec('a12')[1]", "\"12\""),
        ("JSON.parse('{\"b\":1,\"a\":[true]}')", "{\"b\":1,\"a\":[true]}"),
        ("[new Error('x').message, typeof dedent, typeof Math.random()]", "[\"x\",\"function\",\"number\"]"),
        ("'\\ud800'.length", "1"),
    ] {
        assert_eq!(evaluate_source(&sandbox, source).await.as_deref(), Ok(expected), "{source}");
    }
}

#[tokio::test]
async fn names_are_plain_names() {
    let sandbox = Sandbox::new(test_config());
    let names = [
        ("a", Some("{\"b\":[1,{\"c\":\"é\"}]}")),
        ("nothing", None),
        ("$", Some("1")),
        ("$own", Some("2")),
        ("Math", Some("\"mine\"")),
        ("__proto__", Some("{\"x\":1}")),
        ("constructor", Some("3")),
        ("this", Some("4")),
        ("undefined", Some("5")),
        ("big", Some("12345678901234567890")),
    ];
    for (source, expected) in [
        ("a.b[1].c", "\"é\""),
        ("[typeof nothing, nothing === undefined, undefined === void 0]", "[\"undefined\",true,true]"),
        ("$ + $own", "3"),
        ("Math", "\"mine\""),
        ("[__proto__, constructor, {}.x, typeof ({}).toString]", "[{\"x\":1},3,null,\"function\"]"),
        ("big", "12345678901234567000"),
    ] {
        assert_eq!(evaluate_with(&sandbox, source, &names).await.as_deref(), Ok(expected), "{source}");
    }
    let error = evaluate_source(&sandbox, "a").await.unwrap_err();
    assert_eq!((error.code, error.message.as_str()), (Code::ExpressionFailed, "ReferenceError: a is not defined"));
}

#[tokio::test]
async fn dedent_takes_the_common_indent() {
    let sandbox = Sandbox::new(test_config());
    for (source, expected) in [
        ("dedent`\n    one\n      two\n    three\n  `", "\"one\\n  two\\nthree\""),
        ("dedent('\\n  a\\n  b')", "\"a\\nb\""),
        ("dedent`\n  - ${'x\\ny'}\n  - ${1}`", "\"- x\\ny\\n- 1\""),
        ("dedent`\n  a\n    ${'x\\ny'}\n`", "\"a\\n  x\\n  y\""),
        ("dedent`plain`", "\"plain\""),
    ] {
        assert_eq!(evaluate_source(&sandbox, source).await.as_deref(), Ok(expected), "{source}");
    }
}

#[tokio::test]
async fn errors_name_what_was_thrown() {
    let sandbox = Sandbox::new(test_config());
    for (source, expected) in [
        ("nope.x", "ReferenceError: nope is not defined"),
        ("null.x", "TypeError: cannot read property 'x' of null"),
        ("(() => { throw 'text' })()", "text"),
        ("(() => { throw new Error('why') })()", "Error: why"),
        ("1 +", "SyntaxError: "),
        ("1n", "TypeError: "),
        ("(() => { const a = {}; a.a = a; return a })()", "TypeError: circular reference"),
    ] {
        let error = evaluate_source(&sandbox, source).await.unwrap_err();
        assert_eq!(error.code, Code::ExpressionFailed, "{source}");
        assert!(error.message.starts_with(expected), "{source}: {}", error.message);
    }
}

#[tokio::test]
async fn chance_and_time_are_given() {
    let sandbox = Sandbox::new(test_config());
    let context = context_of("local");
    let mut request = script_request("[Math.random(), Math.random()]", &[]);
    let first = sandbox.evaluate_script(&request, &context).await.unwrap();
    assert_eq!(sandbox.evaluate_script(&request, &context).await.unwrap(), first);
    request.seed = 8;
    assert_ne!(sandbox.evaluate_script(&request, &context).await.unwrap(), first);
    request.seed = 7 << 40;
    assert_ne!(sandbox.evaluate_script(&request, &context).await.unwrap(), first);
}

#[tokio::test]
async fn many_at_the_same_time_take_turns() {
    let sandbox = Sandbox::new(test_config());
    let sums = futures_util::future::join_all((0..200).map(|i| {
        let sandbox = &sandbox;
        async move { evaluate_source(sandbox, &format!("{i} * 2")).await.unwrap() }
    }));
    let expected: Vec<String> = (0..200).map(|i| (i * 2).to_string()).collect();
    assert_eq!(sums.await, expected);
}

#[tokio::test]
async fn without_a_worker_code_is_refused() {
    let sandbox = Sandbox::new(flowloom_sandbox::SandboxConfig { worker: "/nowhere/at/all".into(), ..test_config() });
    let error = evaluate_source(&sandbox, "1").await.unwrap_err();
    assert_eq!(error.code, Code::NoSandbox);
    assert!(error.message.contains("/nowhere/at/all"), "{}", error.message);
    assert!(sandbox.check_availability().await.script.is_err());
}
