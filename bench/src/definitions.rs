//! Definitions of the workloads: small files of our formats, repeated to any length and compiled like a user's.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use flowloom_core::hash::Hash;
use flowloom_core::plan::Plan;
use flowloom_formats::{Sources, compile};
use serde_json::Value;

use crate::BenchError;
use crate::world::FUNCTION_IDS;

/// A compiled definition.
pub(crate) struct CompiledDefinition {
    pub(crate) plan: Arc<Plan>,
    pub(crate) text: String,
    pub(crate) bundle: Hash,
}

/// The folder of the checked-in definitions.
pub(crate) fn definitions_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("definitions")
}

/// Compiles `name` with its repeated step `n` times; a text is repeated as a whole. The compiled text is written to
/// `target/bench/` for inspection.
pub(crate) fn load_definition(name: &str, n: usize) -> Result<CompiledDefinition, BenchError> {
    let source = std::fs::read_to_string(definitions_folder().join(name))?;
    let text = match name.ends_with(".mdx") {
        true => (1..=n).map(|i| source.replace("@i", &i.to_string())).collect(),
        false => repeat_steps(&source, n)?,
    };
    let target = crate::build_folder().join("bench");
    std::fs::create_dir_all(&target)?;
    std::fs::write(target.join(format!("{n}-{name}")), &text)?;
    let sources = Sources {
        files: [(name.to_owned(), text.clone().into_bytes())].into(),
        functions: FUNCTION_IDS.map(str::to_owned).to_vec(),
        configured: FUNCTION_IDS.map(str::to_owned).to_vec(),
        source_bytes: 4 << 20,
        ..Sources::default()
    };
    let compiled = compile(name, &sources, None);
    let Some(plan) = compiled.plan else {
        let problems: Vec<_> = compiled.diagnostics.iter().map(|problem| problem.message.as_str()).collect();
        return Err(format!("{name} does not compile: {}", problems.join("; ")).into());
    };
    Ok(CompiledDefinition { plan: Arc::new(plan), bundle: Hash::of_bytes(text.as_bytes()), text })
}

/// Repeats every step that contains `@i`: `@i` becomes 1, 2, 3, … and `@p` the number before it.
fn repeat_steps(source: &str, n: usize) -> Result<String, BenchError> {
    let mut definition: Value = serde_json::from_str(source)?;
    let steps = definition.get_mut("steps").and_then(Value::as_array_mut).ok_or("the definition has no steps")?;
    let mut grown = Vec::new();
    for step in steps.drain(..) {
        let text = step.to_string();
        if !text.contains("@i") {
            grown.push(step);
            continue;
        }
        for i in 1..=n {
            grown.push(serde_json::from_str(&text.replace("@i", &i.to_string()).replace("@p", &(i - 1).to_string()))?);
        }
    }
    *steps = grown;
    Ok(definition.to_string())
}
