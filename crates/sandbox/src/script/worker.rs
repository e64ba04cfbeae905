//! The worker: locks itself down, then evaluates one expression after another, each in an engine of its own.

use std::io::{self, Read, Write};
use std::process::ExitCode;
use std::time::Duration;

use super::engine::Engine;
use super::wire::{Answer, Asked, Setup};
use crate::config::PATIENCE;
use crate::frame::{self, PLAIN};
use crate::lock;

/// Maximum size of an expression with its names, in bytes; inputs of a run are limited to much less.
pub(super) const QUESTION_BYTES: usize = 256 << 20;

/// Runs the worker until its input ends.
pub(crate) fn worker() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn serve() -> io::Result<()> {
    let (mut from, mut to) = (io::stdin().lock(), io::stdout().lock());
    let Some(setup) = frame::read(&mut from, &PLAIN, QUESTION_BYTES)? else { return Ok(()) };
    let setup: Setup = serde_json::from_slice(&setup)?;
    // An expression of any size must fit in memory in addition to the engine's limit.
    let locked = lock::expressions(setup.memory_bytes);
    frame::write(&mut to, &PLAIN, locked.as_ref().err().map_or("", String::as_str).as_bytes())?;
    if locked.is_err() {
        return Ok(());
    }
    answer_all(&setup, &mut from, &mut to)
}

fn answer_all(setup: &Setup, from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let within = Duration::from_millis(setup.timeout_ms);
    loop {
        // Created while no expression is waiting.
        let engine = Engine::new(setup).map_err(io::Error::other)?;
        let Some(question) = frame::read(&mut *from, &PLAIN, QUESTION_BYTES)? else { return Ok(()) };
        // If the process that sent the expression is gone, nothing else kills this worker.
        lock::raw::end_after(within * PATIENCE * 2)?;
        let answer = match serde_json::from_slice::<Asked<'_>>(&question) {
            Ok(asked) => engine.evaluate(&asked, within),
            Err(error) => Answer::Threw(format!("cannot parse the expression: {error}")),
        };
        frame::write(&mut *to, &PLAIN, &answer.write())?;
        lock::raw::end_after(Duration::ZERO)?;
    }
}
