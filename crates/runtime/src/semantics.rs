//! The version of what the interpreter does with a plan.

/// Version of the interpreter's semantics. Runs created under another version are rejected.
pub const ENGINE_SEMANTICS: u32 = 1;

/// The version of the interpreter's semantics that this process has: [`ENGINE_SEMANTICS`], or the variable
/// `FLOWLOOM_ENGINE_SEMANTICS`, with which a test starts the program as another version.
#[cfg(debug_assertions)]
pub fn engine_semantics() -> u32 {
    use std::sync::LazyLock;

    #[allow(clippy::disallowed_methods, reason = "a test chooses the version of the program that it starts")]
    static SEMANTICS: LazyLock<u32> = LazyLock::new(|| {
        std::env::var("FLOWLOOM_ENGINE_SEMANTICS").ok().and_then(|text| text.parse().ok()).unwrap_or(ENGINE_SEMANTICS)
    });
    *SEMANTICS
}

/// The version of the interpreter's semantics that this process has.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn engine_semantics() -> u32 {
    ENGINE_SEMANTICS
}
