//! `flowloom test`: runs the tests of workflows, and records them.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use flowloom_app::config::Config;
use flowloom_app::definitions::find::find_definitions;
use flowloom_app::definitions::folder::leaves_folder;
use flowloom_app::definitions::source::Loader;
use flowloom_app::engines::App;
use flowloom_app::listing::count_noun;
use flowloom_app::runs::stored::LoadedRun;
use flowloom_app::workflow_tests::file::{FoundTests, TEST_FOLDER, TestFile, find_tests};
use flowloom_app::workflow_tests::{TestOutcome, TestRunner, TestSubject, path_between, record_test};
use flowloom_core::chat::Usage;
use flowloom_core::limits::Limits;

use super::results::print_json;
use crate::cli::{Global, ProjectConfigs, RecordTestArgs, TestArgs, TestCommand, TestReport};
use crate::failure::{CommandError, CommandResult, print_error};
use crate::inputs::parse_budget;
use crate::print::show_path;
use crate::replace_file::check_new_file;
use crate::terminal::test_report::{describe_outcome, render_junit, render_outcome, render_summary, render_tap};

/// The exit code if a test failed.
const EXIT_TEST_FAILED: u8 = 3;

pub(crate) async fn test_workflows(global: &Global, arguments: TestArgs) -> CommandResult {
    if let Some(TestCommand::Record(record)) = &arguments.command {
        return record_run(global, record).await;
    }
    if global.json && arguments.report != TestReport::Text {
        return Err(CommandError::usage("--json and --report cannot be used together; remove one of them"));
    }
    let mut configs = ProjectConfigs::new(global);
    let FoundTests { tests, others } = list_files(&*configs.load_around(Path::new("."))?, &arguments.paths)?;
    let mut outcomes = Vec::with_capacity(tests.len());
    let mut budget = LiveBudget::new(&arguments)?;
    let prints_text = arguments.report == TestReport::Text && !global.json;
    // Each test counts for the project around it.
    let configured = tests.into_iter().map(|test| Ok((configs.load_around(&test)?, test)));
    let configured = configured.collect::<Result<Vec<_>, CommandError>>()?;
    for of_project in configured.chunk_by(|(a, _), (b, _)| Arc::ptr_eq(a, b)) {
        let mut runner = TestRunner::new(&of_project[0].0);
        for (_, file) in of_project {
            if let Some(limits) = budget.remaining() {
                runner = runner.with_live_models(limits);
            }
            let outcome = run_test(&runner, file, arguments.update).await?;
            budget.spend(&outcome.usage);
            if prints_text && outcome.invalid.is_none() {
                print!("{}", render_outcome(&outcome));
            }
            outcomes.push(outcome);
        }
    }
    if prints_text && !others.is_empty() {
        let others: Vec<String> = others.iter().map(|file| show_path(file)).collect();
        eprintln!("not tests: {}", others.join(", "));
    }
    report_outcomes(global, &arguments, &outcomes);
    match outcomes.iter().all(|outcome| outcome.is_accepted()) {
        _ if outcomes.iter().any(|outcome| outcome.invalid.is_some()) => Ok(2),
        true => Ok(0),
        false => Ok(EXIT_TEST_FAILED),
    }
}

/// Runs a test, and updates it if asked to. A test that cannot be run is reported, and is an outcome, too.
async fn run_test(runner: &TestRunner<'_>, file: &Path, updates: bool) -> Result<TestOutcome, CommandError> {
    match runner.run_test(file).await {
        Ok(mut outcome) => {
            if updates {
                runner.update_test(&mut outcome).await?;
            }
            Ok(outcome)
        }
        Err(error) => {
            let message = error.to_string().replace(&file.display().to_string(), &show_path(file));
            print_error(error.code(), "", &message);
            Ok(TestOutcome::from_file_error(file, &error))
        }
    }
}

/// The remaining model budget of the tests.
struct LiveBudget {
    limits: Option<Limits>,
}

impl LiveBudget {
    fn new(arguments: &TestArgs) -> Result<LiveBudget, CommandError> {
        if !arguments.live {
            return Ok(LiveBudget { limits: None });
        }
        let mut limits = Limits::default();
        parse_budget(&arguments.budget, &mut limits)?;
        Ok(LiveBudget { limits: Some(limits) })
    }

    fn remaining(&self) -> Option<Limits> {
        self.limits.clone()
    }

    fn spend(&mut self, used: &Usage) {
        self.limits = self.limits.as_ref().map(|limits| limits.without(used));
    }
}

