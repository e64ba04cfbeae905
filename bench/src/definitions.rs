//! Definitions of the workloads: small files of our formats, repeated to any length and compiled like a user's.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use flowloom_core::hash::Hash;
use flowloom_core::plan::Plan;
use flowloom_formats::{Sources, compile};
use serde_json::Value;

use crate::Failure;
use crate::world::FUNCTIONS;

/// A compiled definition.
pub(crate) struct Definition {
    pub(crate) plan: Arc<Plan>,
    pub(crate) text: String,
    pub(crate) bundle: Hash,
}

/// The folder of the checked-in definitions.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("definitions")
}

/// Compiles `name` with its repeated step `n` times; a text is repeated as a whole. The compiled text is written to
/// `target/bench/` for inspection.
pub(crate) fn load(name: &str, n: usize) -> Result<Definition, Failure> {
    let source = std::fs::read_to_string(folder().join(name))?;
    let text = match name.ends_with(".mdx") {
        true => (1..=n).map(|i| source.replace("@i", &i.to_string())).collect(),
        false => grow(&source, n)?,
    };
    let target = crate::target().join("bench");
    std::fs::create_dir_all(&target)?;
    std::fs::write(target.join(format!("{n}-{name}")), &text)?;
    let sources = Sources {
        files: [(name.to_owned(), text.clone().into_bytes())].into(),
        functions: FUNCTIONS.map(str::to_owned).to_vec(),
        configured: FUNCTIONS.map(str::to_owned).to_vec(),
        source_bytes: 4 << 20,
        ..Sources::default()
    };
    let compiled = compile(name, &sources, None);
    let Some(plan) = compiled.plan else {
        let problems: Vec<_> = compiled.diagnostics.iter().map(|problem| problem.message.as_str()).collect();
        return Err(format!("{name} does not compile: {}", problems.join("; ")).into());
    };
    Ok(Definition { plan: Arc::new(plan), bundle: Hash::of(text.as_bytes()), text })
}

/// Repeats every step that contains `@i`: `@i` becomes 1, 2, 3, … and `@p` the number before it.
fn grow(source: &str, n: usize) -> Result<String, Failure> {
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
