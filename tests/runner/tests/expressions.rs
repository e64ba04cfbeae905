//! Native evaluation gives the same values as JavaScript: random expressions, each once as it is and once inside a
//! function, which only the sandbox can call.

use std::fmt::Write as _;
use std::sync::Arc;

use conformance::{block_on, code, effects};
use flowloom_core::hash::Hash;
use flowloom_core::value::Value;
use flowloom_formats::{Sources, compile, present};
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::Effects;
use flowloom_runtime::memory::MemoryJournal;
use flowloom_runtime::{Engine, Start};
use proptest::prelude::*;

/// Constants of every type for the expressions.
const DATA: &str = "---
data:
  n: 7
  f: -2.5
  z: 0
  s: abc
  e: ''
  d: '12'
  t: true
  u: null
  l: [1, two, [3], null]
  m: {a: {b: 2}, c: [4], 'x y': 5}
---

";

/// Operands of the expressions.
const LEAVES: &[&str] = &[
    "n",
    "f",
    "z",
    "s",
    "e",
    "d",
    "t",
    "u",
    "l",
    "m",
    "1",
    "-0",
    "0.1",
    "1e21",
    "1e-7",
    "'7'",
    "''",
    "'a b'",
    "true",
    "false",
    "null",
    "undefined",
    "NaN",
    "Infinity",
    "[]",
    "({})",
    "l[1]",
    "l[9]",
    "m.a.b",
    "m.c[0]",
    "m['x y']",
    "m.none",
    "s.length",
    "l.length",
    "u?.a",
    "m?.a?.b",
    "s[0]",
    "l['0']",
];

const OPERATORS: &[&str] =
    &["+", "-", "*", "/", "%", "**", "==", "!=", "===", "!==", "<", "<=", ">", ">=", "&", "|", "^", "<<", ">>", ">>>"];

fn leaf() -> impl Strategy<Value = String> {
    prop::sample::select(LEAVES).prop_map(str::to_owned)
}

fn expression() -> impl Strategy<Value = String> {
    leaf().prop_recursive(4, 24, 3, move |inner| {
        prop_oneof![
            (inner.clone(), prop::sample::select(OPERATORS), inner.clone())
                .prop_map(|(left, operator, right)| format!("(({left}) {operator} ({right}))")),
            (inner.clone(), prop::sample::select(&["&&", "||", "??"][..]), inner.clone())
                .prop_map(|(left, operator, right)| format!("(({left}) {operator} ({right}))")),
            (prop::sample::select(&["!", "-", "+", "~", "typeof ", "void "][..]), inner.clone())
                .prop_map(|(operator, value)| format!("({operator}({value}))")),
            (inner.clone(), inner.clone(), inner.clone()).prop_map(|(a, b, c)| format!("(({a}) ? ({b}) : ({c}))")),
            prop::collection::vec(inner.clone(), 0..3).prop_map(|items| format!("[{}]", items.join(", "))),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({{p: {a}, 'q r': {b}}})")),
            (inner.clone(), inner).prop_map(|(a, b)| format!("`x${{{a}}}y${{{b}}}`")),
        ]
    })
}

/// The text that expressions evaluate to, or the message of the first one that fails.
fn evaluated(expressions: &[String]) -> Result<String, String> {
    let mut text = DATA.to_owned();
    for expression in expressions {
        let _ = write!(text, "= {{{expression}}}\n\n");
    }
    let files = [("x.mdx".to_owned(), text.into_bytes())].into();
    let compiled = compile(
        "x.mdx",
        &Sources { files, source_bytes: 1 << 20, ..Sources::default() },
        Some(flowloom_formats::markdown::FORMAT),
    );
    let plan = Arc::new(compiled.plan.ok_or_else(|| format!("{:?}", compiled.diagnostics))?);
    let effects = Effects { code: code(), clock: Arc::new(SystemClock), ..effects(&Value::Null) };
    let engine = Engine::new(effects, Arc::new(MemoryJournal::new()));
    let start = Start {
        plan: plan.clone(),
        bundle: Hash::of(b"expressions"),
        inputs: Value::map::<&str>([]),
        owner: "local".into(),
        agent: None,
        limits: plan.limits.clone(),
        depth: 0,
        workflow: None,
        keep: None,
        id: None,
    };
    let outcome = block_on(async { Ok::<_, String>(engine.start(start).map_err(|e| e.message)?.drive().await) })?;
    match &outcome.state.error {
        Some(error) => Err(error.message.clone()),
        None => Ok(present(&plan, &outcome.state, &outcome.env).output.as_str().unwrap_or_default().to_owned()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn native_and_sandbox_agree(expressions in prop::collection::vec(expression(), 12)) {
        let scripts: Vec<String> = expressions.iter().map(|one| format!("(() => {one})()")).collect();
        let (native, script) = (evaluated(&expressions), evaluated(&scripts));
        match (native, script) {
            (Ok(native), Ok(script)) => prop_assert_eq!(native, script),
            // Both fail, but each names its own expression.
            (native, script) => prop_assert_eq!(native.is_err(), script.is_err(), "{:?} {:?}", native, script),
        }
    }
}
