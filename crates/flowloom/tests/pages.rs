//! The commands and definitions of the pages run as they are printed, in the order of the page, on a fresh copy of the
//! examples.
//!
//! A page writes `<!-- file: NAME -->` before a definition that its commands use, `<!-- setup: COMMANDS -->` before commands
//! that need more than the page describes, and `<!-- not run: REASON -->` before commands that cannot run here, such as
//! those that need root. Lines that start with `$ ` are commands, and the lines below are their output; in other blocks
//! with commands every line is one. A comment with `exit code N` is the expected exit code of the command. Answers come
//! from a script. `crates/flowloom/tests/tutorial.rs` runs README.md and the tutorial.

mod support;

use std::fmt::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use support::Workspace;

/// Starts of lines that are commands.
const PROGRAMS: [&str; 14] = [
    "flowloom ",
    "curl ",
    "cd ",
    "echo ",
    "python3 ",
    "docker ",
    "install ",
    "systemctl ",
    "restate-server",
    "make ",
    "cargo ",
    "npm ",
    "kubectl ",
    "git ",
];

/// Commands that end when a person stops them; the pages show them as typed in another terminal. A server
/// ends when another one starts, and with `stop_server` in a setup.
const SERVERS: [&str; 3] = ["flowloom serve", "flowloom studio", "python3 -m http.server"];

/// The exit codes of commands whose run waits for a person, besides 0.
const WAITING: i32 = 4;

/// The answers of the model: objects where the pages' pipelines want them.
const ANSWERS: &str = r#"{"match": [
  {"contains": "Which city is this about?", "answer": "{\"city\": \"Bergen\"}"},
  {"contains": "Our hotel in Bergen was clean", "answer": "{\"short\": \"A clean hotel.\"}"}
], "default": "A short answer."}"#;

/// A block of commands, with its first line on the page.
struct CommandBlock {
    line: usize,
    script: String,
}

/// The content of a page, in order.
enum PageItem {
    WriteFile {
        name: String,
        text: String,
    },
    Run(CommandBlock),
    /// Commands that cannot run here, with the reason.
    Skip {
        reason: String,
        block: CommandBlock,
    },
}

fn read_page(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)).expect("the page exists")
}

