//! Every target with some inputs, and a target that breaks its promise.

use std::path::Path;

use fuzz::{FuzzLimit, Mutator, TARGETS, Target, fuzz_target, load_seeds};

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
        let outcome = fuzz_target(target, &mut Mutator::new(seeds.clone(), 7), FuzzLimit::Inputs(INPUTS));
        let shown = outcome.map_err(|finding| (finding.message, String::from_utf8_lossy(&finding.input).into_owned()));
        assert_eq!(shown, Ok(INPUTS), "{}", target.name);
    }
}

#[test]
fn a_broken_promise_is_found() {
    let refuse_braces = |input: &[u8]| assert!(!input.windows(2).any(|pair| pair == b"{{"), "two braces");
    let target = Target { name: "planted", run: refuse_braces };
    let found = fuzz_target(&target, &mut Mutator::new(vec![b"{ x }".to_vec()], 7), FuzzLimit::Inputs(10_000));
    assert!(found.is_err_and(|finding| finding.message == "two braces"));
}
