//! Native evaluation gives the same values as JavaScript: random expressions, each once as it is and once inside a
//! function, which only the sandbox can call.

use std::fmt::Write as _;
use std::sync::Arc;

use conformance::{block_on, case_effects, shared_sandbox};
use flowloom_core::hash::Hash;
use flowloom_core::value::Value;
use flowloom_formats::{Sources, compile, render_result};
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::Effects;
use flowloom_runtime::memory::MemoryJournal;
use flowloom_runtime::{Engine, StartOptions};
use proptest::prelude::*;

/// Constants of every type for the expressions.
const DATA_FRONTMATTER: &str = "---
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
const LEAF_EXPRESSIONS: &[&str] = &[
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

const BINARY_OPERATORS: &[&str] =
    &["+", "-", "*", "/", "%", "**", "==", "!=", "===", "!==", "<", "<=", ">", ">=", "&", "|", "^", "<<", ">>", ">>>"];

fn leaf_expression() -> impl Strategy<Value = String> {
    prop::sample::select(LEAF_EXPRESSIONS).prop_map(str::to_owned)
}

fn any_expression() -> impl Strategy<Value = String> {
    leaf_expression().prop_recursive(4, 24, 3, move |inner| {
        prop_oneof![
            (inner.clone(), prop::sample::select(BINARY_OPERATORS), inner.clone())
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
fn evaluate_all(expressions: &[String]) -> Result<String, String> {
    let mut text = DATA_FRONTMATTER.to_owned();
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
    let effects = Effects { code: shared_sandbox(), clock: Arc::new(SystemClock), ..case_effects(&Value::Null) };
    let engine = Engine::new(effects, Arc::new(MemoryJournal::new()));
    let start = StartOptions::new(plan.clone(), Hash::of_bytes(b"expressions"), Value::map::<&str>([]), "local");
    let outcome = block_on(async {
        Ok::<_, String>(engine.start_run(start).map_err(|error| error.to_string())?.drive_to_end().await)
    })?;
    match &outcome.state.error {
        Some(error) => Err(error.message.clone()),
        None => Ok(render_result(&plan, &outcome.state, &outcome.env).output.as_str().unwrap_or_default().to_owned()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn native_and_sandbox_agree(expressions in prop::collection::vec(any_expression(), 12)) {
        let scripts: Vec<String> = expressions.iter().map(|one| format!("(() => {one})()")).collect();
        let (native, script) = (evaluate_all(&expressions), evaluate_all(&scripts));
        match (native, script) {
            (Ok(native), Ok(script)) => prop_assert_eq!(native, script),
            // Both fail, but each names its own expression.
            (native, script) => prop_assert_eq!(native.is_err(), script.is_err(), "{:?} {:?}", native, script),
        }
    }
}
