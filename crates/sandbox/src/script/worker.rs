//! The worker: locks itself down, then evaluates one expression after another, each in an engine of its own.

use std::io::{self, Read, Write};
use std::process::ExitCode;
use std::time::Duration;

use super::engine::ScriptEngine;
use super::wire::{ReceivedExpression, ScriptAnswer, ScriptSetup};
use crate::config::REAL_TIME_FACTOR;
use crate::frame::{self, PLAIN_MARK};
use crate::lock;

/// Maximum size of an expression with its names, in bytes; inputs of a run are limited to much less.
pub(super) const MAX_QUESTION_BYTES: usize = 256 << 20;

/// Runs the worker until its input ends.
pub(crate) fn run_worker() -> ExitCode {
    match serve_expressions() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn serve_expressions() -> io::Result<()> {
    let (mut from, mut to) = (io::stdin().lock(), io::stdout().lock());
    let Some(setup) = frame::read_frame(&mut from, &PLAIN_MARK, MAX_QUESTION_BYTES)? else { return Ok(()) };
    let setup: ScriptSetup = serde_json::from_slice(&setup)?;
    // An expression of any size must fit in memory in addition to the engine's limit.
    let locked = lock::lock_down_expressions(setup.memory_bytes, setup.cgroup.as_deref());
    frame::write_frame(
        &mut to,
        &PLAIN_MARK,
        locked.as_ref().err().map(ToString::to_string).unwrap_or_default().as_bytes(),
    )?;
    if locked.is_err() {
        return Ok(());
    }
    answer_all(&setup, &mut from, &mut to)
}

fn answer_all(setup: &ScriptSetup, from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let within = Duration::from_millis(setup.timeout_ms);
    lock::raw::reset_cpu_time_signal();
    loop {
        // Created while no expression is waiting.
        let engine = ScriptEngine::new(setup).map_err(io::Error::other)?;
        let Some(question) = frame::read_frame(&mut *from, &PLAIN_MARK, MAX_QUESTION_BYTES)? else { return Ok(()) };
        // If the process that sent the expression is gone, nothing else kills this worker.
        lock::raw::exit_after(within * REAL_TIME_FACTOR * 2)?;
        let answer = match serde_json::from_slice::<ReceivedExpression<'_>>(&question) {
            Ok(asked) => {
                // The engine stops itself at the limit, except for a loop within a built-in function.
                lock::raw::exit_after_cpu_time(within + within / 2)?;
                let answer = engine.evaluate_expression(&asked, within);
                lock::raw::exit_after_cpu_time(Duration::ZERO)?;
                answer
            }
            Err(error) => ScriptAnswer::Threw(format!("cannot parse the expression: {error}")),
        };
        frame::write_frame(&mut *to, &PLAIN_MARK, &answer.to_frame())?;
        lock::raw::exit_after(Duration::ZERO)?;
    }
}
