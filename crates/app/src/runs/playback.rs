//! A recorded run, played step by step: where each step begins in the source, and the variables at that moment. Nothing is
//! performed: the variables follow from the record.

use std::collections::HashMap;
use std::sync::Arc;

use flowloom_core::diagnostic::Span;
use flowloom_core::effect::ScriptRequest;
use flowloom_core::error::StepFailure;
use flowloom_core::event::{Event, Record};
use flowloom_core::id::RunId;
use flowloom_core::path::Path;
use flowloom_core::state::RunState;
use flowloom_core::value::{Map, Value};
use flowloom_formats::markdown::VariableExpression;
use flowloom_runtime::Engine;
use flowloom_runtime::child_run::find_child_run_id;
use flowloom_runtime::requests::{OpenScope, ScopeKind};

use crate::config::Config;
use crate::definitions::outline::{OutlineNode, outline_plan};
use crate::engines::App;
use crate::error::AppError;
use crate::runs::fork_error::ForkError;
use crate::runs::fork_names::check_set_variables;
use crate::runs::stored::{LoadedRun, StoredRuns};

/// A recorded run and the moments at which a debugger can stop.
pub struct Playback {
    runs: StoredRuns,
    opened: LoadedRun,
    engine: Engine,
    /// The moments, in the order of the record. There is always one. The last one is the end, if the run has ended.
    pub stops: Vec<Stop>,
}

/// A moment of a run: just before a step begins, or the end.
#[derive(Clone, Debug)]
pub struct Stop {
    /// The number of records that have happened.
    pub records: usize,
    /// The step; the root at the end.
    pub path: Path,
    /// The name of the step that people see.
    pub title: String,
    /// The place of the step in the definition; `None` if the definition does not have it, and at the end.
    pub span: Option<Span>,
}

/// Names that the step at a stop sees, with their values, in the order of their first write.
pub struct VisibleScope {
    /// The step or the iteration that has them; the root for those of the run.
    pub path: Path,
    /// Whether they are what an iteration adds, such as its number, and no variables.
    pub is_iteration: bool,
    /// The names and their values.
    pub values: Vec<(String, Value)>,
}

impl Playback {
    /// Opens the run with this id, unique id prefix, or `last`. Fails if there is none, or if its record is damaged.
    pub async fn open(config: Config, run: &str) -> Result<Playback, AppError> {
        let runs = App::open(config)?.runs;
        let opened = runs.open_run(run).await?;
        let engine = runs.engine_for_run(&opened)?;
        let outline = outline_plan(&opened.plan);
        let nodes = outline.nodes.iter().map(|node| (node.path.as_str(), node)).collect();
        let mut stops: Vec<Stop> = Vec::new();
        for (position, record) in opened.records.iter().enumerate() {
            if !matches!(record.event, Event::StepStarted { .. } | Event::Asked(_)) || record.attempt > 1 {
                continue;
            }
            // A question is asked within the step that has started.
            if stops.last().is_some_and(|stop| stop.path == record.path) {
                continue;
            }
            let node = find_node(&nodes, &record.path);
            // What a format loads before its first step is in no definition.
            if matches!(record.event, Event::StepStarted { .. }) && node.is_none_or(|node| node.span.is_none()) {
                continue;
            }
            stops.push(Stop {
                records: position,
                path: record.path.clone(),
                title: node.map_or_else(|| record.path.as_str().to_owned(), |node| node.title.clone()),
                span: node.and_then(|node| node.span),
            });
        }
        if opened.state().finished_at.is_some() || stops.is_empty() {
            let (records, title) = (opened.records.len(), "end of the run".to_owned());
            stops.push(Stop { records, path: Path::root(), title, span: None });
        }
        Ok(Playback { runs, opened, engine, stops })
    }

    /// The id of the run.
    pub fn run_id(&self) -> String {
        self.opened.id.to_string()
    }

    /// The text of the definition, as the run has read it.
    pub fn definition(&self) -> &str {
        self.opened.definition()
    }

    /// The state of the run at a stop.
    pub fn state_at(&self, stop: &Stop) -> RunState {
        RunState::up_to_illegal(self.opened.records[..stop.records].iter().map(|record| &**record)).0
    }

    /// Fails if a variable that is set at a stop would be none there.
    pub fn check_variable(&self, stop: &Stop, name: &str) -> Result<(), ForkError> {
        let inputs = self.opened.state().inputs();
        check_set_variables(&self.opened.plan, &stop.path, &inputs, std::iter::once(name))
    }

