//! The language server with clients that people use: pygls and Neovim. `scripts/fetch-clients.sh` and
//! `scripts/fetch-neovim.sh` install them. Without them, the tests print SKIP, unless FLOWLOOM_REQUIRE_CLIENTS is set, as in
//! `make test`.

#![allow(clippy::print_stderr)]

mod support;

use std::path::PathBuf;
use std::process::Command;

use support::Workspace;
use support::clients::{find_clients, repository_root, run_successfully};

const PROGRAM: &str = env!("CARGO_BIN_EXE_flowloom");
const ECHO_CONFIG: &str = "default_model = \"scripted:echo\"\n";

/// The version of `scripts/fetch-neovim.sh`.
const NEOVIM_VERSION: &str = "0.7.2-7";

/// A flow with a misspelt key.
const FLOW: &str = r#"{
  "name": "weather",
  "steps": [
    {"type": "start", "config": {"variables": [{"name": "city", "value": "Oslo"}]}},
    {"type": "llmInstruction", "config": {"instruction": "Weather of ${city}", "resultVariabl": "report"}}
  ]
}
"#;

#[test]
fn pygls_edits_definitions() {
    let Some(clients) = find_clients("lsp") else { return };
    let place = Workspace::new(ECHO_CONFIG);
    let mut python = Command::new(clients.join("python/bin/python"));
    python.arg("-B").arg(repository_root().join("tests/clients/lsp/check.py")).arg(PROGRAM).arg(place.path("."));
    let seen = run_successfully(python.env("FLOWLOOM_CACHE", place.path("cache")));
    insta::assert_snapshot!(seen);
}

#[test]
fn neovim_edits_a_definition() {
    let Some(mut neovim) = find_neovim() else { return };
    let place = Workspace::new(ECHO_CONFIG);
    place.write("weather.json", FLOW);
    let config = std::fs::read_to_string(repository_root().join("editors/neovim/flowloom.lua")).expect("UTF-8");
    std::fs::create_dir_all(place.path("runtime/lua")).expect("created");
    place.write("runtime/lua/flowloom.lua", &config);
    let script = repository_root().join("tests/clients/lsp/check.lua").canonicalize().expect("the script");
    neovim.args(["--headless", "--clean", "-c"]).arg(format!("set runtimepath^={}", place.path("runtime").display()));
    neovim.arg("-c").arg(format!("luafile {}", script.display())).current_dir(place.path("."));
    for variable in ["XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"] {
        neovim.env(variable, place.path("editor"));
    }
    neovim.env("FLOWLOOM", PROGRAM).env("FLOWLOOM_CACHE", place.path("cache"));
    insta::assert_snapshot!(run_successfully(&mut neovim));
}

/// Neovim: that of `scripts/fetch-neovim.sh`, or an installed one. If there is none, prints SKIP, or panics if
/// FLOWLOOM_REQUIRE_CLIENTS is set.
fn find_neovim() -> Option<Command> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    let cache = variable("FLOWLOOM_CACHE").or_else(|| variable("XDG_CACHE_HOME").map(|cache| cache.join("flowloom")));
    let cache = cache.or_else(|| variable("HOME").map(|home| home.join(".cache/flowloom")))?;
    let root = cache.join("neovim").join(NEOVIM_VERSION).join("usr");
    if root.join("bin/nvim").exists() {
        let mut neovim = Command::new(root.join("bin/nvim"));
        neovim.env("LD_LIBRARY_PATH", root.join("lib/x86_64-linux-gnu"));
        neovim.env("VIMRUNTIME", root.join("share/nvim/runtime"));
        neovim.env("LUA_CPATH", root.join("lib/x86_64-linux-gnu/lua/5.1/?.so"));
        return Some(neovim);
    }
    if Command::new("nvim").arg("--version").output().is_ok_and(|output| output.status.success()) {
        return Some(Command::new("nvim"));
    }
    assert!(std::env::var_os("FLOWLOOM_REQUIRE_CLIENTS").is_none(), "run scripts/fetch-neovim.sh");
    eprintln!("SKIP: Neovim is not installed: scripts/fetch-neovim.sh");
    None
}
