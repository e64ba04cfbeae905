//! Plants each bug of `tests/planted-bugs` in a copy of the repository, and checks that the simulation or the tests of the
//! store notice it: `planted-bugs [NAME …]`.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Output};
use std::time::{Duration, Instant};

use simulation::TOO_FEW_SCHEDULES;
use simulation::patches::{Check, PlantedBug, apply_patch, read_bugs, repository_root};

/// How many schedules the simulation searches, at most: more than it can.
const MAX_SCHEDULES: &str = "1000000000";

/// How long the simulation searches for a bug, in seconds.
const MAX_SEARCH_SECONDS: &str = "60";

/// How long a check may take. One that takes longer hangs, which is noticed, too.
const MAX_CHECK_TIME: Duration = Duration::from_secs(180);

/// How often a check is looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// A copy of the repository, with a target folder of its own.
struct Copy {
    root: PathBuf,
    target: PathBuf,
}

fn main() -> ExitCode {
    let names: Vec<String> = std::env::args().skip(1).collect();
    match check_bugs(&names) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::from(2)
        }
    }
}

/// Checks the bugs with these names, or all. Returns whether every one was noticed.
fn check_bugs(names: &[String]) -> Result<bool, String> {
    let copy = copy_repository()?;
    let bugs = read_bugs()?.into_iter().filter(|bug| names.is_empty() || names.contains(&bug.name));
    println!("{:<32} {:<12} {:>9}  how", "bug", "caught by", "seconds");
    let mut are_all_noticed = true;
    for bug in bugs {
        apply_patch(&copy.root, &bug.file, &[])?;
        let noticed = check_bug(&copy, &bug);
        apply_patch(&copy.root, &bug.file, &["--reverse"])?;
        let (is_noticed, seconds, how) = noticed?;
        let check = if is_noticed { format!("{:?}", bug.check).to_lowercase() } else { "NOTHING".to_owned() };
        println!("{:<32} {check:<12} {seconds:>9.1}  {how}", bug.name);
        are_all_noticed &= is_noticed;
    }
    Ok(are_all_noticed)
}

/// Copies the files of the repository that differ from those of an earlier copy, so that little is compiled again.
fn copy_repository() -> Result<Copy, String> {
    let source = repository_root();
    let folder = match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => PathBuf::from(folder).join("planted-bugs"),
        None => source.join("target/planted-bugs"),
    };
    let copy = Copy { root: folder.join("tree"), target: folder.join("target") };
    let listed = run_command(
        Command::new("git").args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(&source),
    )?;
    for name in String::from_utf8_lossy(&listed.stdout).split_terminator('\0') {
        let (from, to) = (source.join(name), copy.root.join(name));
        // A file that was deleted is still listed.
        let Ok(content) = std::fs::read(&from) else { continue };
        if std::fs::read(&to).is_ok_and(|known| known == content) {
            continue;
        }
        let written = to.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| std::fs::write(&to, content));
        written.map_err(|error| format!("{}: {error}", to.display()))?;
    }
    Ok(copy)
}

/// Whether a planted bug is noticed, after how many seconds, and how.
fn check_bug(copy: &Copy, bug: &PlantedBug) -> Result<(bool, f64, String), String> {
    let build: &[&str] = match bug.check {
        Check::Simulation => &["build", "--locked", "-p", "simulation", "--bin", "simulation"],
        Check::Store => &["test", "--locked", "-p", "flowloom-store", "--no-run"],
    };
    let built = run_command(copy.cargo().args(build))?;
    if !built.status.success() {
        return Err(format!("{} does not compile: {}", bug.name, String::from_utf8_lossy(&built.stderr)));
    }
    let mut check = match bug.check {
        Check::Simulation => {
            let mut simulation = Command::new(copy.target.join("debug/simulation"));
            let seed = bug.seed.unwrap_or(1).to_string();
            simulation.args(["--seed", &seed, "--schedules", MAX_SCHEDULES, "--seconds", MAX_SEARCH_SECONDS]);
            simulation
        }
        Check::Store => {
            let mut tests = copy.cargo();
            let files = ["--test", "abandoned", "--test", "conformance", "--test", "differential"];
            tests.args(["test", "--locked", "-p", "flowloom-store"]).args(files);
            tests
        }
    };
    let started = Instant::now();
    let output = run_for(&mut check, &copy.root.with_extension("output"))?;
    let Some((status, text)) = output else {
        return Ok((true, started.elapsed().as_secs_f64(), "it hangs".to_owned()));
    };
    let lines = || text.lines();
    let searched = lines().find(|line| line.contains("schedules in")).and_then(|line| line.split(':').next());
    let broken = lines().find_map(|line| line.strip_prefix("broken: "));
    let failed = lines().find(|line| line.contains("panicked") || line.contains("FAILED"));
    // The seed of the failed schedule, for the header of the patch.
    let seed = lines()
        .find_map(|line| line.strip_prefix("seed ")?.split_once(" fails"))
        .map(|(seed, _)| format!("seed {seed}"));
    let how = [searched, seed.as_deref(), broken.or(failed)].into_iter().flatten().collect::<Vec<_>>().join("; ");
    let is_noticed = !status.success() && status.code() != Some(TOO_FEW_SCHEDULES.into());
    Ok((is_noticed, started.elapsed().as_secs_f64(), how.chars().take(120).collect()))
}

impl Copy {
    fn cargo(&self) -> Command {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.current_dir(&self.root).env("CARGO_TARGET_DIR", &self.target);
        cargo
    }
}

fn run_command(command: &mut Command) -> Result<Output, String> {
    command.output().map_err(|error| format!("{command:?}: {error}"))
}

/// Runs a command for at most [`MAX_CHECK_TIME`]. Returns its status and its output; `None` if it hangs.
fn run_for(command: &mut Command, output: &Path) -> Result<Option<(ExitStatus, String)>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", output.display());
    let file = std::fs::File::create(output).map_err(failed)?;
    let errors = file.try_clone().map_err(failed)?;
    let mut child = command.stdout(file).stderr(errors).spawn().map_err(failed)?;
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            let text = std::fs::read(output).map_err(failed)?;
            return Ok(Some((status, String::from_utf8_lossy(&text).into_owned())));
        }
        if started.elapsed() > MAX_CHECK_TIME {
            child.kill().and_then(|()| child.wait()).map_err(failed)?;
            return Ok(None);
        }
        std::thread::sleep(LOOK_INTERVAL);
    }
}
