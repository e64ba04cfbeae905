//! The effects of a dry run: harmless ones are performed, all others are mocked or rejected, and notes record which.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use flowloom_core::chat::{Message, Usage};
use flowloom_core::code::Code;
use flowloom_core::effect::{
    CallRequest, GenerateReply, GenerateRequest, HttpReply, HttpRequest, PythonReply, PythonRequest, ScrapeRequest,
    ScriptRequest,
};
use flowloom_core::error::StepFailure;
use flowloom_core::path::Path;
use flowloom_core::plan::{EffectClass, Leaf, Plan, StepKind};
use flowloom_core::render;
use flowloom_core::value::{Map, Value};
use flowloom_formats::pipeline;
use flowloom_runtime::effects::{
    ChildEffects, CodeRunner as Sandbox, EffectContext, EffectFuture, Functions, HttpSender, Model, Price, SandboxHost,
    Scraper,
};
use parking_lot::{Mutex, MutexGuard};

use super::mocks::{self, Fixtures, MockSource};
use super::{DryRunInputs, DryRunner, Prompts};

/// The function that sends a notification to the user.
const NOTIFY_FUNCTION: &str = "notify::push";
/// The name of the model of mocked prompts.
const MOCK_MODEL: &str = "dry_run:mock";

/// Notes about a node.
#[derive(Clone, Debug, Default)]
pub(super) struct Note {
    /// The inputs, if the node is not a prompt.
    pub(super) inputs: Option<Value>,
    /// The source of the output, if the node was mocked.
    pub(super) mocked: Option<MockSource>,
    /// Whether the node failed after it requested something that a dry run does not provide.
    pub(super) wanted_more: bool,
    /// The arguments of the notification that it would have sent.
    pub(super) notification: Option<Value>,
}

/// Mocked effects.
pub(super) struct MockEffects {
    model: Arc<dyn Model>,
    named: Option<String>,
    code: Arc<dyn Sandbox>,
    prompts: Prompts,
    fixtures: Fixtures,
    /// The block of each node.
    blocks: HashMap<Path, Value>,
    notes: Mutex<HashMap<Path, Note>>,
}

impl MockEffects {
    /// Effects for the nodes of `plan`. Of two blocks with the same id the first one is used. Blocks that are not in
    /// `blocks` are never mocked.
    pub(super) fn new(world: &DryRunner, given: &DryRunInputs, plan: &Plan, blocks: Vec<Value>) -> MockEffects {
        let named = |id: &str| blocks.iter().find(|block| block.get("id").and_then(Value::as_str) == Some(id)).cloned();
        let nodes = pipeline::find_dag(plan).into_iter().flat_map(|(dag, place)| {
            let at = move |step: &flowloom_core::plan::Step| place.child_path(&step.key);
            dag.nodes.iter().map(move |node| (at(&node.step), &node.step.kind))
        });
        let block = |(path, kind): (Path, &StepKind)| match kind {
            StepKind::Leaf(Leaf::Block(block)) => Some((path, named(&block.id)?)),
            _ => None,
        };
        MockEffects {
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
    pub(super) fn collect_node_notes(&self) -> HashMap<Path, Note> {
        self.lock_notes().clone()
    }

    fn lock_notes(&self) -> MutexGuard<'_, HashMap<Path, Note>> {
        self.notes.lock()
    }

    fn update_note(&self, path: &Path, note: impl FnOnce(&mut Note)) {
        note(self.lock_notes().entry(path.clone()).or_default());
    }

    /// The mocked output of the block at `path`.
    fn mock_block(&self, path: &Path, inputs: &Value) -> Result<Value, StepFailure> {
        let mock = self.blocks.get(path).and_then(|block| mocks::mock_output(&self.fixtures, block, inputs));
        self.update_note(path, |note| {
            note.mocked = Some(mock.as_ref().map_or(MockSource::MadeUp, |(_, source)| *source))
        });
        let nothing = || {
            StepFailure::new(Code::FunctionFailed, "functions are not called in a dry run, and this one has no example")
        };
        mock.map(|(outputs, _)| outputs).ok_or_else(nothing)
    }

    async fn run_guarded(
        &self,
        request: &PythonRequest,
        host: &dyn SandboxHost,
        context: &EffectContext,
    ) -> Result<PythonReply, StepFailure> {
        let path = &context.path;
        self.update_note(path, |note| note.inputs = Some(request.inputs.clone()));
        let guarded = GuardedHost { host, prompts: self.prompts, wanted_more: AtomicBool::new(false) };
        let ran = self.code.run_python(request, &guarded, context).await;
        let failed = ran.as_ref().map_or(true, |reply| reply.output.get("error").is_some());
        if !failed || !guarded.wanted_more.into_inner() {
            return ran;
        }
        self.update_note(path, |note| note.wanted_more = true);
        let known = self.blocks.get(path).and_then(|block| mocks::known_output(&self.fixtures, block, &request.inputs));
        let Some((output, source)) = known else { return ran };
        self.update_note(path, |note| note.mocked = Some(source));
        Ok(PythonReply { output, memory: Vec::new(), queued_ms: None })
    }
}

fn no_network_error(address: &str) -> StepFailure {
    StepFailure::new(Code::EgressDenied, format!("there is no network in a dry run: {address}"))
}

impl Functions for MockEffects {
    fn effect_class(&self, _request: &CallRequest) -> EffectClass {
        EffectClass::AtLeastOnce
    }

