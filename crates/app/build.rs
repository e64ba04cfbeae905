//! Puts the pages of `docs/errors` into the program, for `flowloom explain` and the server.

use std::fmt::Write as _;
use std::path::Path;

fn main() -> std::io::Result<()> {
    // Read when the script runs: a checkout that was moved may run a script that was compiled elsewhere.
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default();
    let folder = Path::new(&manifest).join("../../docs/errors");
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
