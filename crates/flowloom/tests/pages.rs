//! The commands and definitions of the pages run as they are printed, in the order of the page, on a fresh copy of the
//! examples.
//!
//! A page writes `<!-- file: NAME -->` before a definition that its commands use, and `<!-- not run: REASON -->` before
//! commands that cannot run here, such as those that need root. Lines that start with `$ ` are commands, and what stands
//! below is what they print; in other blocks with commands every line is one. Answers come from a script.

mod support;

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use support::Workspace;

/// Starts of lines that are commands.
const PROGRAMS: [&str; 4] = ["flowloom ", "curl ", "cd ", "echo "];

/// The exit codes of commands whose run waits for a person, besides 0.
const WAITING: i32 = 4;

/// What the model answers: objects where the pages' pipelines want them.
const ANSWERS: &str = r#"{"match": [
  {"contains": "Which city is this about?", "answer": "{\"city\": \"Bergen\"}"},
  {"contains": "Our hotel in Bergen was clean", "answer": "{\"short\": \"A clean hotel.\"}"}
], "default": "A short answer."}"#;

/// A block of commands, with its first line on the page.
struct CommandBlock {
    line: usize,
    script: String,
}

/// What a page holds, in order.
enum PageItem {
    WriteFile { name: String, text: String },
    Run(CommandBlock),
}

fn read_page(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)).expect("the page exists")
}

fn parse_page(page: &str) -> Vec<PageItem> {
    let mut items = Vec::new();
    let (mut file, mut is_skipped) = (None, false);
    let mut lines = page.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        if !line.starts_with("```") {
            if let Some(comment) = line.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->")) {
                file = comment.strip_prefix("file: ").map(str::to_owned);
                is_skipped = comment.starts_with("not run: ");
            }
            continue;
        }
        let block: Vec<&str> =
            lines.by_ref().map(|(_, line)| line).take_while(|line| !line.starts_with("```")).collect();
        if let Some(name) = file.take() {
            items.push(PageItem::WriteFile { name, text: block.join("\n") + "\n" });
        } else if !is_skipped && let Some(script) = find_commands(&block) {
            items.push(PageItem::Run(CommandBlock { line: index + 2, script }));
        }
        is_skipped = false;
    }
    items
}

/// The commands of a block; `None` if it has none.
fn find_commands(block: &[&str]) -> Option<String> {
    let is_prompted = block.iter().any(|line| line.starts_with("$ "));
    if !is_prompted {
        let has_command = block.iter().any(|line| PROGRAMS.iter().any(|program| line.starts_with(program)));
        return has_command.then(|| block.join("\n"));
    }
    let mut script = Vec::new();
    let mut is_continued = false;
    for line in block {
        let command = line.strip_prefix("$ ").or(is_continued.then_some(line.strip_prefix("> ").unwrap_or(line)));
        is_continued = command.is_some_and(|command| command.ends_with('\\'));
        script.extend(command);
    }
    Some(script.join("\n"))
}

/// A folder with the examples, as somebody has it who has cloned the project.
fn clone_examples() -> Workspace {
    let place = Workspace::new("");
    std::fs::remove_file(place.path("flowloom.toml")).expect("removed");
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let copied = Command::new("cp").arg("-r").arg(examples).arg(place.path("examples")).status();
    assert!(copied.is_ok_and(|status| status.success()));
    place
}

/// The folder of the program first, then the usual ones.
fn search_path() -> String {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_flowloom"));
    let folder = program.parent().expect("a folder").display().to_string();
    format!("{folder}:{}", std::env::var("PATH").unwrap_or_default())
}

/// Runs the blocks of a page in one shell, which stops at the first command that fails. Returns how many there are.
fn check_page(name: &str) -> usize {
    let place = clone_examples();
    let address = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").to_string();
    let page = read_page(name).replace("127.0.0.1:8700", &address);
    // A waiting run is no failure; requests wait for the server and fail with its refusals.
    let mut script = format!(
        "trap 'kill $(jobs -p) 2> /dev/null || true' EXIT\n\
         flowloom() {{\n  command flowloom \"$@\" || {{ code=$?; [ $code = {WAITING} ] || return $code; }}\n}}\n\
         curl() {{ command curl --silent --fail-with-body --retry 40 --retry-connrefused --retry-delay 1 \"$@\"; }}\n"
    );
    let mut count = 0;
    for item in parse_page(&page) {
        match item {
            PageItem::WriteFile { name, text } => {
                let path = place.path(&name);
                std::fs::create_dir_all(path.parent().expect("a folder")).expect("created");
                std::fs::write(path, text).expect("written");
            }
            PageItem::Run(CommandBlock { line, script: block }) => {
                count += 1;
                let block = block
                    .replace("flowloom serve examples", &format!("command flowloom serve examples --bind {address}"));
                script += &format!("set -eo pipefail\necho '=== {name}:{line}'\n{block}\n");
            }
        }
    }
    let mut shell = place.isolate_program("bash");
    shell.args(["-c", &script]).env("PATH", search_path()).env_remove("FLOWLOOM_DATA_DIR");
    let model = format!("scripted:{}", place.write("answers.json", ANSWERS).display());
    shell.env("FLOWLOOM_DEFAULT_MODEL", model).env("FLOWLOOM_EMBEDDINGS", "none");
    let output = shell.output().expect("bash runs");
    let printed = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{name}: exit {:?} after\n{printed}", output.status.code());
    count
}

#[test]
fn the_pages_of_the_formats_run_as_printed() {
    for format in ["agent", "flow", "graph", "markdown", "pipeline", "steps"] {
        assert!(check_page(&format!("docs/formats/{format}.md")) >= 1, "{format}");
    }
}

#[test]
fn the_page_of_the_examples_runs_as_printed() {
    assert!(check_page("examples/README.md") >= 3);
}

#[test]
fn the_pages_about_maintenance_run_as_printed() {
    for page in ["fork", "plan", "testing"] {
        assert!(check_page(&format!("docs/{page}.md")) >= 1, "{page}");
    }
}

#[test]
fn the_recorded_evaluation_runs_as_printed() {
    assert_eq!(check_page("docs/evaluation.md"), 1);
}
