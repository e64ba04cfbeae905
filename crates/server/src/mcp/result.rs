//! Converts the outcome of a run into the result of a call.

use flowloom_core::id::RunId;
use flowloom_core::render;
use flowloom_core::state::RunState;
use flowloom_core::status::Status;
use flowloom_core::value::Value;
use flowloom_formats::RenderedResult;
use rmcp::model::{CallToolResult, ContentBlock, MetaObject};
use serde_json::json;

use super::THREAD_META_KEY;
use crate::problem::Problem;

/// The state of a run that is no longer driven.
pub(crate) struct RunSnapshot {
    pub(crate) id: RunId,
    pub(crate) state: RunState,
    pub(crate) presented: RenderedResult,
}

impl RunSnapshot {
    /// The result for the client. Structured content is always an object.
    pub(crate) fn to_result(&self, thread: Option<&str>) -> CallToolResult {
        let result = match self.state.status {
            Status::Succeeded => succeeded_result(&self.presented.output),
            Status::Waiting => self.waiting_result(),
            _ => self.failed_result(),
        };
        result.with_meta(Some(self.build_meta(thread)))
    }

    /// The metadata of a result: the run, for inspection, and the conversation, for continuing it.
    pub(crate) fn build_meta(&self, thread: Option<&str>) -> MetaObject {
        let mut meta = MetaObject::new();
        meta.insert("flowloom/run".to_owned(), json!(self.id.to_string()));
        if let Some(thread) = thread {
            meta.insert(THREAD_META_KEY.to_owned(), json!(thread));
        }
        meta
    }

    /// The result for clients that cannot elicit answers: the questions, and how to answer them.
    fn waiting_result(&self) -> CallToolResult {
        let id = self.id;
        let open_questions = self.state.open_steps().filter_map(|step| Some((step.path, step.question?)));
        let (mut questions, mut text) = (Vec::new(), "The run is waiting for an answer.".to_owned());
        for (path, question) in open_questions {
            text += &format!("\n{path} asks: {}", question.question);
            questions.push(json!({"path": path, "question": question.question, "schema": question.schema}));
        }
        text += &format!(
            "\nTo answer: flowloom answer {id} 'ANSWER', or POST /api/v1/runs/{id}/answer {{\"value\": \"ANSWER\"}}; \
             if there are several questions, also send the path."
        );
        let data = json!({"status": "waiting", "run_id": id.to_string(), "questions": questions});
        with_text(CallToolResult::structured(data), text)
    }

    fn failed_result(&self) -> CallToolResult {
        let status = self.state.status.name();
        let (code, message) = match &self.state.error {
            Some(error) => (json!(error.code.to_string()), error.message.clone()),
            None => (json!(null), format!("the run {} is {status}; for details: flowloom show {0}", self.id)),
        };
        let path = self.state.failed.as_ref().map(|path| path.as_str());
        let text = match (code.as_str(), path) {
            (Some(code), Some(path)) => format!("{code} at {path}: {message}"),
            (Some(code), None) => format!("{code}: {message}"),
            (None, _) => message.clone(),
        };
        let data = json!({"status": status, "error": {"code": code, "message": message, "path": path}});
        with_text(CallToolResult::structured_error(data), text)
    }
}

fn succeeded_result(output: &Value) -> CallToolResult {
    let data = serde_json::to_value(output).unwrap_or_default();
    let data = if data.is_object() { data } else { json!({"result": data}) };
    let text = output.as_str().map_or_else(|| render::to_json(output), str::to_owned);
    with_text(CallToolResult::structured(data), text)
}

/// The result of a call that started no run.
pub(crate) fn problem_result(problem: &Problem) -> CallToolResult {
    let (code, message) = (problem.code().to_string(), problem.detail());
    let data = json!({"status": "failed", "error": {"code": code, "message": message, "path": null}});
    with_text(CallToolResult::structured_error(data), format!("{code}: {message}"))
}

/// Replaces the text content of a result.
fn with_text(mut result: CallToolResult, text: String) -> CallToolResult {
    result.content = vec![ContentBlock::text(text)];
    result
}