    /// The scopes visible to the step at a stop, from the innermost iteration or block to the variables of the run.
    pub async fn scopes_at(&self, stop: &Stop) -> Vec<VisibleScope> {
        let records = self.opened.records[..stop.records].to_vec();
        let scopes = self.engine.list_scopes(records, self.opened.plan.clone(), &stop.path).await;
        let describe = |scope: OpenScope| VisibleScope {
            is_iteration: scope.kind == ScopeKind::Iteration,
            values: scope.values.iter().map(|(name, value)| (name.to_string(), value.clone())).collect(),
            path: scope.path,
        };
        scopes.into_iter().map(describe).filter(|scope| !(scope.is_iteration && scope.values.is_empty())).collect()
    }

    /// The value of an expression over what the step at a stop sees; `None` for `undefined`. Calls of JavaScript need the
    /// sandbox. Fails if the expression throws, or if it needs the sandbox and there is none.
    pub async fn evaluate_at(
        &self,
        stop: &Stop,
        expression: &VariableExpression,
    ) -> Result<Option<Value>, StepFailure> {
        let mut variables = Map::new();
        for scope in self.scopes_at(stop).await.into_iter().rev() {
            variables.extend(scope.values.into_iter().map(|(name, value)| (name.into(), value)));
        }
        if let Some(value) = expression.evaluate_natively(&variables) {
            return value;
        }
        let value_of = |name: &Arc<str>| (name.clone(), variables.get(name).cloned());
        let request = ScriptRequest {
            source: expression.source.clone(),
            names: expression.names.iter().map(value_of).collect(),
            now_ms: self.opened.records[..stop.records].last().map_or(0, |record| record.at),
            seed: 0,
        };
        let user = self.opened.state().created.map(|created| created.user.clone()).unwrap_or_default();
        self.runs.evaluate_script(&request, &user).await
    }

    /// The variables of the child runs of the steps before a stop, by the paths of the steps, with those of runs below them.
    /// A child run that has not ended has those that it has now. Fails if a child run cannot be opened.
    pub async fn child_variables_at(&self, stop: &Stop) -> Result<Vec<(String, Value)>, AppError> {
        let started = list_calls(&self.opened.records[..stop.records]);
        let mut pending: Vec<ChildCall> =
            started.into_iter().map(|(path, attempt)| ChildCall::new(self.opened.id, path, attempt)).collect();
        let mut found = Vec::new();
        while let Some(call) = pending.pop() {
            if self.runs.store.get_run(call.child)?.is_none() {
                continue;
            }
            let child = self.runs.open_run_by_id(call.child).await?;
            pending
                .extend(list_calls(&child.records).into_iter().map(|(path, attempt)| call.call_below(path, attempt)));
            let variables = read_variables(&self.runs, &child, None).await?;
            found.push((call.shown.to_string(), Value::from(variables)));
        }
        found.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(found)
    }
}

/// An attempt of a step that may have started a child run.
struct ChildCall {
    /// The path of the child run, as the outermost run names it.
    shown: Path,
    child: RunId,
}

impl ChildCall {
    fn new(run: RunId, path: Path, attempt: u32) -> ChildCall {
        let child = find_child_run_id(run, &path, attempt);
        ChildCall { shown: path.child_run_path(attempt, &Path::root()), child }
    }

    /// An attempt of a step of the child run.
    fn call_below(&self, path: Path, attempt: u32) -> ChildCall {
        let inner = ChildCall::new(self.child, path, attempt);
        let shown = Path::parse(&format!("{}{}", self.shown, inner.shown)).unwrap_or_else(Path::root);
        ChildCall { shown, ..inner }
    }
}

/// The attempts of steps that call functions.
fn list_calls(records: &[Arc<Record>]) -> Vec<(Path, u32)> {
    let is_call = |record: &&Arc<Record>| matches!(&record.event, Event::StepStarted { kind, .. } if &**kind == "call");
    records.iter().filter(is_call).map(|record| (record.path.clone(), record.attempt)).collect()
}

/// The variables of a run after its first `events` events, or after all of them, in the order of their first write. Nothing
/// is performed. Fails if the engine of the run cannot be built.
pub async fn read_variables(runs: &StoredRuns, opened: &LoadedRun, events: Option<usize>) -> Result<Map, AppError> {
    let count = events.map_or(opened.records.len(), |events| events.min(opened.records.len()));
    let records = opened.records[..count].to_vec();
    let env = runs.find_env(opened, records).await?;
    Ok(env.vars.as_map().clone())
}

/// The node of the plan that a step of the run is, or in which it is.
fn find_node<'n>(nodes: &HashMap<&str, &'n OutlineNode>, path: &Path) -> Option<&'n OutlineNode> {
    let plain = path.drop_repetitions();
    let ends = plain.match_indices('/').map(|(end, _)| end).chain([plain.len()]);
    ends.rev().find_map(|end| nodes.get(&plain[..end]).copied())
}
