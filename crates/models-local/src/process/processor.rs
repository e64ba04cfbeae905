//! llama.cpp is compiled for one kind of processor, other than the rest of the program, which runs on any.

/// Fails if this processor lacks the instructions that llama.cpp was compiled for; a model process would crash at the
/// first of them.
pub fn check_processor() -> Result<(), String> {
    let missing = missing_features();
    if missing.is_empty() {
        return Ok(());
    }
    Err(format!("local language models need a processor with {}, which this one lacks", missing.join(", ")))
}

#[cfg(target_arch = "x86_64")]
fn missing_features() -> Vec<&'static str> {
    let needed = [
        ("SSE4.2", is_x86_feature_detected!("sse4.2")),
        ("AVX2", is_x86_feature_detected!("avx2")),
        ("FMA", is_x86_feature_detected!("fma")),
        ("F16C", is_x86_feature_detected!("f16c")),
        ("BMI2", is_x86_feature_detected!("bmi2")),
    ];
    needed.iter().filter(|(_, present)| !present).map(|(name, _)| *name).collect()
}

#[cfg(not(target_arch = "x86_64"))]
fn missing_features() -> Vec<&'static str> {
    Vec::new()
}
