//! The side of the model process: loads one model, then answers job after job until its parent closes the pipe.

use std::ffi::OsString;
use std::io::{BufRead, Write, stdin, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};

use llama_cpp_2::{LogOptions, send_logs_to_tracing};
use tracing::Level;

use super::protocol::{Reply, WorkerRequest};
use crate::language::{AnswerJob, LanguageModel};
use crate::process::processor::check_processor;

/// First argument of a model process; the second is the model file.
pub(super) const WORKER_ARGUMENT: &str = "__language-model";

/// Runs a model process if the arguments of the program ask for one. Call it first in `main`.
pub fn worker_main(arguments: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut arguments = arguments.into_iter().skip(1);
    if arguments.next()? != WORKER_ARGUMENT {
        return None;
    }
    let file = PathBuf::from(arguments.next().unwrap_or_default());
    Some(serve_model(&file))
}

fn serve_model(file: &Path) -> ExitCode {
    // The parent shows the last line of stderr if this process crashes.
    tracing_subscriber::fmt()
        .with_max_level(Level::ERROR)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .without_time()
        .with_level(false)
        .with_target(false)
        .init();
    send_logs_to_tracing(LogOptions::default());
    let stop = Arc::new(AtomicBool::new(false));
    let jobs = read_jobs(stop.clone());
    let model = match check_processor().and_then(|()| LanguageModel::load_model(file)) {
        Ok(model) => model,
        Err(message) => {
            send_reply(&Reply::NotLoaded(message));
            return ExitCode::FAILURE;
        }
    };
    send_reply(&Reply::Ready);
    for job in jobs {
        let shown = &mut |text: &str| send_reply(&Reply::Text(text.to_owned()));
        send_reply(&match model.generate_text(&job, &stop, shown) {
            Ok(generated) => Reply::Answered(generated),
            Err(error) => Reply::Failed(error),
        });
    }
    ExitCode::SUCCESS
}

/// Reads requests on a thread of its own, so that an answer can be cancelled and the process ends with its parent.
fn read_jobs(stop: Arc<AtomicBool>) -> Receiver<AnswerJob> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in stdin().lock().lines() {
            match line.ok().and_then(|line| serde_json::from_str(&line).ok()) {
                Some(WorkerRequest::Answer(job)) => {
                    stop.store(false, Ordering::Relaxed);
                    if sender.send(*job).is_err() {
                        break;
                    }
                }
                Some(WorkerRequest::Cancel) => stop.store(true, Ordering::Relaxed),
                None => break,
            }
        }
        // The parent is gone, or sends something that this process does not understand.
        std::process::exit(0);
    });
    receiver
}

/// Ends the process if the reader is gone.
fn send_reply(reply: &Reply) {
    let mut out = stdout().lock();
    let sent = serde_json::to_writer(&mut out, reply).map_err(std::io::Error::from);
    if sent.and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush()).is_err() {
        std::process::exit(1);
    }
}
