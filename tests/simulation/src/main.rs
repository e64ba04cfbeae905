//! The simulation from the command line: `simulation [--seed N] [--schedules N] [--seconds N]`. With `--replay N`, one
//! schedule is run and its trace is printed. Fails if fewer schedules fit into the time.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;
use std::time::Duration;

use simulation::{FailedSchedule, Settings, TOO_FEW_SCHEDULES, run_schedule, search_schedules, shrink_schedule};

/// Lines of a trace that are printed after a search. A replay prints the whole trace.
const MAX_TRACE_LINES: usize = 400;

struct Options {
    seed: u64,
    schedules: u64,
    seconds: u64,
    replay: Option<u64>,
}

fn main() -> ExitCode {
    let options = match read_options(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(problem) => {
            eprintln!("{problem}\nusage: simulation [--seed N] [--schedules N] [--seconds N] [--replay SEED]");
            return ExitCode::from(2);
        }
    };
    // A panic is reported with the schedule in which it happened.
    std::panic::set_hook(Box::new(|_| {}));
    if let Some(seed) = options.replay {
        return report_failure(
            run_schedule(seed, &Settings::from_seed(seed), true).err().map(|failed| *failed),
            usize::MAX,
        );
    }
    println!("seed {}", options.seed);
    let report = search_schedules(options.seed, options.schedules, Duration::from_secs(options.seconds));
    let seconds = report.elapsed.as_secs_f64();
    println!(
        "{} schedules in {seconds:.1} s: {:.0} schedules per second, {:.0} polls per schedule",
        report.schedules,
        report.schedules as f64 / seconds,
        report.polls as f64 / report.schedules.max(1) as f64
    );
    if report.failed.is_none() && report.schedules < options.schedules {
        println!("FAILED: only {} of {} schedules fitted into {seconds:.0} s", report.schedules, options.schedules);
        return ExitCode::from(TOO_FEW_SCHEDULES);
    }
    if let Some(failed) = &report.failed {
        println!("seed {} fails, and is made smaller", failed.seed);
    }
    report_failure(report.failed.map(|failed| shrink_schedule(&failed)), MAX_TRACE_LINES)
}

fn report_failure(failed: Option<FailedSchedule>, max_lines: usize) -> ExitCode {
    let Some(FailedSchedule { seed, settings, violations, trace }) = failed else { return ExitCode::SUCCESS };
    println!("seed {seed} fails with {settings:?}");
    for line in trace.iter().skip(trace.len().saturating_sub(max_lines)) {
        println!("{line}");
    }
    for violation in violations {
        println!("broken: {violation}");
    }
    ExitCode::FAILURE
}

fn read_options(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    // A new seed for each search; the process id is as good as any.
    let seed = u64::from(std::process::id()) * 1_000_000_000;
    let mut options = Options { seed, schedules: 100_000, seconds: 60, replay: None };
    while let Some(argument) = arguments.next() {
        let number = arguments.next().and_then(|text| text.parse::<u64>().ok());
        let number = number.ok_or_else(|| format!("{argument} takes a number"))?;
        match argument.as_str() {
            "--seed" => options.seed = number,
            "--schedules" => options.schedules = number,
            "--seconds" => options.seconds = number,
            "--replay" => options.replay = Some(number),
            other => return Err(format!("unknown argument: {other}")),
        }
    }
    Ok(options)
}
