//! Steps with variables of their own, the loop helper that they see, and messages of the run.

use std::sync::Arc;

use flowloom_core::chat::Role;
use flowloom_core::chat::content;
use flowloom_core::path::Path;
use flowloom_core::plan::{AppendMessage, Env, HelperState, Loop, LoopHelper, ScopedSteps, TranscriptPiece, Vars};
use flowloom_core::text_size::check_text_size;
use flowloom_core::value::{Map, Value};

use super::{Interpreter, Interrupt, StepContext, StepResult};
use crate::requests::{CollectedRequests, OpenScope, ScopeKind};

/// The finished iterations of a loop, as its expressions see them.
pub(super) struct Iterations {
    finished: Arc<Vec<Value>>,
}

impl Iterations {
    pub(super) fn new() -> Iterations {
        Iterations { finished: Arc::default() }
    }

    /// Appends the output of a finished iteration, if it has one.
    pub(super) fn add_output(&mut self, output: Option<Value>) {
        Arc::make_mut(&mut self.finished).extend(output);
    }

    /// The helper before iteration `index`: all finished iterations, and the last of them.
    pub(super) fn helper_value(&self, helper: &LoopHelper, index: u64) -> Value {
        let mut map = Map::new();
        map.insert("index".into(), (index as i64).into());
        if helper.history {
            map.insert("self".into(), Value::List(self.finished.clone()));
        }
        if let Some(last) = self.finished.last() {
            map.insert("last".into(), last.clone());
        }
        map.into()
    }
}

/// Sets the names of a helper as the innermost locals.
pub(super) fn set_helper(helper: &LoopHelper, value: &Value, env: &mut Env) {
    for name in &helper.names {
        env.locals.retain(|(local, _)| local != name);
        env.locals.push((name.clone(), value.clone()));
    }
}

/// The variables of steps that have variables of their own. If the steps do not end, they are noted where requests are
/// collected.
pub(super) struct ScopedEnv<'a> {
    pub(super) env: Env,
    path: &'a Path,
    requests: Option<&'a CollectedRequests>,
}

impl<'a> ScopedEnv<'a> {
    pub(super) fn new(env: Env, path: &'a Path, requests: Option<&'a CollectedRequests>) -> ScopedEnv<'a> {
        ScopedEnv { env, path, requests }
    }

    /// Notes that the steps have ended.
    pub(super) fn close(&mut self) {
        self.requests = None;
    }
}

impl Drop for ScopedEnv<'_> {
    fn drop(&mut self) {
        if let Some(requests) = self.requests {
            let (path, values) = (self.path.clone(), self.env.vars.shared_map());
            requests.add_scope(OpenScope { path, kind: ScopeKind::Variables, values });
        }
    }
}

/// Variables that an iteration adds. If the iteration does not end, it is noted where requests are collected.
pub(super) struct OpenIteration<'a> {
    path: Path,
    values: Map,
    requests: Option<&'a CollectedRequests>,
}

impl<'a> OpenIteration<'a> {
    /// An iteration whose names are the last ones of `env`, and those of the helper of its loop.
    pub(super) fn new(path: Path, looped: &Loop, env: &Env, requests: &'a CollectedRequests) -> OpenIteration<'a> {
        let mut values = Map::new();
        let helper = looped.helper.iter().flat_map(|helper| &helper.names);
        for name in looped.counter.iter().chain(helper) {
            let local = env.locals.iter().rev().find(|(local, _)| local == name);
            values.extend(local.map(|(name, value)| (name.clone(), value.clone())));
        }
        OpenIteration { path, values, requests: Some(requests) }
    }

    /// Notes that the iteration has ended.
    pub(super) fn close(&mut self) {
        self.requests = None;
    }
}

impl Drop for OpenIteration<'_> {
    fn drop(&mut self) {
        if let Some(requests) = self.requests {
            let values = Arc::new(std::mem::take(&mut self.values));
            requests.add_scope(OpenScope { path: self.path.clone(), kind: ScopeKind::Iteration, values });
        }
    }
}

impl Interpreter {
    pub(super) async fn run_scoped(&self, scoped: &ScopedSteps, env: &mut Env, place: &StepContext) -> StepResult {
        let mut vars = Vars::default();
        for (name, value) in &scoped.provide {
            let value = value.evaluate(env, None).map_err(|error| Interrupt::Failed(error, place.path.clone()))?;
            if let Some(value) = value {
                vars.set(name.clone(), value);
            }
        }
        let requests = self.requests.as_ref();
        let mut scope = ScopedEnv::new(Env::from_vars(vars), &place.path, requests);
        let inner = &mut scope.env;
        inner.locals = env.locals.iter().filter(|(name, _)| scoped.sees.contains(name)).cloned().collect();
        inner.transcript = std::mem::take(&mut env.transcript);
        let result = self.run_scoped_body(scoped, inner, place).await;
        env.transcript = std::mem::take(&mut inner.transcript);
        result?;
        scope.close();
        self.emit_finished(place, None)?;
        Ok(Some(collect_output(&scoped.gives, &scope.env)))
    }

    async fn run_scoped_body(
        &self,
        scoped: &ScopedSteps,
        inner: &mut Env,
        place: &StepContext,
    ) -> Result<(), Interrupt> {
        // The value of the helper in the outer scope: the finished iterations.
        let followed = scoped.helper.as_ref().filter(|helper| helper.history).and_then(|helper| {
            let name = helper.names.first()?;
            let outside = inner.locals.iter().find(|(local, _)| local == name).map(|(_, value)| value.clone())?;
            Some(HelperState { helper: helper.clone(), outside, gives: scoped.gives.clone() })
        });
        inner.helper_state = followed.map(Arc::new);
        self.run_sequence(&scoped.body, inner, place).await.map(|_| ())
    }

    /// Appends a message to a conversation and to the transcript.
    pub(super) fn append_message(&self, append: &AppendMessage, env: &mut Env, place: &StepContext) -> StepResult {
        let parts = append.content.render_parts(env).map_err(|error| Interrupt::Failed(error, place.path.clone()))?;
        // The text is part of the next request.
        self.missing.hold_messages();
        if append.in_transcript {
            let text = content::describe_parts(&parts);
            self.count_computed(text.len(), place)?;
            env.write_text(TranscriptPiece { part: place.path.parent(), role: append.role, text });
        }
        let message = content::build_message(append.role, parts);
        match &append.thread {
            Some(thread) if append.role != Role::System => {
                env.append_message(thread, message);
                let bytes = env.find_thread(thread).content_bytes();
                check_text_size(bytes).map_err(|error| Interrupt::Failed(error, place.path.clone()))?;
            }
            _ => {}
        }
        Ok(None)
    }
}

/// Updates a helper so that its `self` includes the progress of the current iteration.
pub(super) fn update_helper(following: &HelperState, env: &mut Env) {
    let current = collect_output(&following.gives, env);
    set_helper(&following.helper, &with_current(&following.outside, current), env);
}

/// The output so far.
fn collect_output(gives: &[Arc<str>], inner: &Env) -> Value {
    gives.iter().filter_map(|name| Some((name.clone(), inner.vars.get(name)?.clone()))).collect::<Map>().into()
}

/// The helper in the body: its `self` ends with the progress of the current iteration.
fn with_current(outside: &Value, current: Value) -> Value {
    let mut map = outside.as_map().cloned().unwrap_or_default();
    let mut items = map.get("self").and_then(Value::as_list).map(<[Value]>::to_vec).unwrap_or_default();
    items.push(current);
    map.insert("self".into(), Value::list(items));
    map.into()
}
