//! Presents the questions of a run as elicitation forms.

use std::collections::BTreeMap;

use flowloom_app::runs::inputs::parse_json_or_text;
use flowloom_core::effect::AskRequest;
use flowloom_core::json::parse_value;
use flowloom_core::path::Path;
use flowloom_core::state::RunState;
use flowloom_core::value::Value;
use rmcp::model::{
    ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema, InputRequest,
    InputResponses,
};
use serde_json::json;

/// The form field of an answer that is not an object.
const ANSWER_FIELD: &str = "answer";

/// An open question of a waiting run.
pub(crate) struct OpenQuestion {
    pub(crate) path: Path,
    text: String,
    form: ElicitationSchema,
    answer: AnswerLocation,
}

/// Where the answer is in the submitted form.
#[derive(Clone, Copy)]
enum AnswerLocation {
    /// The whole form.
    Whole,
    /// The field of the form.
    Field,
    /// The field of the form, as JSON text.
    Json,
}

/// The open questions of a run.
pub(crate) fn open_questions(state: &RunState) -> Vec<OpenQuestion> {
    state.open_steps().filter_map(|step| OpenQuestion::new(step.path, step.question?)).collect()
}

/// The answers of a client's user to open questions, by path.
pub(crate) fn parse_answers(state: &RunState, responses: &InputResponses) -> Vec<(Path, Value)> {
    let answer = |question: OpenQuestion| {
        let response = responses.get(question.path.as_str())?.clone();
        let value = question.parse_answer(&serde_json::from_value(response).ok()?)?;
        Some((question.path, value))
    };
    open_questions(state).into_iter().filter_map(answer).collect()
}

impl OpenQuestion {
    /// MCP forms have one level of primitive fields; other schemas are requested as JSON text.
    fn new(path: Path, request: &AskRequest) -> Option<OpenQuestion> {
        let schema = request.schema.as_ref().and_then(|schema| serde_json::to_value(schema).ok());
        let field = |schema: serde_json::Value| json!({"type": "object", "properties": {ANSWER_FIELD: schema}, "required": [ANSWER_FIELD]});
        let forms = match schema {
            None => vec![(AnswerLocation::Field, field(json!({"type": "string"})))],
            Some(schema) => {
                let text = json!({"type": "string", "description": format!("JSON that matches {schema}")});
                vec![
                    (AnswerLocation::Whole, schema.clone()),
                    (AnswerLocation::Field, field(schema)),
                    (AnswerLocation::Json, field(text)),
                ]
            }
        };
        let read = |(kind, form): (AnswerLocation, serde_json::Value)| Some((kind, serde_json::from_value(form).ok()?));
        let (answer, form): (AnswerLocation, ElicitationSchema) = forms.into_iter().find_map(read)?;
        Some(OpenQuestion { path, text: request.question.clone(), form, answer })
    }

    /// The elicitation request of the question.
    pub(crate) fn to_params(&self) -> ElicitRequestParams {
        ElicitRequestParams::FormElicitationParams {
            meta: None,
            message: self.text.clone(),
            requested_schema: self.form.clone(),
        }
    }

    /// The user's answer; `None` if the user declined.
    pub(crate) fn parse_answer(&self, result: &ElicitResult) -> Option<Value> {
        if result.action != ElicitationAction::Accept {
            return None;
        }
        let form = parse_value(&result.content.as_ref()?.to_string()).ok()?;
        match self.answer {
            AnswerLocation::Whole => Some(form),
            AnswerLocation::Field => form.get(ANSWER_FIELD).cloned(),
            AnswerLocation::Json => form.get(ANSWER_FIELD)?.as_str().map(parse_json_or_text),
        }
    }
}

/// The questions as input requests of a stateless call, by the path of the step that asks.
pub(crate) fn to_input_requests(questions: &[OpenQuestion]) -> BTreeMap<String, InputRequest> {
    let request = |question: &OpenQuestion| {
        let request = InputRequest::Elicitation(ElicitRequest::new(question.to_params()));
        (question.path.as_str().to_owned(), request)
    };
    questions.iter().map(request).collect()
}
