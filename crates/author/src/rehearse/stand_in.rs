//! The effects of a dry run: harmless ones are performed, all others are mocked or rejected, and notes record which.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flowloom_core::chat::{Message, Usage};
use flowloom_core::code::Code;
use flowloom_core::effect::{
    CallRequest, GenerateRequest, Generated, HttpReply, HttpRequest, PythonReply, PythonRequest, ScrapeRequest,
    ScriptRequest,
};
use flowloom_core::error::StepError;
use flowloom_core::path::Path;
use flowloom_core::plan::{EffectClass, Kind, Leaf, Plan};
use flowloom_core::render;
use flowloom_core::value::{Map, Value};
use flowloom_formats::pipeline;
use flowloom_runtime::effects::{
    Code as Sandbox, Context, Functions, Host, Http, Model, Price, Reply, Scraper, Substeps,
};

use super::play::{self, Fixtures, Source};
use super::{Given, Prompts, Rehearser};

/// The function that sends a notification to the user.
const NOTIFY: &str = "notify::push";
/// The name of the model of mocked prompts.
const PLAYED: &str = "rehearsal:played";

/// Notes about a node.
#[derive(Clone, Debug, Default)]
pub(super) struct Note {
    /// The inputs, if the node is not a prompt.
    pub(super) inputs: Option<Value>,
    /// The source of the output, if the node was mocked.
    pub(super) played: Option<Source>,
    /// Whether the node failed after it requested something that a dry run does not provide.
    pub(super) wanted_more: bool,
    /// The arguments of the notification that it would have sent.
    pub(super) notification: Option<Value>,
}

/// Mocked effects.
pub(super) struct StandIn {
    model: Arc<dyn Model>,
    named: Option<String>,
    code: Arc<dyn Sandbox>,
    prompts: Prompts,
    fixtures: Fixtures,
    /// The block of each node.
    blocks: HashMap<Path, Value>,
    notes: Mutex<HashMap<Path, Note>>,
}

impl StandIn {
    /// Effects for the nodes of `plan`. Of two blocks with the same id the first one is used. Blocks that are not in
    /// `blocks` are never mocked.
    pub(super) fn new(world: &Rehearser, given: &Given, plan: &Plan, blocks: Vec<Value>) -> StandIn {
        let named = |id: &str| blocks.iter().find(|block| block.get("id").and_then(Value::as_str) == Some(id)).cloned();
        let nodes = pipeline::dag(plan).into_iter().flat_map(|(dag, place)| {
            let at = move |step: &flowloom_core::plan::Step| place.child(&step.key);
            dag.nodes.iter().map(move |node| (at(&node.step), &node.step.kind))
        });
        let block = |(path, kind): (Path, &Kind)| match kind {
            Kind::Leaf(Leaf::Block(block)) => Some((path, named(&block.id)?)),
            _ => None,
        };
        StandIn {
            model: world.model.clone(),
            named: world.named.clone(),
            code: world.code.clone(),
            prompts: given.prompts,
            fixtures: given.fixtures.clone(),
            blocks: nodes.filter_map(block).collect(),
            notes: Mutex::default(),
        }
    }

    /// The notes of all nodes.
    pub(super) fn notes(&self) -> HashMap<Path, Note> {
        self.noted().clone()
    }

    fn noted(&self) -> MutexGuard<'_, HashMap<Path, Note>> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, path: &Path, note: impl FnOnce(&mut Note)) {
        note(self.noted().entry(path.clone()).or_default());
    }

    /// The mocked output of the block at `path`.
    fn play(&self, path: &Path, inputs: &Value) -> Result<Value, StepError> {
        let played = self.blocks.get(path).and_then(|block| play::anything(&self.fixtures, block, inputs));
        self.note(path, |note| note.played = Some(played.as_ref().map_or(Source::MadeUp, |(_, source)| *source)));
        let nothing = || {
            StepError::new(Code::FunctionFailed, "functions are not called in a dry run, and this one has no example")
        };
        played.map(|(outputs, _)| outputs).ok_or_else(nothing)
    }

    async fn run(&self, request: &PythonRequest, host: &dyn Host, context: &Context) -> Result<PythonReply, StepError> {
        let path = &context.path;
        self.note(path, |note| note.inputs = Some(request.inputs.clone()));
        let guarded = Guarded { host, prompts: self.prompts, wanted_more: AtomicBool::new(false) };
        let ran = self.code.python(request, &guarded, context).await;
        let failed = ran.as_ref().map_or(true, |reply| reply.output.get("error").is_some());
        if !failed || !guarded.wanted_more.into_inner() {
            return ran;
        }
        self.note(path, |note| note.wanted_more = true);
        let known = self.blocks.get(path).and_then(|block| play::known(&self.fixtures, block, &request.inputs));
        let Some((output, source)) = known else { return ran };
        self.note(path, |note| note.played = Some(source));
        Ok(PythonReply { output, memory: Vec::new() })
    }
}

