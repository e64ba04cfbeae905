//! Handles one tool call: starts or resumes a run and waits until it ends or needs input that the client cannot
//! provide.

use std::convert::Infallible;
use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderMap;
use flowloom_app::runs::service::StartRunRequest;
use flowloom_app::runs::stored::{LoadedRun, StoredRuns};
use flowloom_app::runs::supervisor::ActiveRun;
use flowloom_app::runs::trigger::TriggerKind;
use flowloom_app::tools::descriptor::ToolDescriptor;
use flowloom_core::code::Code;
use flowloom_core::id::RunId;
use flowloom_core::json::parse_value;
use flowloom_core::path::Path;
use flowloom_core::status::Status;
use flowloom_core::value::Value;
use flowloom_formats::render_result;
use rmcp::RoleServer;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, InputRequiredResult, InputResponses, PingRequest, ProtocolVersion,
    ServerRequest,
};
use rmcp::service::RequestContext;

use super::SESSION_HEADER;
use super::elicitation::{self, OpenQuestion};
use super::http::McpSessionEnd;
use super::progress::ProgressReporter;
use super::result::RunSnapshot;
use crate::caller::Caller;
use crate::problem::{ApiResult, Problem};
use crate::runs::answer::{find_own_run, name_started_run, open_run, read_run};
use crate::runs::start::StartContext;
use crate::state::RunHost;
use crate::threads::{UserMessage, run_turn};

/// Interval of keep-alive pings; a session without any message ends after five minutes.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(60);

/// A tool call in progress.
pub(crate) struct ToolCallHandler<'a> {
    pub(crate) host: &'a Arc<RunHost>,
    pub(crate) caller: Caller,
    pub(crate) headers: HeaderMap,
    pub(super) session_end: McpSessionEnd,
    pub(crate) tool: ToolDescriptor,
    /// The conversation of the call, if the workflow is a conversation.
    pub(crate) thread: Option<String>,
    pub(crate) context: RequestContext<RoleServer>,
}

