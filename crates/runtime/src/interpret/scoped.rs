//! Steps with variables of their own, the loop helper that they see, and messages of the run.

use std::sync::Arc;

use flowloom_core::chat::Role;
use flowloom_core::chat::content;
use flowloom_core::plan::{Env, Following, Helper, Say, Scoped, Vars};
use flowloom_core::value::{Map, Value};

use super::{Halt, Interpreter, Place, Walked};

/// The finished iterations of a loop, as its expressions see them.
pub(super) struct Iterations {
    finished: Arc<Vec<Value>>,
}

impl Iterations {
    pub(super) fn new() -> Iterations {
        Iterations { finished: Arc::default() }
    }

    /// Appends the output of a finished iteration.
    pub(super) fn push(&mut self, output: Value) {
        Arc::make_mut(&mut self.finished).push(output);
    }

    /// The helper before iteration `index`: all finished iterations, and the last of them.
    pub(super) fn helper(&self, helper: &Helper, index: u64) -> Value {
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
pub(super) fn show(helper: &Helper, value: &Value, env: &mut Env) {
    for name in &helper.names {
        env.locals.retain(|(local, _)| local != name);
        env.locals.push((name.clone(), value.clone()));
    }
}

impl Interpreter {
    pub(super) async fn scoped(&self, scoped: &Scoped, env: &mut Env, place: &Place) -> Walked {
        let mut vars = Vars::default();
        for (name, value) in &scoped.provide {
            let value = value.evaluate(env, None).map_err(|error| Halt::Failed(error, place.path.clone()))?;
            if let Some(value) = value {
                vars.set(name.clone(), value);
            }
        }
        let mut inner = Env::of(vars);
        inner.locals = env.locals.iter().filter(|(name, _)| scoped.sees.contains(name)).cloned().collect();
        inner.transcript = std::mem::take(&mut env.transcript);
        let walked = self.scoped_body(scoped, &mut inner, place).await;
        env.transcript = std::mem::take(&mut inner.transcript);
        walked?;
        self.finished(place, None)?;
        Ok(Some(given(&scoped.gives, &inner)))
    }

    async fn scoped_body(&self, scoped: &Scoped, inner: &mut Env, place: &Place) -> Result<(), Halt> {
        // The value of the helper in the outer scope: the finished iterations.
        let followed = scoped.helper.as_ref().filter(|helper| helper.history).and_then(|helper| {
            let name = helper.names.first()?;
            let outside = inner.locals.iter().find(|(local, _)| local == name).map(|(_, value)| value.clone())?;
            Some(Following { helper: helper.clone(), outside, gives: scoped.gives.clone() })
        });
        inner.following = followed.map(Arc::new);
        self.sequence(&scoped.body, inner, place).await.map(|_| ())
    }

    /// Appends a message to a conversation and to the transcript.
    pub(super) fn say(&self, say: &Say, env: &mut Env, place: &Place) -> Walked {
        let parts = say.content.parts(env).map_err(|error| Halt::Failed(error, place.path.clone()))?;
        let message = content::message(say.role, parts);
        if say.written && !message.content.is_empty() {
            env.write(place.path.parent(), message.content.clone());
        }
        match &say.thread {
            Some(thread) if say.role != Role::System => env.say(thread, message),
            _ => {}
        }
        Ok(None)
    }
}

/// Updates a helper so that its `self` includes the progress of the current iteration.
pub(super) fn follow(following: &Following, env: &mut Env) {
    let current = given(&following.gives, env);
    show(&following.helper, &with_current(&following.outside, current), env);
}

/// The output so far.
fn given(gives: &[Arc<str>], inner: &Env) -> Value {
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
