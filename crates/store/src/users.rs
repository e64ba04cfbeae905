//! Names of users that own shared and built-in objects.

pub use flowloom_runtime::journal::SHARED_USER;

/// User name of the built-in blocks. No user has a name with a control character.
pub const BUILTIN_USER: &str = "\u{1}brought";