    fn check_agent(&self, _agent: &str) -> Result<(), StepFailure> {
        Ok(())
    }

    fn check_permission(&self, _agent: &str, _function: &str) -> Result<(), StepFailure> {
        Ok(())
    }

    fn call_function<'a>(
        &'a self,
        request: &'a CallRequest,
        context: &'a EffectContext,
        _below: &'a dyn ChildEffects,
    ) -> EffectFuture<'a, Value> {
        Box::pin(async move {
            let inputs = request.payload.to_value();
            let notification = (&*request.function == NOTIFY_FUNCTION).then(|| inputs.clone());
            self.update_note(&context.path, |note| {
                note.inputs = Some(inputs.clone());
                note.notification = notification;
            });
            self.mock_block(&context.path, &inputs)
        })
    }
}

impl Model for MockEffects {
    fn resolve(&self, named: Option<&str>) -> Result<String, StepFailure> {
        match self.prompts {
            Prompts::Called => self.model.resolve(named.or(self.named.as_deref())),
            Prompts::Mocked => Ok(MOCK_MODEL.to_owned()),
        }
    }

    fn generate_reply<'a>(
        &'a self,
        request: &'a GenerateRequest,
        context: &'a EffectContext,
    ) -> EffectFuture<'a, GenerateReply> {
        match self.prompts {
            Prompts::Called => self.model.generate_reply(request, context),
            Prompts::Mocked => Box::pin(async move {
                let output = self.mock_block(&context.path, &Map::new().into())?;
                Ok(GenerateReply {
                    text: Some(render::to_json(&output)),
                    tool_calls: Vec::new(),
                    usage: Usage::none(),
                    ..GenerateReply::default()
                })
            }),
        }
    }

    fn context_window(&self, model: &str) -> u64 {
        self.model.context_window(model)
    }

    fn count_tokens(&self, model: &str, text: &str) -> u64 {
        self.model.count_tokens(model, text)
    }

    fn default_max_tokens(&self, model: &str) -> u64 {
        self.model.default_max_tokens(model)
    }

    fn find_price(&self, model: &str) -> Option<Price> {
        match self.prompts {
            Prompts::Called => self.model.find_price(model),
            Prompts::Mocked => Some(Price { input: 0, output: 0 }),
        }
    }
}

impl HttpSender for MockEffects {
    fn send_request<'a>(
        &'a self,
        request: &'a HttpRequest,
        _context: &'a EffectContext,
    ) -> EffectFuture<'a, HttpReply> {
        let error = no_network_error(&request.url.to_redacted_text());
        Box::pin(async move { Err(error) })
    }
}

impl Scraper for MockEffects {
    fn fetch_page<'a>(&'a self, request: &'a ScrapeRequest, _context: &'a EffectContext) -> EffectFuture<'a, String> {
        Box::pin(async move { Err(no_network_error(&request.url)) })
    }

    fn select_html(&self, _html: &str, selector: &str) -> Result<Vec<String>, StepFailure> {
        Err(no_network_error(selector))
    }
}

impl Sandbox for MockEffects {
    fn run_python<'a>(
        &'a self,
        request: &'a PythonRequest,
        host: &'a dyn SandboxHost,
        context: &'a EffectContext,
    ) -> EffectFuture<'a, PythonReply> {
        Box::pin(self.run_guarded(request, host, context))
    }

    fn evaluate_script<'a>(
        &'a self,
        request: &'a ScriptRequest,
        context: &'a EffectContext,
    ) -> EffectFuture<'a, Option<Value>> {
        self.code.evaluate_script(request, context)
    }
}

/// Restricts a Python block in a dry run to model calls, if prompts are called.
struct GuardedHost<'a> {
    host: &'a dyn SandboxHost,
    prompts: Prompts,
    wanted_more: AtomicBool,
}

impl SandboxHost for GuardedHost<'_> {
    fn send_http<'a>(&'a self, request: HttpRequest) -> EffectFuture<'a, HttpReply> {
        self.wanted_more.store(true, Ordering::Relaxed);
        let error = no_network_error(&request.url.to_redacted_text());
        Box::pin(async move { Err(error) })
    }

    fn generate_reply<'a>(&'a self, messages: Vec<Message>) -> EffectFuture<'a, GenerateReply> {
        if self.prompts == Prompts::Called {
            return self.host.generate_reply(messages);
        }
        self.wanted_more.store(true, Ordering::Relaxed);
        Box::pin(async { Err(StepFailure::new(Code::ModelNone, "models are not called in a dry run")) })
    }
}
