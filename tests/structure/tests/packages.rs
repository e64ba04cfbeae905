//! The packages that the program and its tests are built of, against the rules of `deny.toml`: licences, sources, and
//! unwanted packages. `make deny` checks the same with cargo-deny, and the advisories; this needs nothing but Cargo.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The registry that packages may come from.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

fn repository_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// The rules of `deny.toml` that are checked here.
struct PackageRules {
    licenses: BTreeSet<String>,
    unwanted: BTreeSet<String>,
    allows_several_versions: bool,
}

impl PackageRules {
    fn load() -> PackageRules {
        let text = std::fs::read_to_string(repository_root().join("deny.toml")).expect("readable");
        let file: toml::Table = text.parse().expect("TOML");
        let texts = |value: &toml::Value| value.as_array().into_iter().flatten().cloned().collect::<Vec<_>>();
        let text_of = |value: &toml::Value| value.as_str().expect("a text").to_owned();
        let name_of = |entry: &toml::Value| text_of(entry.get("name").unwrap_or(entry));
        for (table, setting) in [("sources", "unknown-registry"), ("sources", "unknown-git"), ("bans", "wildcards")] {
            assert_eq!(file[table][setting].as_str(), Some("deny"), "[{table}] {setting}");
        }
        PackageRules {
            licenses: texts(&file["licenses"]["allow"]).iter().map(text_of).collect(),
            unwanted: texts(&file["bans"]["deny"]).iter().map(name_of).collect(),
            allows_several_versions: file["bans"]["multiple-versions"].as_str() == Some("allow"),
        }
    }

    /// The problems of packages, as Cargo describes them.
    fn list_problems(&self, packages: &[Value]) -> Vec<String> {
        let mut problems = Vec::new();
        let mut versions = BTreeMap::<&str, BTreeSet<&str>>::new();
        for package in packages {
            let text = |field: &str| package[field].as_str();
            let (name, version) = (text("name").expect("a name"), text("version").expect("a version"));
            versions.entry(name).or_default().insert(version);
            match text("license").map(|license| (license, self.permits_license(license))) {
                Some((_, true)) => {}
                Some((license, false)) => problems.push(format!("{name} {version} has the licence {license}")),
                None => problems.push(format!("{name} {version} names no licence")),
            }
            if let Some(source) = text("source").filter(|source| *source != REGISTRY) {
                problems.push(format!("{name} {version} comes from {source}"));
            }
            if self.unwanted.contains(name) {
                problems.push(format!("{name} {version} must not come back"));
            }
            let dependencies = package["dependencies"].as_array().into_iter().flatten();
            let open = dependencies.filter(|used| used["req"] == "*" && used["path"].is_null());
            problems.extend(open.map(|used| format!("{name} takes every version of {}", used["name"])));
        }
        if !self.allows_several_versions {
            let several = versions.iter().filter(|(_, versions)| versions.len() > 1);
            problems.extend(several.map(|(name, versions)| format!("{name} has the versions {versions:?}")));
        }
        problems
    }

    /// Whether a licence expression can be fulfilled with the permitted licences.
    fn permits_license(&self, expression: &str) -> bool {
        // Old packages separate alternatives with a slash.
        let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
        let words: Vec<&str> = spaced.split_whitespace().collect();
        let mut rest = &words[..];
        let is_permitted = self.read_alternatives(&mut rest);
        assert!(rest.is_empty(), "{rest:?} is left of the licence {expression}");
        is_permitted
    }

    fn read_alternatives(&self, words: &mut &[&str]) -> bool {
        let mut is_permitted = self.read_conjunction(words);
        while skip_word(words, "OR") {
            is_permitted |= self.read_conjunction(words);
        }
        is_permitted
    }

    fn read_conjunction(&self, words: &mut &[&str]) -> bool {
        let mut is_permitted = self.read_license(words);
        while skip_word(words, "AND") {
            is_permitted &= self.read_license(words);
        }
        is_permitted
    }

    fn read_license(&self, words: &mut &[&str]) -> bool {
        if skip_word(words, "(") {
            let is_permitted = self.read_alternatives(words);
            assert!(skip_word(words, ")"), "{words:?} instead of a closing bracket");
            return is_permitted;
        }
        let (name, rest) = words.split_first().expect("a licence");
        *words = rest;
        let exception = if skip_word(words, "WITH") { words.split_first() } else { None };
        let Some((exception, rest)) = exception else { return self.licenses.contains(*name) };
        *words = rest;
        self.licenses.contains(&format!("{name} WITH {exception}"))
    }
}

fn skip_word(words: &mut &[&str], word: &str) -> bool {
    match words.split_first() {
        Some((first, rest)) if *first == word => {
            *words = rest;
            true
        }
        _ => false,
    }
}

/// All packages that are built on this platform.
fn list_packages() -> Vec<Value> {
    let version = Command::new("rustc").arg("-vV").output().expect("rustc runs").stdout;
    let version = String::from_utf8(version).expect("text");
    let platform = version.lines().find_map(|line| line.strip_prefix("host: ")).expect("a platform");
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--offline", "--locked", "--filter-platform", platform])
        .current_dir(repository_root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    metadata["packages"].as_array().expect("packages").clone()
}

#[test]
fn packages_follow_the_rules_of_deny_toml() {
    let packages = list_packages();
    assert!(packages.len() > 100, "{} packages", packages.len());
    let problems = PackageRules::load().list_problems(&packages);
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn packages_that_break_a_rule_are_found() {
    let rules = PackageRules::load();
    let package = |name: &str, license: Option<&str>, source: &str, req: &str| {
        serde_json::json!({"name": name, "version": "1.0.0", "license": license, "source": source,
            "dependencies": [{"name": "used", "req": req, "path": null}]})
    };
    let packages = [
        package("good", Some("MIT/Apache-2.0"), REGISTRY, "^1"),
        package("copyleft", Some("AGPL-3.0"), REGISTRY, "^1"),
        package("bare", None, REGISTRY, "^1"),
        package("elsewhere", Some("MIT"), "git+https://git.example/a", "^1"),
        package("openssl-sys", Some("MIT"), REGISTRY, "^1"),
        package("open", Some("MIT"), REGISTRY, "*"),
    ];
    let problems = rules.list_problems(&packages);
    let names: Vec<_> = problems.iter().filter_map(|problem| problem.split(' ').next()).collect();
    assert_eq!(names, ["copyleft", "bare", "elsewhere", "openssl-sys", "open"], "{problems:?}");
}

#[test]
fn licence_expressions_are_understood() {
    let rules = PackageRules::load();
    for permitted in [
        "MIT",
        "GPL-2.0 OR MIT",
        "Apache-2.0 / MIT",
        "ISC AND (GPL-2.0 OR MIT)",
        "Apache-2.0 WITH LLVM-exception",
        "(Apache-2.0 OR MIT) AND BSD-3-Clause",
    ] {
        assert!(rules.permits_license(permitted), "{permitted}");
    }
    for refused in ["GPL-2.0", "MIT AND GPL-2.0", "(MIT OR ISC) AND GPL-2.0", "GPL-2.0 WITH LLVM-exception"] {
        assert!(!rules.permits_license(refused), "{refused}");
    }
}
