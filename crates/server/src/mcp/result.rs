//! What became of a run, as the result of a call.

use flowloom_core::id::RunId;
use flowloom_core::render;
use flowloom_core::state::RunState;
use flowloom_core::status::Status;
use flowloom_core::value::Value;
use flowloom_formats::Presented;
use rmcp::model::{CallToolResult, ContentBlock, MetaObject};
use serde_json::json;

use super::THREAD;
use crate::problem::Problem;

/// Where a run stands when it is no longer driven.
pub(crate) struct Stand {
    pub(crate) id: RunId,
    pub(crate) state: RunState,
    pub(crate) presented: Presented,
}

impl Stand {
    /// The same for the client. What a client reads as data is always an object.
    pub(crate) fn result(&self, thread: Option<&str>) -> CallToolResult {
        let result = match self.state.status {
            Status::Succeeded => succeeded(&self.presented.output),
            Status::Waiting => self.waiting(),
            _ => self.failed(),
        };
        result.with_meta(Some(self.meta(thread)))
    }

    /// Names the run, so that it can be looked at, and the conversation, so that it can be gone on with.
    pub(crate) fn meta(&self, thread: Option<&str>) -> MetaObject {
        let mut meta = MetaObject::new();
        meta.insert("flowloom/run".to_owned(), json!(self.id.to_string()));
        if let Some(thread) = thread {
            meta.insert(THREAD.to_owned(), json!(thread));
        }
        meta
    }

    /// For clients that cannot ask anyone: what is asked, and how it is answered.
    fn waiting(&self) -> CallToolResult {
        let id = self.id;
        let asked = self.state.steps().iter().filter_map(|step| Some((&step.path, step.question.as_ref()?)));
        let (mut questions, mut text) = (Vec::new(), "The run waits for a person.".to_owned());
        for (path, question) in asked {
            text += &format!("\n{path} asks: {}", question.question);
            questions.push(json!({"path": path, "question": question.question, "schema": question.schema}));
        }
        text += &format!(
            "\nTo answer: flowloom answer {id} 'ANSWER', or POST /api/v1/runs/{id}/answer {{\"value\": \"ANSWER\"}}; \
             with several questions also the path."
        );
        let data = json!({"status": "waiting", "run_id": id.to_string(), "questions": questions});
        told(CallToolResult::structured(data), text)
    }

    fn failed(&self) -> CallToolResult {
        let status = self.state.status.name();
        let (code, message) = match &self.state.error {
            Some(error) => (json!(error.code.to_string()), error.message.clone()),
            None => (json!(null), format!("the run {} is {status}; flowloom show {0} says why", self.id)),
        };
        let path = self.state.failed.as_ref().map(|path| path.as_str());
        let text = match (code.as_str(), path) {
            (Some(code), Some(path)) => format!("{code} at {path}: {message}"),
            (Some(code), None) => format!("{code}: {message}"),
            (None, _) => message.clone(),
        };
        let data = json!({"status": status, "error": {"code": code, "message": message, "path": path}});
        told(CallToolResult::structured_error(data), text)
    }
}

fn succeeded(output: &Value) -> CallToolResult {
    let data = serde_json::to_value(output).unwrap_or_default();
    let data = if data.is_object() { data } else { json!({"result": data}) };
    let text = output.as_str().map_or_else(|| render::json(output), str::to_owned);
    told(CallToolResult::structured(data), text)
}

/// A call that started no run.
pub(crate) fn refused(problem: &Problem) -> CallToolResult {
    let (code, message) = (problem.code().to_string(), problem.detail());
    let data = json!({"status": "failed", "error": {"code": code, "message": message, "path": null}});
    told(CallToolResult::structured_error(data), format!("{code}: {message}"))
}

/// The same result with another text for people and models.
fn told(mut result: CallToolResult, text: String) -> CallToolResult {
    result.content = vec![ContentBlock::text(text)];
    result
}