fn parse_page(page: &str) -> Vec<PageItem> {
    let mut items = Vec::new();
    let (mut file, mut reason) = (None, None);
    let mut lines = page.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        if let Some(start) = line.strip_prefix("<!-- ") {
            let mut comment = start.to_owned();
            while !comment.ends_with("-->") {
                let (_, line) = lines.next().expect("the comment ends");
                comment = comment + "\n" + line;
            }
            let comment = comment.trim_end_matches("-->").trim();
            file = comment.strip_prefix("file: ").map(str::to_owned);
            reason = comment.strip_prefix("not run: ").map(str::to_owned);
            if let Some(script) = comment.strip_prefix("setup:") {
                items.push(PageItem::Run(CommandBlock { line: index + 1, script: script.trim().to_owned() }));
            }
        }
        if !line.starts_with("```") {
            continue;
        }
        let block: Vec<&str> =
            lines.by_ref().map(|(_, line)| line).take_while(|line| !line.starts_with("```")).collect();
        let commands = find_commands(&block).map(|script| CommandBlock { line: index + 2, script });
        match (file.take(), reason.take(), commands) {
            (Some(name), ..) => items.push(PageItem::WriteFile { name, text: block.join("\n") + "\n" }),
            (None, Some(reason), Some(block)) => items.push(PageItem::Skip { reason, block }),
            (None, None, Some(block)) => items.push(PageItem::Run(block)),
            (None, ..) => {}
        }
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

/// A folder with the examples, as in a clone of the project. Their pages have an address of their own, and
/// every model that they name is the script.
fn clone_examples(pages: &str) -> Workspace {
    let place = Workspace::new("");
    std::fs::remove_file(place.path("flowloom.toml")).expect("removed");
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let copied = Command::new("cp").arg("-r").arg(examples).arg(place.path("examples")).status();
    assert!(copied.is_ok_and(|status| status.success()));
    for file in ["flowloom.toml", "flow/summarize-page.json", "flow/weather-report.json"] {
        let path = place.path("examples").join(file);
        let text = std::fs::read_to_string(&path).expect("an example");
        std::fs::write(path, text.replace("127.0.0.1:8791", pages)).expect("written");
    }
    place
}

fn find_free_address() -> String {
    TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").to_string()
}

/// The folder of the program first, then the usual ones.
fn search_path() -> String {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_flowloom"));
    let folder = program.parent().expect("a folder").display().to_string();
    format!("{folder}:{}", std::env::var("PATH").unwrap_or_default())
}

/// A page as one script for a shell that stops at the first command that fails.
struct PageScript {
    text: String,
    /// The address of the newest server.
    server: String,
    /// The address of the pages of the examples.
    pages: String,
}

impl PageScript {
    fn new(pages: String) -> PageScript {
        // A waiting run is no failure; requests wait for the server and fail with its refusals.
        let text = format!(
            "trap 'kill $(jobs -p) 2> /dev/null || true' EXIT\n\
             flowloom() {{\n  command flowloom \"$@\" || {{ code=$?; [ $code = {WAITING} ] || return $code; }}\n}}\n\
             curl() {{ command curl --silent --fail-with-body --retry 40 --retry-connrefused --retry-delay 1 \"$@\"; }}\n\
             stop_server() {{ [ -z \"$server_pid\" ] || {{ kill $server_pid; wait $server_pid || true; server_pid=; }}; }}\n\
             set -eo pipefail\n"
        );
        PageScript { text, server: find_free_address(), pages }
    }

    fn add_block(&mut self, page: &str, block: &CommandBlock) {
        let _ = writeln!(self.text, "echo '=== {page}:{}'", block.line);
        for line in block.script.lines() {
            let line = self.adapt_line(line);
            let _ = writeln!(self.text, "{line}");
        }
    }

    /// A line with the addresses of this test, which shows whether a server that it starts answers.
    fn adapt_line(&mut self, line: &str) -> String {
        let (command, comment) = line.split_once(" # ").unwrap_or((line, ""));
        let Some(server) = SERVERS.iter().find(|server| is_start_of(command, server)) else {
            let command = command.replace("127.0.0.1:8700", &self.server).replace("127.0.0.1:8791", &self.pages);
            let code = comment.split_once("exit code ").and_then(|(_, rest)| rest.split([' ', ';', ')']).next());
            return code.map_or(command.clone(), |code| format!("{{ {command}; }} || [ $? = {code} ]"));
        };
        let command = command.trim_end().trim_end_matches('&').trim_end();
        if !server.starts_with("flowloom") {
            let port = self.pages.rsplit(':').next().expect("a port");
            let command = command.replace("8791", port);
            return format!("{command} > /dev/null 2>&1 &\ncurl --output /dev/null http://{}", self.pages);
        }
        self.server = find_free_address();
        let command = command.replacen(server, &format!("command {server} --bind {}", self.server), 1);
        format!("stop_server\n{command} &\nserver_pid=$!\ncurl http://{}/health/ready", self.server)
    }
}

/// Whether a command starts this program, after variables such as `NAME=value`.
fn is_start_of(command: &str, program: &str) -> bool {
    command.split_once(program).is_some_and(|(before, _)| before.split_whitespace().all(|word| word.contains('=')))
}

/// Runs the blocks of a page in one shell, which stops at the first command that fails. Returns how many there are.
fn check_page(name: &str) -> usize {
    let mut script = PageScript::new(find_free_address());
    let place = clone_examples(&script.pages);
    let mut count = 0;
    for item in parse_page(&read_page(name)) {
        match item {
            PageItem::WriteFile { name, text } => {
                let path = place.path(&name);
                std::fs::create_dir_all(path.parent().expect("a folder")).expect("created");
                std::fs::write(path, text).expect("written");
            }
            PageItem::Run(block) => {
                count += 1;
                script.add_block(name, &block);
            }
            PageItem::Skip { .. } => {}
        }
    }
    let mut shell = place.isolate_program("bash");
    shell.args(["-c", &script.text]).env("PATH", search_path()).env_remove("FLOWLOOM_DATA_DIR");
    let model = format!("scripted:{}", place.write("answers.json", ANSWERS).display());
    let config = std::fs::read_to_string(place.path("examples/flowloom.toml")).expect("the examples are a project");
    place.write("examples/flowloom.toml", &format!("{config}\n[models.alias]\n\"local:smollm2-135m\" = \"{model}\"\n"));
    shell.env("FLOWLOOM_DEFAULT_MODEL", model);
    let output = shell.output().expect("bash runs");
    let printed = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{name}: exit {:?} after\n{printed}", output.status.code());
    count
}

/// The pages whose commands run here, with the number of their blocks that do.
const PAGES: [(&str, usize); 24] = [
    ("docs/README.md", 3),
    ("docs/api.md", 9),
    ("docs/author.md", 1),
    ("docs/configuration.md", 0),
    ("docs/convert.md", 1),
    ("docs/dependencies.md", 0),
    ("docs/evaluation.md", 1),
    ("docs/fmt.md", 1),
    ("docs/fork.md", 1),
    ("docs/formats/agent.md", 1),
    ("docs/formats/flow.md", 1),
    ("docs/formats/graph.md", 1),
    ("docs/formats/markdown.md", 1),
    ("docs/formats/pipeline.md", 1),
    ("docs/formats/steps.md", 1),
    ("docs/operating.md", 5),
    ("docs/performance.md", 0),
    ("docs/plan.md", 1),
    ("docs/protocols.md", 1),
    ("docs/reliability.md", 0),
    ("docs/scale.md", 0),
    ("docs/studio.md", 1),
    ("docs/testing.md", 1),
    ("examples/README.md", 3),
];

/// Runs the pages whose names start with one of `starts`.
fn check_pages(starts: &[&str]) {
    for (page, blocks) in PAGES.iter().filter(|(page, _)| starts.iter().any(|start| page.starts_with(start))) {
        let count = check_page(page);
        assert!(count >= *blocks, "{page}: {count} blocks");
    }
}

#[test]
fn the_pages_of_the_formats_run_as_printed() {
    check_pages(&["docs/formats/"]);
}

#[test]
fn the_page_of_the_examples_runs_as_printed() {
    check_pages(&["examples/"]);
}

#[test]
fn the_pages_about_maintenance_run_as_printed() {
    check_pages(&["docs/convert", "docs/fmt", "docs/fork", "docs/plan", "docs/testing"]);
}

#[test]
fn the_pages_about_the_service_run_as_printed() {
    check_pages(&["docs/README", "docs/api", "docs/operating", "docs/protocols", "docs/studio"]);
}

#[test]
fn the_recorded_evaluation_and_the_planner_run_as_printed() {
    check_pages(&["docs/evaluation", "docs/author"]);
}

/// All pages of a folder with commands.
fn find_pages_with_commands(folder: &str) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let entries = std::fs::read_dir(root.join(folder)).expect("a folder");
    let names = entries.filter_map(|entry| entry.expect("an entry").file_name().into_string().ok());
    let pages = names.filter(|name| name.ends_with(".md")).map(|name| format!("{folder}/{name}"));
    let has_commands =
        |page: &String| parse_page(&read_page(page)).iter().any(|item| !matches!(item, PageItem::WriteFile { .. }));
    pages.filter(has_commands).collect()
}

