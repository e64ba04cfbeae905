//! Runs the attacks of `tests/attacks` against the program: one test for each class, with the oracle of `oracle.rs`.

#[path = "../support/mod.rs"]
mod support;

mod client;
mod corpus;
mod listener;
mod obedient;
mod oracle;
mod points;
mod prompts;
mod python;
mod routes;
mod self_test;
mod ssrf;
mod world;

use corpus::{AttackRow, Outcome};
use points::{Observation, attack_point, values_with_input};
use test_postgres::TestDatabase;
use world::World;

/// Runs every case of a class. Reports all failures, with file and row.
fn run_class(name: &str) {
    run_on(&World::start(None, &[]), name);
}

fn run_on(world: &World, name: &str) {
    let file = corpus::read_file(name);
    let (mut count, mut failures) = (0, Vec::new());
    for (number, row) in file.rows.iter().enumerate() {
        for (index, input) in row.inputs.iter().enumerate() {
            for point in &row.points {
                count += 1;
                if let Err(why) = run_case(world, row, point, &input.to_text()) {
                    let shown: String = input.to_text().chars().take(120).collect();
                    failures.push(format!("{name}.json, row {number}, input {index} ({shown:?}) at {point}: {why}"));
                }
            }
        }
    }
    if let Err(why) = oracle::check_records(world) {
        failures.push(format!("{name}.json: {why}"));
    }
    assert!(failures.is_empty(), "{} of {count} attacks:\n{}", failures.len(), failures.join("\n"));
}

/// Runs one case: the attack, its outcome, and the oracle.
fn run_case(world: &World, row: &AttackRow, point: &str, input: &str) -> Result<(), String> {
    let input = corpus::fill_in(input, &world.values);
    let point = corpus::fill_in(point, &world.values);
    let seen = attack_point(world, &point, row, &input);
    oracle::check_world(world, &seen.text)?;
    check_outcome(world, &row.expect, &seen, &input)
}

/// Compares the observations with the expectation.
fn check_outcome(world: &World, expected: &Outcome, seen: &Observation, input: &str) -> Result<(), String> {
    let values = values_with_input(world, input);
    let is_any = |wanted: &[String], it: &str| wanted.iter().any(|one| corpus::fill_in(one, &values) == it);
    let run = seen.run.as_deref().unwrap_or("none");
    let checks = [
        expected.status.is_empty() || expected.status.contains(&seen.status),
        expected.code.is_empty() || expected.code.iter().any(|code| seen.codes.contains(code)),
        expected.run.is_empty() || is_any(&expected.run, run),
        expected.output.is_empty() || is_any(&expected.output, &seen.output),
        expected.responses.is_empty() || expected.responses.contains(&seen.responses),
        expected.exit.is_empty() || seen.exit.is_some_and(|code| expected.exit.contains(&code)),
        seen.text.contains(&corpus::fill_in(&expected.contains, &values)),
    ];
    if checks.iter().all(|holds| *holds) {
        return Ok(());
    }
    let text: String = seen.text.chars().take(600).collect();
    let Observation { status, codes, output, responses, exit, .. } = seen;
    let output: String = output.chars().take(200).collect();
    Err(format!(
        "status {status}, run {run}, codes {codes:?}, output {output:?}, {responses} responses, exit {exit:?}\n    {text}"
    ))
}

macro_rules! attack_classes {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            run_class(stringify!($name));
        })*

        /// The classes that a test runs on a server with SQLite.
        const CLASSES: &[&str] = &[$(stringify!($name)),*];
    };
}

attack_classes! {
    archives bombs definitions expressions framing headers ids json models naughty pathological python terminals uploads
}

/// The classes with tests of their own below.
const OTHER_CLASSES: [&str; 4] = ["routes", "sql", "ssrf", "prompts"];

#[test]
fn sql() {
    run_class("sql");
}

#[test]
fn sql_on_postgres() {
    let Some(database) = TestDatabase::create_database() else { return };
    run_on(&World::start(Some(&database.url), &[]), "sql");
}

#[test]
fn every_file_of_the_corpus_is_run() {
    let entries = std::fs::read_dir(corpus::corpus_folder()).expect("the corpus").flatten();
    let names = entries.filter_map(|entry| entry.file_name().to_str()?.strip_suffix(".json").map(str::to_owned));
    for name in names {
        assert!(CLASSES.contains(&name.as_str()) || OTHER_CLASSES.contains(&name.as_str()), "{name}.json has no test");
    }
}
