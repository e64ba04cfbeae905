//! The time to check a definition grows in proportion to its size, whatever is wrong with it.

// These tests measure the time of compiling.
#![allow(clippy::disallowed_methods)]

use std::time::{Duration, Instant};

use flowloom_formats::{Compiled, MAX_PROBLEMS, Sources, StopFlag, compile, find_format};

#[path = "hostile/definitions.rs"]
mod definitions;

use definitions::{HostileDefinition, hostile_definitions};

fn compile_text(definition: &HostileDefinition, text: String, stop: StopFlag) -> Compiled {
    let files = [("x.json".to_owned(), text.into_bytes())].into();
    let sources = Sources { files, source_bytes: 8 << 20, stop, ..Sources::default() };
    compile("x.json", &sources, definition.format.and_then(find_format))
}

/// The shortest of three times, which other work on the machine disturbs least.
fn measure_time(definition: &HostileDefinition, bytes: usize) -> Duration {
    let text = (definition.write)(bytes);
    let times = (0..3).map(|_| {
        let copy = text.clone();
        let start = Instant::now();
        drop(compile_text(definition, copy, StopFlag::default()));
        start.elapsed()
    });
    times.min().unwrap_or_default()
}

/// Sixteen times the size takes sixteen times the time in a linear compiler, and 256 times the time in a quadratic one.
#[test]
fn checking_takes_linear_time() {
    let too_slow: Vec<String> = hostile_definitions()
        .iter()
        .filter_map(|definition| {
            let (small, large) = (measure_time(definition, 32 << 10), measure_time(definition, 512 << 10));
            let ratio = large.as_secs_f64() / small.as_secs_f64().max(1e-4);
            (ratio > 64.0).then(|| format!("{}: {small:?}, then {large:?}", definition.name))
        })
        .collect();
    assert!(too_slow.is_empty(), "{too_slow:#?}");
}

#[test]
fn problems_and_their_texts_are_limited() {
    for definition in hostile_definitions() {
        let compiled = compile_text(&definition, (definition.write)(256 << 10), StopFlag::default());
        assert!(compiled.diagnostics.len() <= MAX_PROBLEMS, "{}", definition.name);
        let text: usize = compiled
            .diagnostics
            .iter()
            .map(|found| found.message.len() + found.help.as_ref().map_or(0, String::len))
            .sum();
        assert!(text < MAX_PROBLEMS * 5000, "{}: {text} bytes of text", definition.name);
    }
    let definition = &hostile_definitions()[0];
    let compiled = compile_text(definition, (definition.write)(30_000), StopFlag::default());
    assert_eq!(compiled.diagnostics.len(), MAX_PROBLEMS);
    assert!(compiled.omitted.errors > 9_000, "{:?}", compiled.omitted);
}

#[test]
fn a_stopped_compilation_has_no_plan() {
    let stop = StopFlag::default();
    stop.stop();
    for definition in hostile_definitions() {
        let compiled = compile_text(&definition, (definition.write)(64 << 10), stop.clone());
        assert!(compiled.plan.is_none());
        let codes: Vec<String> = compiled.diagnostics.iter().map(|found| found.code.to_string()).collect();
        assert!(codes.contains(&"FL0118".to_owned()), "{}: {codes:?}", definition.name);
    }
}
