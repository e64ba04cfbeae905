//! `chat`: a conversation with a graph in the terminal. Each turn is a run; what was said is kept, so that a later chat
//! goes on with it.

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::sync::Arc;

use flowloom_core::event::MemoryWrite;
use flowloom_core::hash::Hash;
use flowloom_core::plan::Plan;
use flowloom_core::status::Status;
use flowloom_core::value::Value;
use flowloom_formats::present;
use flowloom_runtime::journal::{Journal as _, Wish, thread_holder};
use flowloom_runtime::{Engine, Outcome as RunOutcome, Start};

use super::run::{choose_model, drive, refuse};
use crate::app::{self, App};
use crate::bundle::Bundle;
use crate::cli::{ChatArgs, Global, OutputArgs};
use crate::config::Config;
use crate::failure::{Failure, Outcome};
use crate::source::{self, Reading};

/// What a chat needs for each of its turns.
struct Chat<'a> {
    global: &'a Global,
    app: App,
    engine: Engine,
    plan: Arc<Plan>,
    bundle: Hash,
    user: String,
    output: OutputArgs,
}

pub(crate) async fn chat(global: &Global, arguments: ChatArgs) -> Outcome {
    let mut config = Config::load(global)?;
    choose_model(&mut config, &arguments.model);
    let reading = Reading { config: &config, format: None, lenient: arguments.lenient };
    let servers = app::servers(&config)?;
    let source = source::load_to_run(&arguments.file, &reading, &servers).await?;
    eprint!("{}", source::render(&source));
    let Some(plan) = source.compiled.plan.clone() else { return Ok(refuse(global, &source)) };
    if plan.thread.is_none() {
        let message = format!("{} is no conversation; run it with flowloom run", arguments.file.display());
        return Err(Failure::usage(message));
    }
    let app = App::open_with(config, servers)?;
    let bundle = app.bundle(&source.name, &source.files, plan.format)?;
    let bundle = Bundle { lenient: arguments.lenient, offered: source.offered.clone(), ..bundle };
    let chat = Chat {
        global,
        engine: app.engine(&bundle)?,
        bundle: app.store.keep_bundle(&bundle.text()?),
        app,
        plan: Arc::new(plan),
        user: arguments.user,
        output: OutputArgs::default(),
    };
    chat.talk(arguments.new).await
}

impl Chat<'_> {
    /// Under which this conversation is kept.
    fn thread(&self) -> String {
        self.plan.id.clone().unwrap_or_else(|| self.plan.name.clone())
    }

    async fn talk(&self, is_new: bool) -> Outcome {
        let holder = thread_holder(&self.user);
        let kept = if is_new { None } else { self.app.store.memory(&holder, &self.thread()).await? };
        let mut said = kept.unwrap_or_else(|| Value::list(Vec::new()));
        let count = said.as_list().map_or(0, <[Value]>::len);
        if count > 0 {
            eprintln!("going on with {count} messages; --new starts again");
        }
        let is_terminal = std::io::stdin().is_terminal();
        if is_terminal {
            eprintln!("/exit ends the chat");
        }
        let mut waiting: Option<RunOutcome> = None;
        loop {
            if is_terminal {
                eprint!("\n> ");
                // A prompt that cannot be shown is no reason to stop.
                let _ = std::io::stderr().flush();
            }
            let mut line = String::new();
            let read = std::io::stdin().lock().read_line(&mut line);
            if read.is_err() || read.is_ok_and(|bytes| bytes == 0) || line.trim() == "/exit" {
                return Ok(0);
            }
            if line.trim().is_empty() {
                continue;
            }
            let outcome = match waiting.take() {
                Some(before) => self.answer(&before, line.trim()).await?,
                None => self.turn(&said, line.trim()).await?,
            };
            let Some(outcome) = outcome else { return Ok(130) };
            if let Some(told) = present(&self.plan, &outcome.state, &outcome.env).result.get("messages") {
                said = told.clone();
            }
            // A run that has ended kept what was said with its last event; one that waits has not ended.
            if outcome.state.status == Status::Waiting {
                let write = MemoryWrite { key: self.thread(), value: Some(said.clone()) };
                self.app.store.remember(holder.clone(), vec![write]).await?;
            }
            match outcome.state.status {
                Status::Waiting => waiting = Some(outcome),
                Status::Cancelled => return Ok(130),
                _ => {}
            }
        }
    }

    /// One turn of the user.
    async fn turn(&self, said: &Value, text: &str) -> Result<Option<RunOutcome>, Failure> {
        let inputs = Value::map([("messages", said.clone()), ("message", text.into())]);
        let run = self.engine.start(Start {
            plan: self.plan.clone(),
            bundle: self.bundle,
            inputs,
            owner: self.user.clone(),
            agent: None,
            limits: self.app.config.limits.within(&self.plan.limits),
            depth: 0,
            workflow: None,
            keep: Some(self.thread()),
            id: None,
        })?;
        Ok(drive(self.global, &self.output, &self.engine, run, &self.plan).await)
    }

    /// What a person says where the conversation waits for one.
    async fn answer(&self, before: &RunOutcome, text: &str) -> Result<Option<RunOutcome>, Failure> {
        let open = before.state.steps().iter().find(|step| step.question.is_some());
        let Some(path) = open.map(|step| step.path.clone()) else { return Ok(None) };
        self.engine.post(before.id, Wish::Answer { path, value: text.into(), by: self.user.clone() }).await?;
        let plan = self.plan.clone();
        let run = self.engine.resume(before.id, async |_| Ok(plan)).await?;
        Ok(drive(self.global, &self.output, &self.engine, run, &self.plan).await)
    }
}
