//! Names of users that own shared and built-in objects.

/// User name under which definitions are stored that every user may use.
pub const SHARED_USER: &str = "local";

/// User name of the built-in blocks. No user has a name with a control character.
pub const BUILTIN_USER: &str = "\u{1}brought";