#[test]
fn every_page_with_commands_is_run() {
    // Pages of errors and decisions quote commands in their sentences.
    for page in ["docs", "docs/formats", "examples"].into_iter().flat_map(find_pages_with_commands) {
        let is_known = PAGES.iter().any(|(known, _)| *known == page) || page == "docs/tutorial.md";
        assert!(is_known, "no test runs the commands of {page}");
    }
}

#[test]
fn commands_that_are_not_run_have_a_reason_and_exist() {
    let place = Workspace::new("");
    let mut report = String::new();
    for (page, _) in PAGES {
        for item in parse_page(&read_page(page)) {
            let PageItem::Skip { reason, block } = item else { continue };
            let _ = writeln!(report, "{page}: {reason}");
            for line in block.script.lines() {
                let _ = writeln!(report, "  {line}");
                check_options(&place, line);
            }
        }
    }
    insta::assert_snapshot!(report);
}

/// Checks that the program has the command of a line with these options.
fn check_options(place: &Workspace, line: &str) {
    let Some((_, rest)) = line.split_once("flowloom ").filter(|(before, _)| before.is_empty()) else { return };
    let rest = rest.split_once(" # ").map_or(rest, |(command, _)| command);
    let words: Vec<&str> = rest.split_whitespace().take_while(|word| !["|", "&", ">", "<"].contains(word)).collect();
    let is_name = |word: &&&str| word.chars().all(|c| c.is_ascii_lowercase() || c == '-') && !word.starts_with('-');
    let mut command: Vec<&str> = words.iter().take_while(is_name).copied().collect();
    command.push("--help");
    let help = String::from_utf8(place.run(&command).stdout).expect("UTF-8");
    assert!(help.contains("Usage: flowloom "), "{line}: there is no such command");
    for option in words.iter().filter(|word| word.starts_with("--")) {
        let option = option.split('=').next().unwrap_or(option);
        assert!(help.contains(option), "{line}: there is no option {option}");
    }
}
