//! `conformance DIR…` judges the cases below some folders; `conformance --self-test DIR…` checks the judge itself.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::path::PathBuf;
use std::process::ExitCode;

use conformance::{TestCase, load_cases};

fn main() -> ExitCode {
    if let Some(exit) = flowloom_sandbox::worker_main(std::env::args_os()) {
        return exit;
    }
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let self_test = arguments.first().is_some_and(|first| first == "--self-test");
    if self_test {
        arguments.remove(0);
    }
    if arguments.is_empty() {
        eprintln!("usage: conformance [--self-test] DIR…");
        return ExitCode::from(2);
    }
    let folders: Vec<PathBuf> = arguments.into_iter().map(PathBuf::from).collect();
    match load_cases(&folders) {
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
        Ok(cases) if self_test => check_judge(&cases),
        Ok(cases) => judge_cases(&cases),
    }
}

fn judge_cases(cases: &[TestCase]) -> ExitCode {
    let mut failed = 0;
    for case in cases {
        let why = case.judge_case();
        if why.is_empty() {
            println!("ok {}", case.id);
        } else {
            failed += 1;
            println!("FAIL {}: {}", case.id, why.join("; "));
        }
    }
    println!("{} passed, {failed} failed", cases.len() - failed);
    ExitCode::from(u8::from(failed > 0))
}

fn check_judge(cases: &[TestCase]) -> ExitCode {
    let (mut total, mut missed) = (0, 0);
    for case in cases {
        let (count, unnoticed) = case.check_judge();
        total += count;
        missed += unnoticed.len();
        for path in unnoticed {
            println!("FAIL {}: a change of {path} was not noticed", case.id);
        }
    }
    println!("{} of {total} changes noticed", total - missed);
    ExitCode::from(u8::from(missed > 0))
}
