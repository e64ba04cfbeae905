//! Every target with its corpus and its findings, and a target that breaks its promise.

use std::path::Path;

use fuzz::{TARGETS, Target, replay_inputs};

#[test]
fn no_target_breaks_its_promise() {
    for target in &TARGETS {
        let replayed = replay_inputs(target, Path::new(env!("CARGO_MANIFEST_DIR")));
        assert!(replayed.as_ref().is_ok_and(|count| *count >= 10), "{}: {replayed:?}", target.name);
    }
}

#[test]
fn a_broken_promise_is_found() {
    let refuse_braces = |input: &[u8]| assert!(!input.windows(2).any(|pair| pair == b"{{"), "two braces");
    let target = Target { name: "planted", run: refuse_braces };
    let folder = tempfile::tempdir().expect("a folder");
    assert_eq!(replay_inputs(&target, folder.path()), Ok(0), "there are no inputs yet");
    for (kind, input) in [("corpus", "{ x }"), ("findings", "{{ x }}")] {
        let inputs = folder.path().join(kind).join("planted");
        std::fs::create_dir_all(&inputs).expect("created");
        std::fs::write(inputs.join("1"), input).expect("written");
    }
    let message = replay_inputs(&target, folder.path()).expect_err("a finding");
    assert!(message.ends_with("findings/planted/1: two braces"), "{message}");
}
