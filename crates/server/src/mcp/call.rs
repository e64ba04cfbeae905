//! Handles one tool call: starts or resumes a run and waits until it ends or needs input that the client cannot
//! provide.

use std::convert::Infallible;
use std::future::pending;
use std::pin::pin;
use std::time::Duration;

use axum::http::HeaderMap;
use flowloom_app::runs::service::NewRun;
use flowloom_app::runs::supervisor::Begun;
use flowloom_app::tools::offer::Offer;
use flowloom_core::code::Code;
use flowloom_core::id::RunId;
use flowloom_core::json::parse_value;
use flowloom_core::path::Path;
use flowloom_core::status::Status;
use flowloom_core::value::Value;
use flowloom_formats::present;
use flowloom_runtime::journal::Wish;
use rmcp::RoleServer;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, InputRequiredResult, InputResponses, PingRequest, ProtocolVersion,
    ServerRequest,
};
use rmcp::service::RequestContext;

use super::SESSION;
use super::ask::{self, Question};
use super::progress::Progress;
use super::result::Stand;
use crate::caller::Caller;
use crate::problem::{Answer, Problem};
use crate::runs::answer::owned;
use crate::runs::start::Call;
use crate::state::Server;
use crate::threads::{Saying, talk};

/// Interval of keep-alive pings; a session without any message ends after five minutes.
const BEAT: Duration = Duration::from_secs(60);

/// A tool call in progress.
pub(crate) struct Calling<'a> {
    pub(crate) server: &'a Server,
    pub(crate) caller: Caller,
    pub(crate) headers: HeaderMap,
    pub(crate) offer: Offer,
    /// The conversation of the call, if the workflow is a conversation.
    pub(crate) thread: Option<String>,
    pub(crate) context: RequestContext<RoleServer>,
}

