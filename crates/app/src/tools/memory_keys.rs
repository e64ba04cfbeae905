//! Enforces `memory_keys` of pipelines: blocks read and write only the declared keys of the user's memory. Blocks
//! receive values, never access to the database.

use std::sync::Arc;

use flowloom_core::code::Code as ErrorCode;
use flowloom_core::effect::{PythonReply, PythonRequest, ScriptRequest};
use flowloom_core::error::StepFailure;
use flowloom_core::value::{Map, Value};
use flowloom_formats::pipeline::memory_keys;
use flowloom_runtime::effects::{CodeRunner, EffectContext, EffectFuture, SandboxHost};

use crate::definitions::bundle::Bundle;

/// Runs code with access to the declared memory keys only.
struct ScopedCode {
    inner: Arc<dyn CodeRunner>,
    keys: Vec<String>,
}

/// Restricts code to the memory keys of a bundle's definition; definitions without `memory_keys` are unrestricted.
pub fn scope_to_bundle(inner: Arc<dyn CodeRunner>, bundle: &Bundle) -> Arc<dyn CodeRunner> {
    match bundle.files.get(&bundle.entry).filter(|_| bundle.format == flowloom_formats::pipeline::FORMAT) {
        Some(text) => scope_to_pipeline(inner, text),
        None => inner,
    }
}

/// Restricts code to the memory keys of a pipeline.
pub(crate) fn scope_to_pipeline(inner: Arc<dyn CodeRunner>, pipeline: &str) -> Arc<dyn CodeRunner> {
    match memory_keys(pipeline) {
        keys if keys.is_empty() => inner,
        keys => Arc::new(ScopedCode { inner, keys }),
    }
}

impl ScopedCode {
    fn is_declared(&self, key: &str) -> bool {
        self.keys.iter().any(|declared| declared == key)
    }

    fn visible_memory(&self, memory: &Value) -> Value {
        let all = memory.as_map().into_iter().flat_map(Map::iter);
        all.filter(|(key, _)| self.is_declared(key))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect::<Map>()
            .into()
    }
}

impl CodeRunner for ScopedCode {
    fn run_python<'a>(
        &'a self,
        request: &'a PythonRequest,
        host: &'a dyn SandboxHost,
        context: &'a EffectContext,
    ) -> EffectFuture<'a, PythonReply> {
        Box::pin(async move {
            let own = PythonRequest { memory: self.visible_memory(&request.memory), ..request.clone() };
            let reply = self.inner.run_python(&own, host, context).await?;
            match reply.memory.iter().find(|(key, _)| !self.is_declared(key)) {
                None => Ok(reply),
                Some((key, _)) => {
                    let named = self.keys.join(", ");
                    let message = format!(
                        "the block writes {key:?} of the memory, which memory_keys of the pipeline does not name; \
                         it names {named}"
                    );
                    Err(StepFailure::new(ErrorCode::MemoryKey, message))
                }
            }
        })
    }

    fn evaluate_script<'a>(
        &'a self,
        request: &'a ScriptRequest,
        context: &'a EffectContext,
    ) -> EffectFuture<'a, Option<Value>> {
        self.inner.evaluate_script(request, context)
    }
}
