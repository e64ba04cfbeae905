//! Has the program linked small.

use std::process::Command;

fn main() {
    if supports_packed_relocations() {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// Whether the executable may pack its 107,000 relative relocations, which saves reading 2.5 MB at every start. The
/// dynamic loader must support this; glibc does since 2.36. Executables for other machines remain unchanged.
fn supports_packed_relocations() -> bool {
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|is| is == value);
    let is_own = std::env::var("HOST").is_ok_and(|host| is("TARGET", &host));
    if !is_own || !is("CARGO_CFG_TARGET_OS", "linux") || !is("CARGO_CFG_TARGET_ENV", "gnu") {
        return false;
    }
    let version = Command::new("getconf").arg("GNU_LIBC_VERSION").output();
    let version = version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let minor = version.trim().strip_prefix("glibc 2.").and_then(|minor| minor.parse::<u32>().ok());
    minor.is_some_and(|minor| minor >= 36)
}
