//! Checks that this processor supports the instructions the program was compiled for. Candle selects its SIMD code at
//! compile time.

/// Fails if the program was compiled for instructions that this processor lacks; it would crash at the first of them.
/// Call it first in `main`.
pub fn check_processor() -> Result<(), String> {
    let missing = missing_features();
    if missing.is_empty() {
        return Ok(());
    }
    Err(format!(
        "this program was built for processors with {}, which this one lacks; build it on this machine (cargo build \
         --release), or portably: RUSTFLAGS=\"-C target-cpu=x86-64-v2\" cargo build --release",
        missing.join(", ")
    ))
}

/// A hint if the program was compiled without instructions that this processor has and that speed up the local model.
pub fn processor_hint() -> Option<String> {
    (has_avx2() && !cfg!(target_feature = "avx2")).then(|| {
        "this program was built without AVX2, so the local model is much slower than it could be; build it with \
        RUSTFLAGS=\"-C target-cpu=native\" or \"-C target-cpu=x86-64-v3\""
            .to_owned()
    })
}

#[cfg(target_arch = "x86_64")]
fn missing_features() -> Vec<&'static str> {
    let needed = [
        ("sse4.2", cfg!(target_feature = "sse4.2"), is_x86_feature_detected!("sse4.2")),
        ("avx", cfg!(target_feature = "avx"), is_x86_feature_detected!("avx")),
        ("avx2", cfg!(target_feature = "avx2"), is_x86_feature_detected!("avx2")),
        ("fma", cfg!(target_feature = "fma"), is_x86_feature_detected!("fma")),
        ("f16c", cfg!(target_feature = "f16c"), is_x86_feature_detected!("f16c")),
        ("bmi2", cfg!(target_feature = "bmi2"), is_x86_feature_detected!("bmi2")),
        ("avx512f", cfg!(target_feature = "avx512f"), is_x86_feature_detected!("avx512f")),
        ("avx512bw", cfg!(target_feature = "avx512bw"), is_x86_feature_detected!("avx512bw")),
        ("avx512vl", cfg!(target_feature = "avx512vl"), is_x86_feature_detected!("avx512vl")),
        ("avx512vnni", cfg!(target_feature = "avx512vnni"), is_x86_feature_detected!("avx512vnni")),
    ];
    needed.iter().filter(|(_, compiled, present)| *compiled && !present).map(|(name, ..)| *name).collect()
}

#[cfg(not(target_arch = "x86_64"))]
fn missing_features() -> Vec<&'static str> {
    Vec::new()
}

#[cfg(target_arch = "x86_64")]
fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2")
}

#[cfg(not(target_arch = "x86_64"))]
fn has_avx2() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_that_builds_can_run() {
        assert_eq!(check_processor(), Ok(()));
        assert_eq!(processor_hint().is_some(), has_avx2() && !cfg!(target_feature = "avx2"));
    }
}