impl ToolCallHandler<'_> {
    /// Handles the call and returns its response.
    pub(crate) async fn handle(self, request: CallToolRequestParams) -> ApiResult<CallToolResponse> {
        let active = match &request.request_state {
            Some(run) => self.resume_run(run, request.input_responses.unwrap_or_default()).await?,
            None => Some(self.start_run(&request).await?),
        };
        // If the user declined, the result explains how another person can answer.
        let Some(mut active) = active else { return self.read_response(request.request_state.as_deref()).await };
        loop {
            let stand = self.wait_for_run(active).await?;
            let questions = if stand.state.status == Status::Waiting {
                elicitation::open_questions(&stand.state)
            } else {
                Vec::new()
            };
            let complete = || Ok(stand.to_result(self.thread.as_deref()).into());
            if questions.is_empty() || !self.can_elicit() {
                return complete();
            }
            if self.is_stateless() {
                let meta = stand.build_meta(self.thread.as_deref());
                let state = Some(stand.id.to_string());
                return Ok(InputRequiredResult::new(Some(elicitation::to_input_requests(&questions)), state)
                    .with_meta(meta)
                    .into());
            }
            let (answers, is_declined) = self.elicit_answers(stand.id, &questions).await?;
            active = match self.answer_questions(stand.id, answers).await? {
                Some(active) if !is_declined => active,
                // Answers before the user declined count; the rest is not asked again.
                Some(active) => {
                    return Ok(self.wait_for_run(active).await?.to_result(self.thread.as_deref()).into());
                }
                None => return complete(),
            };
        }
    }

    async fn start_run(&self, request: &CallToolRequestParams) -> ApiResult<ActiveRun> {
        let mut call =
            StartContext::admit_caller(self.host, &self.caller, None, &self.headers)?.with_interface(TriggerKind::Mcp);
        // The transport decides what the client accepts, not the `Accept` header.
        call.start.needs_events = ProgressReporter::is_requested(&self.context);
        let arguments = serde_json::Value::from(request.arguments.clone().unwrap_or_default()).to_string();
        let read = |error| Problem::new(Code::RequestInvalid, format!("the arguments are not valid JSON: {error}"));
        let inputs = self.tool.to_inputs(&parse_value(&arguments).map_err(read)?)?;
        let workflow = self.tool.workflow.as_str();
        let same = format!("{workflow}\n{}\n{arguments}", self.thread.as_deref().unwrap_or_default());
        let begin = async |id| {
            let definition = call.find_definition(workflow).await?;
            match &self.thread {
                Some(thread) => {
                    let text = inputs.get("message").and_then(Value::as_str).unwrap_or_default();
                    run_turn(&call, UserMessage::new(&definition, thread, text), id).await
                }
                None => {
                    call.start_run(&definition, StartRunRequest { id, ..StartRunRequest::with_inputs(inputs.clone()) })
                        .await
                }
            }
        };
        call.start_once(&same, begin).await
    }

    /// Resumes a waiting run of this tool with the client's answers; `None` if there are none.
    async fn resume_run(&self, run: &str, responses: InputResponses) -> ApiResult<Option<ActiveRun>> {
        let id = self.find_own_run(run).await?;
        self.host.supervisor.wait_for_run(id).await;
        let state = open_run(&self.host.app.runs, id).await?.state();
        if state.status != Status::Waiting {
            return Ok(Some(self.host.supervisor.find_started(id)));
        }
        self.answer_questions(id, elicitation::parse_answers(&state, &responses)).await
    }

    /// The run of this tool that the client names. The id is untrusted and checked like any other.
    async fn find_own_run(&self, run: &str) -> ApiResult<RunId> {
        let id = find_own_run(&self.host.app.store, &self.caller, run).await?;
        let state = open_run(&self.host.app.runs, id).await?.state();
        let workflow = state.created.as_ref().and_then(|created| created.workflow.as_deref());
        if workflow == Some(&self.tool.workflow) { Ok(id) } else { Err(Problem::not_found("run", run)) }
    }

    /// Answers the questions of a run; `None` if there are no answers.
    async fn answer_questions(&self, id: RunId, answers: Vec<(Path, Value)>) -> ApiResult<Option<ActiveRun>> {
        if answers.is_empty() {
            return Ok(None);
        }
        let opened = open_run(&self.host.app.runs, id).await?;
        Ok(Some(self.host.service.send_answers(opened, answers, self.caller.user_id()).await?))
    }

    /// Asks the client's user while the call waits. Returns the answers, and whether the user declined a question, after
    /// which no other is asked.
    async fn elicit_answers(&self, id: RunId, questions: &[OpenQuestion]) -> ApiResult<(Vec<(Path, Value)>, bool)> {
        let mut answers = Vec::new();
        for question in questions {
            let elicited = self.context.peer.create_elicitation(question.to_params());
            let answer = tokio::select! {
                () = self.wait_for_cancel() => return Err(self.cancel_run(id).await),
                answer = elicited => answer,
                never = self.keep_session_alive() => match never {},
            };
            // A failed elicitation counts as declined.
            let Some(value) = answer.ok().and_then(|result| question.parse_answer(&result)) else {
                return Ok((answers, true));
            };
            answers.push((question.path.clone(), value));
        }
        Ok((answers, false))
    }

    /// Waits until the run is no longer driven and reports progress. Cancelling the call cancels the run.
    async fn wait_for_run(&self, active: ActiveRun) -> ApiResult<RunSnapshot> {
        let (id, completion) = (active.id, active.completion.clone());
        let followed = self.follow_run(active).await;
        name_started_run(self.host, id, completion.as_ref(), followed)
    }

    async fn follow_run(&self, active: ActiveRun) -> ApiResult<RunSnapshot> {
        let ActiveRun { id, completion, subscription } = active;
        let wanted = ProgressReporter::is_requested(&self.context);
        let subscription = subscription.or_else(|| wanted.then(|| self.host.supervisor.subscribe(id)).flatten());
        let mut progress = ProgressReporter::new(&self.context, subscription);
        let mut over = pin!(self.host.service.wait_until_ended(id, completion));
        let mut pings = pin!(self.keep_session_alive());
        let ended = loop {
            let update = tokio::select! {
                biased;
                () = self.wait_for_cancel() => return Err(self.cancel_run(id).await),
                update = progress.next_notification() => update,
                ended = &mut over => break ended,
                never = &mut pings => match never {},
            };
            // Progress must be sent before the result of the call.
            tokio::select! {
                () = self.wait_for_cancel() => return Err(self.cancel_run(id).await),
                // A disconnected client is noticed by the cancellation token.
                _ = self.context.peer.notify_progress(update) => {}
            }
        };
        let Some(ended) = ended else { return self.read_snapshot(id).await };
        let outcome = &ended.outcome;
        outcome.broken.clone().map_or(Ok(()), Err)?;
        let presented = render_result(&ended.plan, &outcome.state, &outcome.env);
        Ok(RunSnapshot { id, state: outcome.state.clone(), presented })
    }

    /// Reads the state of a stored run.
    async fn read_snapshot(&self, id: RunId) -> ApiResult<RunSnapshot> {
        let read = async move |runs: &StoredRuns, opened: LoadedRun| {
            let past = flowloom_app::runs::finished::read_outcome(runs, &opened).await?;
            let presented = render_result(&opened.plan, &past.state, &past.env);
            Ok(RunSnapshot { id, state: past.state, presented })
        };
        read_run(&self.host.app.runs, id, read).await
    }

    async fn read_response(&self, run: Option<&str>) -> ApiResult<CallToolResponse> {
        let id = self.find_own_run(run.unwrap_or_default()).await?;
        Ok(self.read_snapshot(id).await?.to_result(self.thread.as_deref()).into())
    }

    /// Resolves when the call is cancelled, or when its session ends.
    async fn wait_for_cancel(&self) {
        tokio::select! {
            () = self.context.ct.cancelled() => {}
            () = self.session_end.0.cancelled() => {}
        }
    }

    /// Cancels the run of a cancelled call. A stopping program leaves the run to the next start.
    async fn cancel_run(&self, id: RunId) -> Problem {
        if !self.host.supervisor.is_closed() {
            self.host.service.cancel_abandoned(id, self.caller.user_id()).await;
        }
        Problem::new(Code::Cancelled, "the call was cancelled")
    }

    /// Keeps the session of a waiting client alive with pings. A session without messages would end, and its calls with
    /// it.
    async fn keep_session_alive(&self) -> Infallible {
        if !self.headers.contains_key(SESSION_HEADER) {
            return pending().await;
        }
        loop {
            tokio::time::sleep(KEEP_ALIVE_INTERVAL).await;
            // Only sending matters; a failed ping is handled by the session.
            let _ = self.context.peer.send_request(ServerRequest::PingRequest(PingRequest::default())).await;
        }
    }

    /// Whether the client can display a form to its user.
    fn can_elicit(&self) -> bool {
        let elicitation = self.context.client_capabilities().and_then(|capabilities| capabilities.elicitation);
        // A client without further capabilities supports forms, the oldest kind.
        elicitation.is_some_and(|can| can.form.is_some() || can.url.is_none())
    }

    /// Whether the client uses the protocol version in which servers send no requests.
    fn is_stateless(&self) -> bool {
        let version = self.context.protocol_version();
        version.is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str())
    }
}