impl Calling<'_> {
    /// Handles the call and returns its response.
    pub(crate) async fn answer(self, request: CallToolRequestParams) -> Answer<CallToolResponse> {
        let begun = match &request.request_state {
            Some(run) => self.go_on(run, request.input_responses.unwrap_or_default()).await?,
            None => Some(self.start(&request).await?),
        };
        // If the user declined, the result says how another person can answer.
        let Some(mut begun) = begun else { return self.stands(request.request_state.as_deref()).await };
        loop {
            let stand = self.wait(begun).await?;
            let questions = if stand.state.status == Status::Waiting { ask::open(&stand.state) } else { Vec::new() };
            let complete = || Ok(stand.result(self.thread.as_deref()).into());
            if questions.is_empty() || !self.can_ask() {
                return complete();
            }
            if self.is_stateless() {
                let meta = stand.meta(self.thread.as_deref());
                let state = Some(stand.id.to_string());
                return Ok(InputRequiredResult::new(Some(ask::requests(&questions)), state).with_meta(meta).into());
            }
            begun = match self.elicit(stand.id, &questions).await? {
                Some(begun) => begun,
                None => return complete(),
            };
        }
    }

    async fn start(&self, request: &CallToolRequestParams) -> Answer<Begun> {
        let mut call = Call::admitted(self.server, &self.caller, None, &self.headers)?;
        // What such a call accepts is its transport's affair.
        call.start.is_heard = Progress::is_wanted(&self.context);
        let arguments = serde_json::Value::from(request.arguments.clone().unwrap_or_default()).to_string();
        let read = |error| Problem::new(Code::RequestInvalid, format!("the arguments are not valid JSON: {error}"));
        let inputs = self.offer.inputs(&parse_value(&arguments).map_err(read)?)?;
        let workflow = self.offer.workflow.as_str();
        let same = format!("{workflow}\n{}\n{arguments}", self.thread.as_deref().unwrap_or_default());
        let begin = async |id| {
            let definition = call.definition(workflow).await?;
            match &self.thread {
                Some(thread) => {
                    let text = inputs.get("message").and_then(Value::as_str).unwrap_or_default();
                    talk(&call, Saying { definition: &definition, thread, text, is_heard: false }, id).await
                }
                None => call.begin(&definition, NewRun { id, ..NewRun::with(inputs.clone()) }).await,
            }
        };
        call.once(&same, begin).await
    }

    /// Resumes a waiting run of this tool with the client's answers; `None` if there are none.
    async fn go_on(&self, run: &str, responses: InputResponses) -> Answer<Option<Begun>> {
        let id = self.own(run).await?;
        self.server.live.wait(id).await;
        let state = self.server.app.open_id(id).await?.state();
        if state.status != Status::Waiting {
            return Ok(Some(self.server.live.again(id)));
        }
        self.reply(id, ask::answers(&state, &responses)).await
    }

    /// The run of this tool that the client names. The id is untrusted and checked like any other.
    async fn own(&self, run: &str) -> Answer<RunId> {
        let id = owned(self.server, &self.caller, run)?;
        let state = self.server.app.open_id(id).await?.state();
        let workflow = state.created.as_ref().and_then(|created| created.workflow.as_deref());
        if workflow == Some(&self.offer.workflow) { Ok(id) } else { Err(Problem::not_there("run", run)) }
    }

    /// Answers the questions of a run; `None` if there are no answers.
    async fn reply(&self, id: RunId, answers: Vec<(Path, Value)>) -> Answer<Option<Begun>> {
        let mut begun = None;
        for (path, value) in answers {
            let by = self.caller.holder().to_owned();
            let opened = self.server.app.open_id(id).await?;
            begun = Some(self.server.runs.post(opened, Wish::Answer { path, value, by }).await?);
        }
        Ok(begun)
    }

    /// Asks the client's user while the call waits; `None` if the user declined.
    async fn elicit(&self, id: RunId, questions: &[Question]) -> Answer<Option<Begun>> {
        let mut answers = Vec::new();
        for question in questions {
            let asked = self.context.peer.create_elicitation(question.params());
            let answer = tokio::select! {
                () = self.context.ct.cancelled() => return Err(self.abandon(id).await),
                answer = asked => answer,
                never = self.keep_session() => match never {},
            };
            // A failed elicitation counts as declined.
            let Some(value) = answer.ok().and_then(|result| question.value(&result)) else { return Ok(None) };
            answers.push((question.path.clone(), value));
        }
        self.reply(id, answers).await
    }

    /// Waits until the run is no longer driven and reports progress. Cancelling the call cancels the run.
    async fn wait(&self, begun: Begun) -> Answer<Stand> {
        let Begun { id, ending, heard } = begun;
        let wanted = Progress::is_wanted(&self.context);
        let heard = heard.or_else(|| wanted.then(|| self.server.live.subscribe(id)).flatten());
        let mut progress = Progress::new(&self.context, heard);
        let mut over = pin!(self.server.runs.over(id, ending));
        let mut kept = pin!(self.keep_session());
        let ended = loop {
            let told = tokio::select! {
                biased;
                () = self.context.ct.cancelled() => return Err(self.abandon(id).await),
                told = progress.next() => told,
                ended = &mut over => break ended,
                never = &mut kept => match never {},
            };
            // Progress must be sent before the result of the call.
            tokio::select! {
                () = self.context.ct.cancelled() => return Err(self.abandon(id).await),
                // A disconnected client is noticed by the cancellation token.
                _ = self.context.peer.notify_progress(told) => {}
            }
        };
        let Some(ended) = ended else { return self.stand(id).await };
        let outcome = &ended.outcome;
        outcome.broken.clone().map_or(Ok(()), Err)?;
        let presented = present(&ended.plan, &outcome.state, &outcome.env);
        Ok(Stand { id, state: outcome.state.clone(), presented })
    }

    /// Reads the state of a stored run.
    async fn stand(&self, id: RunId) -> Answer<Stand> {
        let opened = self.server.app.open_id(id).await?;
        let past = flowloom_app::runs::finished::recorded(&self.server.app, &opened).await?;
        let presented = present(&opened.plan, &past.state, &past.env);
        Ok(Stand { id, state: past.state, presented })
    }

    async fn stands(&self, run: Option<&str>) -> Answer<CallToolResponse> {
        let id = self.own(run.unwrap_or_default()).await?;
        Ok(self.stand(id).await?.result(self.thread.as_deref()).into())
    }

    /// Cancels the run of a cancelled call. A stopping program leaves the run to the next start.
    async fn abandon(&self, id: RunId) -> Problem {
        if !self.server.live.is_closed()
            && let Ok(opened) = self.server.app.open_id(id).await
        {
            let by = self.caller.holder().to_owned();
            if let Err(error) = self.server.runs.post(opened, Wish::Cancel { by }).await {
                tracing::warn!("cannot cancel the run {id} of a cancelled call: {}", error.message);
            }
        }
        Problem::new(Code::Cancelled, "the call was cancelled")
    }

    /// Keeps the session of a waiting client alive with pings. A session without messages would end, and its calls with
    /// it.
    async fn keep_session(&self) -> Infallible {
        if !self.headers.contains_key(SESSION) {
            return pending().await;
        }
        loop {
            tokio::time::sleep(BEAT).await;
            // Only sending matters; a failed ping is handled by the session.
            let _ = self.context.peer.send_request(ServerRequest::PingRequest(PingRequest::default())).await;
        }
    }

    /// Whether the client can display a form to its user.
    fn can_ask(&self) -> bool {
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
