//! Every command of README.md and docs/tutorial.md prints what the page shows. A comment at the top of the tutorial
//! explains the notation.

mod support;

use std::fs::File;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use support::Workspace;

const TUTORIAL: &str = include_str!("../../../docs/tutorial.md");
const README: &str = include_str!("../../../README.md");

/// Line that separates the outputs of two commands.
const SEPARATOR: &str = "=== end of a command ===";

#[test]
fn the_commands_of_the_tutorial_print_what_it_says() {
    let address = find_free_address();
    let page = TUTORIAL
        .replace("127.0.0.1:8700", &address)
        .replace("flowloom serve flows", &format!("flowloom serve flows --bind {address}"));
    assert!(check_page("docs/tutorial.md", &page, &Workspace::new("")) > 20);
}

#[test]
fn the_commands_of_the_readme_print_what_it_says() {
    let place = Workspace::new("");
    std::fs::remove_file(place.path("flowloom.toml")).expect("removed");
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let copied = Command::new("cp").arg("-r").arg(examples).arg(place.path("examples")).status();
    assert!(copied.is_ok_and(|status| status.success()));
    assert!(check_page("README.md", README, &place) > 3);
}

/// Runs the commands of a page in a workspace, in order, and compares their outputs. Returns how many there are.
fn check_page(name: &str, page: &str, place: &Workspace) -> usize {
    let items = parse_page(page);
    let outputs = run_script(place, &build_script(&items));
    let commands: Vec<&PageCommand> = items.iter().filter_map(PageItem::as_command).collect();
    assert_eq!(outputs.len(), commands.len(), "the script ended early: {outputs:#?}");
    for (command, (status, actual)) in commands.iter().zip(&outputs) {
        let PageCommand { line, text, expected, varies } = command;
        let (expected, actual) = (output_lines(expected), output_lines(actual));
        let shown = format!("expected:\n{}\nactual:\n{}", expected.join("\n"), actual.join("\n"));
        let is_right = if *varies { status == "0" } else { matches_lines(&expected, &actual) };
        assert!(is_right, "{name}:{line}: $ {text}\n{shown}");
    }
    commands.len()
}

/// An address of this machine that nothing listens on.
fn find_free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").to_string()
}

/// Something that the reader of the page does.
enum PageItem {
    WriteFile { name: String, text: String },
    Run(PageCommand),
}

/// A command and its expected output.
struct PageCommand {
    /// Line on the page, from 1.
    line: usize,
    text: String,
    expected: String,
    /// Whether the output is an example: then the command only has to succeed.
    varies: bool,
}

impl PageItem {
    fn as_command(&self) -> Option<&PageCommand> {
        match self {
            PageItem::Run(command) => Some(command),
            PageItem::WriteFile { .. } => None,
        }
    }
}

