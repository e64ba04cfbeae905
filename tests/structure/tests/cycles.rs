//! Import cycles, sizes of crates, and crate roots.
#![expect(clippy::print_stdout, reason = "the figures are printed")]

use structure::files::{list_crates, read_text, repository_root};
use structure::imports::Imports;
use structure::source::{blank_text, declared_names, read_product_files};

/// Files of an import cycle at most.
const MAX_CYCLE_FILES: usize = 12;

/// Share of the product's lines that one crate has at most, in percent.
const MAX_CRATE_PERCENT: usize = 16;

/// The syntax of values is one idea in several files: a value prints, parses and hashes itself.
const VALUE_FAMILY: &str = "crates/core/src/value.rs";

#[test]
fn import_cycles_are_short() {
    let mut problems = Vec::new();
    for name in list_crates() {
        for cycle in Imports::read(&name).find_cycles() {
            let is_value_family = cycle.iter().any(|file| file == VALUE_FAMILY);
            println!("{name}: a cycle of {} files: {}", cycle.len(), cycle.join(", "));
            if cycle.len() > MAX_CYCLE_FILES && !is_value_family {
                problems.push(format!("{name}: {} files import each other: {}", cycle.len(), cycle.join(", ")));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// The modules of values, which use each other.
const VALUE_MODULES: [&str; 4] = ["hash", "json", "render", "value"];

#[test]
fn the_modules_of_core_are_in_reading_order() {
    let code = blank_text(&read_text(&repository_root().join("crates/core/src/lib.rs")));
    let order = declared_names(&code, &["mod"]);
    let position = |name: &str| order.iter().position(|other| *other == name);
    let mut problems = Vec::new();
    for (module, used) in Imports::read("core").root_imports() {
        for other in used.iter().filter(|other| position(other) > position(&module)) {
            if ![&module, other].iter().all(|name| VALUE_MODULES.contains(&name.as_str())) {
                problems.push(format!("{module} uses {other}, which is declared after it"));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn no_crate_outgrows_the_others() {
    let count_lines =
        |folder: &str| -> usize { read_product_files(&[folder]).iter().map(|file| file.text.lines().count()).sum() };
    let lines: Vec<(String, usize)> =
        list_crates().into_iter().map(|name| (name.clone(), count_lines(&format!("crates/{name}")))).collect();
    let total: usize = lines.iter().map(|(_, count)| count).sum();
    for (name, count) in &lines {
        println!("{name}: {count} lines, {} %", count * 100 / total);
        assert!(count * 100 <= total * MAX_CRATE_PERCENT, "{name} has {count} of {total} lines; split it");
    }
}

#[test]
fn crate_roots_only_declare_and_reexport() {
    for name in list_crates() {
        let file = repository_root().join("crates").join(&name).join("src/lib.rs");
        if !file.is_file() {
            continue;
        }
        let code = blank_text(&read_text(&file));
        for word in ["fn ", "struct ", "enum ", "trait ", "impl ", "static ", "const ", "type "] {
            let declares = code.lines().any(|line| line.trim_start().trim_start_matches("pub ").starts_with(word));
            assert!(!declares, "crates/{name}/src/lib.rs declares a {}; move it to a file of its own", word.trim());
        }
    }
}
