//! Components receive the parts that they use, and not the whole `App`.

use structure::source::read_product_files;

/// The files that may have the whole `App`: the composition root, and what starts a server or a worker with it.
const COMPOSITION_FILES: [&str; 5] = [
    "crates/app/src/engines.rs",
    "crates/server/src/mcp/stdio.rs",
    "crates/server/src/monitor.rs",
    "crates/server/src/serve.rs",
    "crates/server/src/state.rs",
];

/// The lines of code in which a field, a parameter, a result or an implementation has the type `App`, from 1. An import is
/// none, nor is the call of a function of the type.
fn find_app_types(code: &str) -> Vec<usize> {
    let is_word = |character: char| character.is_alphanumeric() || character == '_';
    let names_type = |line: &str| {
        line.match_indices("App").any(|(at, name)| {
            let after = &line[at + name.len()..];
            !line[..at].ends_with(is_word)
                && !line[..at].ends_with("::")
                && !after.starts_with(is_word)
                && !after.starts_with("::")
                && !after.starts_with('(')
        })
    };
    let lines = code.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("use ") && names_type(line));
    lines.map(|(index, _)| index + 1).collect()
}

#[test]
fn only_the_composition_root_has_the_whole_app() {
    let mut problems = Vec::new();
    for file in read_product_files(&["crates/app", "crates/server"]) {
        if !COMPOSITION_FILES.contains(&file.path.as_str()) {
            problems.extend(find_app_types(&file.code).into_iter().map(|line| format!("{}:{line}", file.path)));
        }
    }
    assert!(problems.is_empty(), "receive the parts that are used instead of App:\n{}", problems.join("\n"));
}

#[test]
fn types_are_distinguished_from_calls_and_imports() {
    let code = "use crate::engines::App;\nstruct A { app: Arc<App> }\nimpl App {\nlet app = App::open(config)?;\n\
                fn f(apps: &App, error: AppError) {}\nServeError::App(error) => AppError::App,\n";
    assert_eq!(find_app_types(code), [2, 3, 5]);
}