fn no_network(address: &str) -> StepError {
    StepError::new(Code::EgressDenied, format!("there is no network while a pipeline is tried: {address}"))
}

impl Functions for StandIn {
    fn class(&self, _request: &CallRequest) -> EffectClass {
        EffectClass::AtLeastOnce
    }

    fn permit(&self, _agent: &str, _function: &str) -> Result<(), StepError> {
        Ok(())
    }

    fn call<'a>(
        &'a self,
        request: &'a CallRequest,
        context: &'a Context,
        _below: &'a dyn Substeps,
    ) -> Reply<'a, Value> {
        Box::pin(async move {
            let inputs = request.payload.to_value();
            let notification = (&*request.function == NOTIFY).then(|| inputs.clone());
            self.note(&context.path, |note| {
                note.inputs = Some(inputs.clone());
                note.notification = notification;
            });
            self.play(&context.path, &inputs)
        })
    }
}

impl Model for StandIn {
    fn resolve(&self, named: Option<&str>) -> Result<String, StepError> {
        match self.prompts {
            Prompts::Asked => self.model.resolve(named.or(self.named.as_deref())),
            Prompts::Played => Ok(PLAYED.to_owned()),
        }
    }

    fn generate<'a>(&'a self, request: &'a GenerateRequest, context: &'a Context) -> Reply<'a, Generated> {
        match self.prompts {
            Prompts::Asked => self.model.generate(request, context),
            Prompts::Played => Box::pin(async move {
                let output = self.play(&context.path, &Map::new().into())?;
                Ok(Generated { text: Some(render::json(&output)), tool_calls: Vec::new(), usage: Usage::none() })
            }),
        }
    }

    fn window(&self, model: &str) -> u64 {
        self.model.window(model)
    }

    fn count_tokens(&self, model: &str, text: &str) -> u64 {
        self.model.count_tokens(model, text)
    }

    fn default_max_tokens(&self, model: &str) -> u64 {
        self.model.default_max_tokens(model)
    }

    fn price(&self, model: &str) -> Option<Price> {
        match self.prompts {
            Prompts::Asked => self.model.price(model),
            Prompts::Played => Some(Price { input: 0, output: 0 }),
        }
    }
}

impl Http for StandIn {
    fn send<'a>(&'a self, request: &'a HttpRequest, _context: &'a Context) -> Reply<'a, HttpReply> {
        let error = no_network(&request.url.names_only());
        Box::pin(async move { Err(error) })
    }
}

impl Scraper for StandIn {
    fn fetch<'a>(&'a self, request: &'a ScrapeRequest, _context: &'a Context) -> Reply<'a, String> {
        Box::pin(async move { Err(no_network(&request.url)) })
    }

    fn select(&self, _html: &str, selector: &str) -> Result<Vec<String>, StepError> {
        Err(no_network(selector))
    }
}

impl Sandbox for StandIn {
    fn python<'a>(
        &'a self,
        request: &'a PythonRequest,
        host: &'a dyn Host,
        context: &'a Context,
    ) -> Reply<'a, PythonReply> {
        Box::pin(self.run(request, host, context))
    }

    fn script<'a>(&'a self, request: &'a ScriptRequest, context: &'a Context) -> Reply<'a, Option<Value>> {
        self.code.script(request, context)
    }
}

/// What a Python block may request: the model if prompts are called, and nothing else.
struct Guarded<'a> {
    host: &'a dyn Host,
    prompts: Prompts,
    wanted_more: AtomicBool,
}

impl Host for Guarded<'_> {
    fn http<'a>(&'a self, request: HttpRequest) -> Reply<'a, HttpReply> {
        self.wanted_more.store(true, Ordering::Relaxed);
        let error = no_network(&request.url.names_only());
        Box::pin(async move { Err(error) })
    }

    fn generate<'a>(&'a self, messages: Vec<Message>) -> Reply<'a, Generated> {
        if self.prompts == Prompts::Asked {
            return self.host.generate(messages);
        }
        self.wanted_more.store(true, Ordering::Relaxed);
        Box::pin(async { Err(StepError::new(Code::ModelNone, "no model is asked while a pipeline is tried")) })
    }
}
