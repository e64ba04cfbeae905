//! stub
use crate::config::SandboxConfig;
use flowloom_core::error::StepError;
use flowloom_core::request::*;
use flowloom_runtime::effects::*;
use std::process::ExitCode;
use std::sync::Arc;
pub(crate) struct Blocks;
impl Blocks {
    pub(crate) fn new(_c: Arc<SandboxConfig>) -> Blocks {
        Blocks
    }
    pub(crate) async fn available(&self) -> Result<String, String> {
        Err("x".into())
    }
    pub(crate) async fn run(&self, _r: &PythonRequest, _h: &dyn Host, _c: &Context) -> Result<PythonReply, StepError> {
        Err(crate::sandbox::refused("x"))
    }
}
pub(crate) fn launch() -> ExitCode {
    ExitCode::FAILURE
}
