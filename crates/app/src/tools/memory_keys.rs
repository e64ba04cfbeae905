//! Enforces `memory_keys` of pipelines: blocks read and write only the declared keys of the user's memory. Blocks
//! receive values, never access to the database.

use std::sync::Arc;

use flowloom_core::code::Code as ErrorCode;
use flowloom_core::effect::{PythonReply, PythonRequest, ScriptRequest};
use flowloom_core::error::StepError;
use flowloom_core::value::{Map, Value};
use flowloom_formats::pipeline::memory_keys;
use flowloom_runtime::effects::{Code, Context, Host, Reply};

use crate::definitions::bundle::Bundle;

/// Runs code with access to the declared memory keys only.
struct Scoped {
    inner: Arc<dyn Code>,
    keys: Vec<String>,
}

/// Restricts code to the memory keys of a bundle's definition; definitions without `memory_keys` are unrestricted.
pub fn scoped(inner: Arc<dyn Code>, bundle: &Bundle) -> Arc<dyn Code> {
    match bundle.files.get(&bundle.entry).filter(|_| bundle.format == flowloom_formats::pipeline::FORMAT) {
        Some(text) => scoped_to(inner, text),
        None => inner,
    }
}

/// Restricts code to the memory keys of a pipeline.
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
