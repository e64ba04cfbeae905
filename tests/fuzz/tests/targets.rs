//! Every target with some inputs, and a target that breaks its promise.

use std::path::Path;

use fuzz::{FuzzLimit, Mutator, TARGETS, Target, fuzz_target, load_seeds, replay_findings, save_finding, seeds_of};

/// Inputs for each target.
const INPUTS: u64 = 1500;

fn seeds() -> Vec<Vec<u8>> {
    let seeds = load_seeds(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
    assert!(seeds.len() > 1000, "{} seeds", seeds.len());
    seeds
}

#[test]
fn no_target_breaks_its_promise() {
    let seeds = seeds();
    for target in &TARGETS {
        let outcome =
            fuzz_target(target, &mut Mutator::new(seeds_of(target, &seeds), 7), FuzzLimit::Inputs(INPUTS), |_| ());
        let shown = outcome.map_err(|finding| (finding.message, String::from_utf8_lossy(&finding.input).into_owned()));
        assert_eq!(shown, Ok(INPUTS), "{}", target.name);
    }
}

#[test]
fn what_once_broke_a_promise_no_longer_does() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for target in &TARGETS {
        let replayed = replay_findings(target, &repository);
        let shown = replayed.map_err(|finding| (finding.message, String::from_utf8_lossy(&finding.input).into_owned()));
        assert!(shown.is_ok(), "{}: {shown:?}", target.name);
    }
}

#[test]
fn a_broken_promise_is_found() {
    let refuse_braces = |input: &[u8]| assert!(!input.windows(2).any(|pair| pair == b"{{"), "two braces");
    let target = Target { name: "planted", run: refuse_braces, seeds: &[] };
    let found = fuzz_target(&target, &mut Mutator::new(vec![b"{ x }".to_vec()], 7), FuzzLimit::Inputs(10_000), |_| ());
    let finding = found.expect_err("a finding");
    assert_eq!(finding.message, "two braces");
    // Saved findings are replayed.
    let repository = tempfile::tempdir().expect("a folder");
    assert_eq!(replay_findings(&target, repository.path()).expect("nothing"), 0);
    save_finding(&target, repository.path(), &finding).expect("saved");
    assert!(replay_findings(&target, repository.path()).is_err_and(|again| again.input == finding.input));
}
