//! The calls of workflows that a fork does not reuse. The request of a call has a name and arguments, so it is the same
//! although the workflow is another one: what decides is whether the workflow as it is in the fork, followed with the record of
//! the child run, sends the same requests and returns the same.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use flowloom_core::effect::{CallRequest, Request};
use flowloom_core::error::StepFailure;
use flowloom_core::event::{Event, Record};
use flowloom_core::path::Path;
use flowloom_core::plan::Plan;
use flowloom_core::render;
use flowloom_core::value::Value;
use flowloom_formats::render_result;
use flowloom_runtime::child_run::ChildOutcome;
use flowloom_runtime::reopen::find_performed_step;
use flowloom_runtime::{Engine, FollowedRun};
use flowloom_store::DefinitionKind;

use super::recorded_calls::ChildRunFinder;
use crate::definitions::bundle::Bundle;
use crate::definitions::stored::{self, DefinitionContent};
use crate::error::AppError;
use crate::run_models::RunModels;
use crate::runs::stored::{LoadedRun, StoredRuns};
use crate::tools::workflows::{
    CalledWorkflow, RUN_STORED_FUNCTION, STORED_ID_ARGUMENT, build_stored_bundle, choose_settings,
};

/// How a fork compares the workflows that it calls.
#[derive(Clone, Copy)]
pub(super) struct CallComparison {
    /// Whether answers of the models of the earlier run count as answers of the models of the fork.
    pub(super) keeps_models: bool,
    /// Whether definitions in the database are compared as they are now, because the fork follows another definition.
    pub(super) reads_stored: bool,
}

/// Lists the steps of `from` that a fork with this bundle performs again, because workflows that they call would do something
/// else.
pub(super) async fn list_changed_calls(
    runs: &StoredRuns,
    from: &LoadedRun,
    bundle: &Bundle,
    comparison: CallComparison,
) -> Result<Vec<Path>, AppError> {
    if list_ended_calls(&from.records).is_empty() {
        return Ok(Vec::new());
    }
    let models = Arc::new(RunModels::new(runs.engines.build_models(bundle), bundle));
    let finder = ChildRunFinder::new(&runs.store);
    ForkedCalls { runs, comparison, models, finder }.list_changed(from, bundle).await
}

struct ForkedCalls<'a> {
    runs: &'a StoredRuns,
    comparison: CallComparison,
    models: Arc<RunModels>,
    finder: ChildRunFinder<'a>,
}

/// A recorded attempt of a step that calls a function.
struct RecordedCall {
    path: Path,
    attempt: u32,
    function: Arc<str>,
}