/// Reads the files and commands of the page, in order.
fn parse_page(page: &str) -> Vec<PageItem> {
    let mut items = Vec::new();
    let (mut file_name, mut varies) = (None, false);
    // The comment that explains the notation ends with this line.
    let start = page.lines().position(|line| line.starts_with("-->")).unwrap_or(0);
    let mut lines = page.lines().enumerate().skip(start);
    while let Some((index, line)) = lines.next() {
        if let Some(language) = line.strip_prefix("```") {
            let block: Vec<&str> = lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```").collect();
            match file_name.take() {
                Some(name) => items.push(PageItem::WriteFile { name, text: block.join("\n") }),
                None if language == "console" => items.extend(parse_console(index + 2, &block, varies)),
                None => {}
            }
        } else {
            let name = line.strip_prefix("<!-- file: ").and_then(|rest| rest.strip_suffix(" -->"));
            file_name = name.map(str::to_owned);
            varies = line == "<!-- output varies -->";
        }
    }
    items
}

/// Reads the commands of a block whose first line has the number `first_line`.
fn parse_console(first_line: usize, block: &[&str], varies: bool) -> Vec<PageItem> {
    let mut commands: Vec<PageCommand> = Vec::new();
    for (line, text) in (first_line..).zip(block) {
        if let Some(command) = text.strip_prefix("$ ") {
            commands.push(PageCommand { line, text: command.to_owned(), expected: String::new(), varies });
            continue;
        }
        let last = commands.last_mut().expect("a console block starts with a command");
        match text.strip_prefix("> ").filter(|_| last.expected.is_empty()) {
            Some(continued) => last.text += &format!("\n{continued}"),
            None => last.expected += &format!("{text}\n"),
        }
    }
    commands.into_iter().map(PageItem::Run).collect()
}

/// One bash script that does everything on the page. Between two commands `$?` stays.
fn build_script(items: &[PageItem]) -> String {
    let mut script = format!(
        "trap 'kill $(jobs -p) 2> /dev/null' EXIT\n\
         end_command() {{ local status=$?; printf '\\n%s\\n%s\\n' $status '{SEPARATOR}'; return $status; }}\n"
    );
    for item in items {
        script += &match item {
            PageItem::WriteFile { name, text } => {
                format!("mkdir -p \"$(dirname {name})\"; cat > {name} <<'END_OF_FILE'\n{text}\nEND_OF_FILE\n")
            }
            PageItem::Run(command) => format!("{}\nend_command\n", command.text),
        };
    }
    script
}

/// Runs a script in a workspace. Returns the exit code and the output of each command.
fn run_script(place: &Workspace, script: &str) -> Vec<(String, String)> {
    let program = Path::new(env!("CARGO_BIN_EXE_flowloom")).parent().expect("a folder").display().to_string();
    let path = format!("{program}:{}", std::env::var("PATH").unwrap_or_default());
    let output = File::create(place.path("output.log")).expect("a file");
    let mut shell = place.isolate_program("bash");
    shell.arg(place.write("script.sh", script)).env("PATH", path).env("HOME", place.path("home"));
    shell.env_remove("FLOWLOOM_DATA_DIR");
    // With the local model, if it was fetched.
    match std::env::var_os("FLOWLOOM_CACHE") {
        Some(cache) => shell.env("FLOWLOOM_CACHE", cache),
        None => shell.env("FLOWLOOM_CACHE", std::env::home_dir().expect("a home").join(".cache/flowloom")),
    };
    shell.stderr(output.try_clone().expect("a handle")).stdout(output);
    shell.status().expect("bash runs");
    let output = std::fs::read_to_string(place.path("output.log")).expect("UTF-8");
    let mut outputs: Vec<String> = output.split(&format!("\n{SEPARATOR}\n")).map(str::to_owned).collect();
    outputs.pop();
    let split = |output: String| match output.rsplit_once('\n') {
        Some((output, status)) => (status.to_owned(), output.to_owned()),
        None => (output, String::new()),
    };
    outputs.into_iter().map(split).collect()
}

/// The lines of an output without white space at their ends, and without blank lines at the end.
fn output_lines(output: &str) -> Vec<&str> {
    output.trim_end().lines().map(str::trim_end).collect()
}

/// Whether lines are as expected. The expected line `…` stands for any number of lines.
fn matches_lines(expected: &[&str], actual: &[&str]) -> bool {
    match expected.split_first() {
        None => actual.is_empty(),
        Some((&"…", rest)) => (0..=actual.len()).any(|skipped| matches_lines(rest, &actual[skipped..])),
        Some((line, rest)) => {
            actual.split_first().is_some_and(|(first, others)| matches_line(line, first) && matches_lines(rest, others))
        }
    }
}

/// Whether a line is as expected. `…` stands for any text.
fn matches_line(expected: &str, actual: &str) -> bool {
    let Some((start, rest)) = expected.split_once('…') else { return expected == actual };
    let (middle, end) = rest.rsplit_once('…').unwrap_or(("", rest));
    let inside = actual.strip_prefix(start).and_then(|actual| actual.strip_suffix(end));
    inside.is_some_and(|mut inside| {
        middle.split('…').all(|piece| match inside.find(piece) {
            Some(at) => {
                inside = &inside[at + piece.len()..];
                true
            }
            None => false,
        })
    })
}

#[test]
fn dots_stand_for_any_text_or_lines() {
    assert!(matches_line("a … b…", "a x b") && matches_line("…", "") && matches_line("…b…c", "abbc"));
    assert!(!matches_line("a …", "b ") && !matches_line("…b…b", "ab") && !matches_line("a", "ab"));
    assert!(matches_lines(&["…", "b", "…"], &["a", "b"]) && matches_lines(&[], &[]));
    assert!(!matches_lines(&["…", "b"], &["b", "c"]) && !matches_lines(&["a"], &[]));
}
