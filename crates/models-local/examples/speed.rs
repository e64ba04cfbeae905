//! Measures the speed of a local model on this machine: `cargo run --release -p flowloom-models-local --example speed
//! [FILE]`.
#![allow(clippy::print_stdout)]

use flowloom_models::{ProcessEnvironment, cache_dir};
use flowloom_models_local::{check_processor, measure_speed, processor_hint};

fn main() -> Result<(), String> {
    check_processor()?;
    if let Some(hint) = processor_hint() {
        println!("{hint}");
    }
    let file = std::env::args()
        .nth(1)
        .map_or_else(|| cache_dir(&ProcessEnvironment).join("smollm2-135m.gguf"), std::path::PathBuf::from);
    println!("{}", file.display());
    for (words, answer) in [(40, 128), (400, 128), (1500, 64)] {
        let speed = measure_speed(&file, words, answer).map_err(|error| error.to_string())?;
        println!(
            "load {:.0} ms · prompt of {} tokens {:.0}/s · answer of {} tokens {:.1}/s",
            speed.load_ms, speed.prompt_tokens, speed.prompt_rate, speed.answer_tokens, speed.answer_rate
        );
    }
    Ok(())
}
