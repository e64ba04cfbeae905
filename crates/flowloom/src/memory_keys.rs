//! `memory_keys` where blocks run: they see those keys of the memory and no others, and change no others. They get values,
//! never a way to the database.

use std::sync::Arc;

use flowloom_core::code::Code as ErrorCode;
use flowloom_core::effect::{PythonReply, PythonRequest, ScriptRequest};
use flowloom_core::error::StepError;
use flowloom_core::value::{Map, Value};
use flowloom_formats::pipeline::memory_keys;
use flowloom_runtime::effects::{Code, Context, Host, Reply};

use crate::bundle::Bundle;

/// Code that has to do with some keys only.
struct Scoped {
    inner: Arc<dyn Code>,
    keys: Vec<String>,
}

/// How the blocks of a definition are run: as ever, or with the keys that it declares.
pub(crate) fn scoped(inner: Arc<dyn Code>, bundle: &Bundle) -> Arc<dyn Code> {
    match bundle.files.get(&bundle.entry).filter(|_| bundle.format == flowloom_formats::pipeline::FORMAT) {
        Some(text) => scoped_to(inner, text),
        None => inner,
    }
}

/// How the blocks of a pipeline are run.
pub(crate) fn scoped_to(inner: Arc<dyn Code>, pipeline: &str) -> Arc<dyn Code> {
    match memory_keys(pipeline) {
        keys if keys.is_empty() => inner,
        keys => Arc::new(Scoped { inner, keys }),
    }
}

impl Scoped {
    fn has(&self, key: &str) -> bool {
        self.keys.iter().any(|declared| declared == key)
    }

    fn seen(&self, memory: &Value) -> Value {
        let all = memory.as_map().into_iter().flat_map(Map::iter);
        all.filter(|(key, _)| self.has(key)).map(|(key, value)| (key.clone(), value.clone())).collect::<Map>().into()
    }
}

impl Code for Scoped {
    fn python<'a>(
        &'a self,
        request: &'a PythonRequest,
        host: &'a dyn Host,
        context: &'a Context,
    ) -> Reply<'a, PythonReply> {
        Box::pin(async move {
            let own = PythonRequest { memory: self.seen(&request.memory), ..request.clone() };
            let reply = self.inner.python(&own, host, context).await?;
            match reply.memory.iter().find(|(key, _)| !self.has(key)) {
                None => Ok(reply),
                Some((key, _)) => {
                    let named = self.keys.join(", ");
                    let message = format!(
                        "the block writes {key:?} of the memory, which memory_keys of the pipeline does not name; \
                         it names {named}"
                    );
                    Err(StepError::new(ErrorCode::MemoryKey, message))
                }
            }
        })
    }

    fn script<'a>(&'a self, request: &'a ScriptRequest, context: &'a Context) -> Reply<'a, Option<Value>> {
        self.inner.script(request, context)
    }
}
