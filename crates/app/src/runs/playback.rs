//! A recorded run, played step by step: where each step begins in the source, and the variables at that moment. Nothing is
//! performed: the variables follow from the record.

use flowloom_core::diagnostic::Span;
use flowloom_core::event::Event;
use flowloom_core::path::Path;
use flowloom_core::state::RunState;
use flowloom_core::value::{Map, Value};
use flowloom_runtime::Engine;

use crate::config::Config;
use crate::definitions::outline::{OutlineNode, outline_plan};
use crate::engines::{App, LoadedRun};
use crate::error::AppError;
use crate::runs::fork_error::ForkError;
use crate::runs::fork_names::check_set_variables;

/// A recorded run and the moments at which a debugger can stop.
pub struct Playback {
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

impl Playback {
    /// Opens the run with this id, unique id prefix, or `last`. Fails if there is none, or if its record is damaged.
    pub async fn open(config: Config, run: &str) -> Result<Playback, AppError> {
        let app = App::open(config)?;
        let opened = app.open_run(run).await?;
        let engine = app.engine_for_run(&opened)?;
        let nodes = outline_plan(&opened.plan).nodes;
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
        Ok(Playback { opened, engine, stops })
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

    /// The variables that the step at a stop sees, in the order of their first write.
    pub async fn variables_at(&self, stop: &Stop) -> Vec<(String, Value)> {
        let records = self.opened.records[..stop.records].to_vec();
        let variables = self.engine.variables_at(records, self.opened.plan.clone(), &stop.path).await;
        variables.iter().map(|(name, value)| (name.to_string(), value.clone())).collect()
    }
}

/// The variables of a run after its first `events` events, or after all of them, in the order of their first write. Nothing
/// is performed. Fails if the engine of the run cannot be built.
pub async fn read_variables(app: &App, opened: &LoadedRun, events: Option<usize>) -> Result<Map, AppError> {
    let count = events.map_or(opened.records.len(), |events| events.min(opened.records.len()));
    let records = opened.records[..count].to_vec();
    let env = app.engine_for_run(opened)?.final_env(records, opened.plan.clone()).await;
    Ok(env.vars.as_map().clone())
}

/// The node of the plan that a step of the run is, or in which it is.
fn find_node<'n>(nodes: &'n [OutlineNode], path: &Path) -> Option<&'n OutlineNode> {
    let plain = strip_iterations(path.as_str());
    let around = |node: &&OutlineNode| {
        let own = node.path.as_str();
        plain == own || plain.strip_prefix(own).is_some_and(|rest| rest.starts_with('/'))
    };
    nodes.iter().filter(around).max_by_key(|node| node.path.as_str().len())
}

/// A path without the numbers of iterations and visits, as plans have it.
fn strip_iterations(path: &str) -> String {
    let plain = |segment: &str| segment[..segment.find(['[', '#']).unwrap_or(segment.len())].to_owned();
    path.split('/').map(plain).collect::<Vec<_>>().join("/")
}