impl ForkedCalls<'_> {
    /// The steps of a run to perform again if its bundle becomes `bundle`.
    async fn list_changed(&mut self, from: &LoadedRun, bundle: &Bundle) -> Result<Vec<Path>, AppError> {
        if from.bundle().to_json()? == bundle.to_json()? && !self.comparison.reads_stored {
            return Ok(Vec::new());
        }
        self.finder.add_caller(from.id, &from.records);
        let calls = list_ended_calls(&from.records);
        let requests = match calls.iter().any(|call| &*call.function == RUN_STORED_FUNCTION) {
            true => self.collect_requests(from).await?,
            false => HashMap::new(),
        };
        let (state, mut changed) = (from.state(), BTreeSet::new());
        for call in calls {
            // A block is performed as a whole.
            let step = find_performed_step(&state, &call.path)?;
            let request = requests.get(&(call.path.clone(), call.attempt));
            if !changed.contains(&step) && !self.is_same_call(from, bundle, &call, request).await? {
                changed.insert(step);
            }
        }
        Ok(changed.into_iter().collect())
    }

    /// The calls of a run by step and attempt, without those of blocks.
    async fn collect_requests(&self, from: &LoadedRun) -> Result<HashMap<(Path, u32), CallRequest>, AppError> {
        let engine = self.runs.engine_for_run(from)?;
        let sent = engine.collect_requests(from.records.clone(), from.plan.clone()).await;
        let calls = sent.into_iter().filter_map(|sent| match sent.request {
            Request::Call(request) => Some(((sent.path, sent.attempt), request)),
            _ => None,
        });
        Ok(calls.collect())
    }

    async fn is_same_call(
        &mut self,
        from: &LoadedRun,
        bundle: &Bundle,
        call: &RecordedCall,
        request: Option<&CallRequest>,
    ) -> Result<bool, AppError> {
        let Some(child) = self.finder.find_child(from.id, &call.path, call.attempt)? else {
            return Ok(self.is_same_without_record(from.bundle(), bundle, &call.function));
        };
        let child = self.runs.open_run_by_id(child).await?;
        let Some(called) = self.build_called(bundle, call, request, &child) else { return Ok(false) };
        let text = called.to_json()?;
        if text != child.bundle().to_json()? {
            let Ok(prepared) = self.runs.engines.prepare_child(text.into(), &self.models) else { return Ok(false) };
            let before = self.runs.engine_for_run(&child)?;
            let before = follow_child(&before, &child, child.plan.clone()).await;
            let after = follow_child(&prepared.engine, &child, prepared.plan.clone()).await;
            let (Some(before), Some(after)) = (before, after) else { return Ok(false) };
            let is_same = before.scripts == after.scripts
                && render_reply(from.bundle(), call, child.plan.clone(), before)
                    == render_reply(bundle, call, prepared.plan, after);
            if !is_same {
                return Ok(false);
            }
        }
        Ok(Box::pin(self.list_changed(&child, &called)).await?.is_empty())
    }

    /// The bundle with which the call would run now; `None` if it would run no workflow.
    fn build_called(
        &self,
        caller: &Bundle,
        call: &RecordedCall,
        request: Option<&CallRequest>,
        child: &LoadedRun,
    ) -> Option<Bundle> {
        let earlier = child.bundle();
        let called = match &*call.function {
            RUN_STORED_FUNCTION => match request.filter(|_| self.comparison.reads_stored) {
                Some(request) => self.read_stored(caller, request, child)?,
                None => {
                    let Bundle { entry, format, files, tenant, .. } = earlier.clone();
                    let settings = choose_settings(&self.runs.engines, caller, tenant.as_ref());
                    Bundle { entry, format, files, tenant, ..settings }
                }
            },
            function => CalledWorkflow::find_called(caller, function)?.build_bundle(caller).ok()?,
        };
        let is_steered = called.is_steered || caller.is_steered;
        let called = Bundle { is_steered, ..called };
        Some(match self.comparison.keeps_models {
            true => Bundle { model: earlier.model.clone(), aliases: earlier.aliases.clone(), ..called },
            false => called,
        })
    }

    /// The bundle of the definition in the database that a call names; `None` if there is none that can be run.
    fn read_stored(&self, caller: &Bundle, request: &CallRequest, child: &LoadedRun) -> Option<Bundle> {
        let arguments = request.payload.read_arguments(STORED_ID_ARGUMENT).to_redacted_map();
        let id = render::render_text(arguments.get(STORED_ID_ARGUMENT)?, render::TextStyle::Json);
        let user = child.state().created?.user.clone();
        let row = stored::find_definition(&self.runs.store, &user, DefinitionKind::Workflow, &id).ok()??;
        let content = DefinitionContent::parse(&row.content).ok()?;
        build_stored_bundle(&self.runs.engines, caller, content, stored::find_tenant(&row)).ok()
    }

    /// Whether a call whose child run is not known would run the same workflow with the same settings. The definition of the
    /// calling run itself does not count.
    fn is_same_without_record(&self, before: &Bundle, after: &Bundle, function: &str) -> bool {
        if function == RUN_STORED_FUNCTION {
            let is_same_model = before.model == after.model && before.aliases == after.aliases;
            return self.comparison.keeps_models || is_same_model;
        }
        let build = |caller: &Bundle| {
            let called = CalledWorkflow::find_called(caller, function)?;
            let mut bundle = called.build_bundle(caller).ok()?;
            if bundle.entry != caller.entry {
                bundle.files.remove(&caller.entry);
            }
            if self.comparison.keeps_models {
                (bundle.model, bundle.aliases) = (before.model.clone(), before.aliases.clone());
            }
            bundle.to_json().ok()
        };
        build(before) == build(after)
    }
}

/// The calls in a record that have an outcome.
fn list_ended_calls(records: &[Arc<Record>]) -> Vec<RecordedCall> {
    let mut started: HashMap<(&Path, u32), &Arc<str>> = HashMap::new();
    let mut ended = Vec::new();
    for record in records {
        match &record.event {
            Event::StepStarted { kind, target, .. } if &**kind == "call" => {
                started.insert((&record.path, record.attempt), target);
            }
            Event::StepFinished { .. } | Event::StepFailed { .. } => {
                if let Some(function) = started.remove(&(&record.path, record.attempt)) {
                    let (path, function) = (record.path.clone(), function.clone());
                    ended.push(RecordedCall { path, attempt: record.attempt, function });
                }
            }
            _ => {}
        }
    }
    ended
}

/// Follows the record of a child run with a plan; `None` if a run of the plan would have another record.
async fn follow_child(engine: &Engine, child: &LoadedRun, plan: Arc<Plan>) -> Option<FollowedRun> {
    if plan.check_inputs(&child.state().inputs()).is_some() {
        return None;
    }
    engine.reproduce_record(child.records.clone(), plan).await.ok()
}

/// The result of a call after its child run.
fn render_reply(
    caller: &Bundle,
    call: &RecordedCall,
    plan: Arc<Plan>,
    followed: FollowedRun,
) -> Result<Value, StepFailure> {
    let ended = ChildOutcome { plan, state: followed.outcome.state, env: followed.outcome.env };
    match CalledWorkflow::find_called(caller, &call.function) {
        Some(called) => called.render_reply(ended),
        None => {
            let ended = ended.require_success()?;
            Ok(render_result(&ended.plan, &ended.state, &ended.env).result)
        }
    }
}
