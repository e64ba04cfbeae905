//! The driver of libFuzzer for the target that `FUZZ_TARGET` names. `scripts/fuzz.py` builds and starts it.
#![no_main]
// The macro defines the function that libFuzzer calls.
#![allow(unsafe_code)]

use std::sync::LazyLock;

use flowloom_formats::markdown::is_parser_panic;
use fuzz::{TARGETS, Target};
use libfuzzer_sys::fuzz_target;

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    // libFuzzer ends the process at each panic. Those of the parser are caught and reported.
    let end_process = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !is_parser_panic(panic) {
            end_process(panic);
        }
    }));
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    TARGETS.iter().find(|target| target.name == name).expect("FUZZ_TARGET is the name of a target")
});

fuzz_target!(|input: &[u8]| (TARGET.run)(input));
