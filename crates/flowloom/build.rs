//! Embeds the pages of `docs/errors` for `flowloom explain`, and reduces the size of the executable.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

fn main() -> std::io::Result<()> {
    if knows_packed_relocations() {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
    put_pages()
}

/// Whether the executable may pack its 107,000 relative relocations, which saves reading 2.5 MB at every start. The
/// dynamic loader must support this; glibc does since 2.36. Executables for other machines remain unchanged.
fn knows_packed_relocations() -> bool {
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

fn put_pages() -> std::io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors");
    println!("cargo:rerun-if-changed={}", folder.display());
    let mut pages: Vec<_> = std::fs::read_dir(&folder)?.flatten().map(|entry| entry.path()).collect();
    pages.sort();
    let mut source = String::from("&[\n");
    for page in pages.iter().filter(|page| page.extension().is_some_and(|extension| extension == "md")) {
        let name = page.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        // Writing to a string cannot fail.
        let _ = writeln!(source, "    ({name:?}, include_str!({:?})),", page.canonicalize()?.display().to_string());
    }
    source.push(']');
    let out = std::env::var_os("OUT_DIR").unwrap_or_default();
    std::fs::write(Path::new(&out).join("errors.rs"), source)
}