fn list_files(config: &Config, paths: &[PathBuf]) -> Result<FoundTests, CommandError> {
    let here = PathBuf::from(TEST_FOLDER);
    let folder = if here.is_dir() { here } else { config.project.root.join(TEST_FOLDER) };
    let mut found = FoundTests::default();
    match paths {
        [] if !folder.is_dir() => {
            let message = format!(
                "there is no folder {}; record a test with flowloom test record last --as {TEST_FOLDER}/NAME.json",
                folder.display()
            );
            return Err(CommandError::usage(message));
        }
        [] if leaves_folder(&folder, &config.project.root) => {
            let folder = show_path(&folder);
            let message = format!("{folder} is a link out of the project; name it to use it: flowloom test {folder}");
            return Err(CommandError::usage(message));
        }
        [] => found = find_tests(&folder)?,
        paths => {
            for path in paths {
                let FoundTests { tests, others } = find_tests(path)?;
                found.tests.extend(tests);
                found.others.extend(others);
            }
        }
    }
    match found.tests.is_empty() {
        true => Err(CommandError::usage(
            "there are no tests; a test is a JSON file with `definition` or `workflow`, and `expect`",
        )),
        false => Ok(found),
    }
}

fn report_outcomes(global: &Global, arguments: &TestArgs, outcomes: &[TestOutcome]) {
    match arguments.report {
        TestReport::Junit => print!("{}", render_junit(outcomes)),
        TestReport::Tap => print!("{}", render_tap(outcomes)),
        TestReport::Text if global.json => print_json(&outcomes.iter().map(describe_outcome).collect::<Vec<_>>()),
        TestReport::Text => print!("{}", render_summary(outcomes, arguments)),
    }
}

async fn record_run(global: &Global, arguments: &RecordTestArgs) -> CommandResult {
    let app = Arc::new(global.open_existing()?);
    let opened = app.runs.open_run(&arguments.run).await?;
    let folder = arguments.file.parent().unwrap_or(Path::new(""));
    let subject = match &arguments.definition {
        Some(file) => name_file(folder, file)?,
        None => find_subject(&app, &opened, folder)?,
    };
    check_new_file(&arguments.file, arguments.force)?;
    let test: TestFile = record_test(&app.runs, &opened, subject).await?;
    test.write(&arguments.file)?;
    if !global.json {
        let steps = count_noun(test.steps.len(), "step");
        eprintln!("{}: {steps} of {}", arguments.file.display(), opened.id);
        eprintln!("run it: flowloom test {}", arguments.file.display());
    } else {
        print_json(&serde_json::json!({"file": arguments.file, "run_id": opened.id, "steps": test.steps.len()}));
    }
    Ok(0)
}

/// The subject of a test in `folder` that repeats a run: the id of its stored workflow, or the file of its definition, in the
/// current folder or in the project.
fn find_subject(app: &Arc<App>, opened: &LoadedRun, folder: &Path) -> Result<TestSubject, CommandError> {
    let (root, entry) = (&app.config.project.root, opened.entry());
    let catalog = app.build_catalog(root.join("."));
    if let Some(created) = opened.state().created
        && let Some(id) = &created.workflow
        && let Some(found) = catalog.find_definition(&created.user, id)?
        && let Some(stored) = TestSubject::of_stored(&catalog, &found)?
    {
        return Ok(stored);
    }
    match find_definition_file(&app.config, opened) {
        Some(file) => name_file(folder, &file),
        None => Err(CommandError::usage(format!(
            "the run's definition {entry} is neither a file here nor a stored workflow; name its file with --definition"
        ))),
    }
}

/// The file of a run's definition. The path of the run is relative to the folder in which it was started, which may be another
/// one of the project, so a file with the same text is preferred.
fn find_definition_file(config: &Config, opened: &LoadedRun) -> Option<PathBuf> {
    let (root, entry) = (&config.project.root, Path::new(opened.entry()));
    let has_text = |file: &PathBuf| std::fs::read_to_string(file).is_ok_and(|text| text == opened.definition());
    let near = [entry.to_owned(), root.join(entry)];
    if let Some(file) = near.iter().find(|file| has_text(file)) {
        return Some(file.clone());
    }
    let all = find_definitions(root, &Loader::new(config)).definitions.into_iter().map(|found| root.join(found.file));
    let same = all.filter(|file| file.file_name() == entry.file_name()).find(has_text);
    same.or_else(|| near.into_iter().find(|file| file.is_file()))
}

/// The subject of a test in `folder` that runs a file.
fn name_file(folder: &Path, file: &Path) -> Result<TestSubject, CommandError> {
    Ok(TestSubject::File(find_path_between(folder, file)?.display().to_string()))
}

/// The path that leads from a folder to a file, both as seen from the current folder.
fn find_path_between(folder: &Path, file: &Path) -> Result<PathBuf, CommandError> {
    let here = std::env::current_dir().map_err(|error| CommandError::usage(error.to_string()))?;
    Ok(path_between(&normalize(&here.join(folder)), &normalize(&here.join(file))))
}

/// A path without `.` and `..`.
fn normalize(path: &Path) -> PathBuf {
    let mut parts = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_relative_to_the_test() {
        let between = |folder: &str, file: &str| find_path_between(Path::new(folder), Path::new(file)).expect("a path");
        assert_eq!(between("/a/tests", "/a/flow.json"), Path::new("../flow.json"));
        assert_eq!(between("/a/tests/deep", "/a/flows/x.mdx"), Path::new("../../flows/x.mdx"));
        assert_eq!(between("/a", "/a/./b/../flow.json"), Path::new("flow.json"));
    }
}
