//! Starts a run for a client's messages, or resumes the run that waits for them.

use std::collections::HashSet;
use std::sync::Arc;

use axum::http::HeaderMap;
use flowloom_app::definitions::catalog::CatalogEntry;
use flowloom_app::runs::client_calls::{find_client_call, read_user_answer};
use flowloom_app::runs::service::StartRunRequest;
use flowloom_app::runs::stored::{LoadedRun, StoredRuns};
use flowloom_app::runs::supervisor::ActiveRun;
use flowloom_app::runs::trigger::TriggerKind;
use flowloom_core::code::Code;
use flowloom_core::event::Event;
use flowloom_core::id::RunId;
use flowloom_core::path::Path as StepPath;
use flowloom_core::plan::{Composite, Leaf, Plan, StepKind};
use flowloom_core::state::{Phase, RunState, StepState};
use flowloom_core::value::{Map, Value};
use flowloom_formats::{AnswerSource, find_answer_source, render_result};
use flowloom_runtime::command::CommandAction;

use super::answer_stream::{AnswerStream, read_outcome};
use super::inputs;
use super::messages::Conversation;
use super::reply::{parse_call_id, parse_output_call_id};
use crate::caller::Caller;
use crate::problem::{ApiResult, Problem};
use crate::runs::answer::{MAX_WAIT, open_own_run, open_run, read_own_run};
use crate::runs::start::StartContext;
use crate::state::RunHost;
use crate::threads::{UserMessage, find_waiting_run, resume_in_turn, run_turn, start_in_thread, thread_key};

/// The request header that names the conversation.
const THREAD_HEADER: &str = "x-flowloom-thread";

/// A request in the form common to both interfaces.
pub(crate) struct ModelRequest {
    /// Id of the workflow.
    pub(crate) model: String,
    pub(crate) conversation: Conversation,
    pub(crate) metadata: Map,
    /// The conversation to which the turn belongs.
    pub(crate) thread: Option<String>,
    /// The run that this one continues.
    pub(crate) previous: Option<RunId>,
    /// Limits of the run.
    pub(crate) budget: Option<String>,
    /// Whether the answer is read later.
    pub(crate) is_background: bool,
}

/// The context of a request.
pub(crate) struct OpenAiContext<'a> {
    pub(crate) host: &'a Arc<RunHost>,
    pub(crate) caller: &'a Caller,
    pub(crate) headers: &'a HeaderMap,
}

impl ModelRequest {
    /// Sets the thread from metadata, body or header. Fails with `RequestInvalid` if the metadata has another value than a
    /// text for it.
    pub(crate) fn with_thread(mut self, headers: &HeaderMap) -> ApiResult<ModelRequest> {
        let header = || Some(headers.get(THREAD_HEADER)?.to_str().ok()?.to_owned());
        let named = match self.read_thread_metadata("thread")? {
            None => self.read_thread_metadata("thread_id")?,
            named => named,
        };
        let thread = named.or(self.thread.take()).or_else(header);
        self.thread = thread.filter(|thread| !thread.is_empty());
        Ok(self)
    }

    fn read_thread_metadata(&self, name: &str) -> ApiResult<Option<String>> {
        match self.metadata.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(thread)) => Ok(Some(thread.to_string())),
            Some(other) => {
                let message = format!("metadata.{name} is {}; expected the name of a thread", other.kind_name());
                Err(Problem::new(Code::RequestInvalid, message))
            }
        }
    }
}

impl OpenAiContext<'_> {
    /// Starts or resumes the run that answers. `request` identifies the request under its Idempotency-Key.
    pub(crate) async fn start_answer(&self, wanted: &ModelRequest, request: &str) -> ApiResult<AnswerStream> {
        let mut call =
            StartContext::admit_caller(self.host, self.caller, None, self.headers)?.with_interface(TriggerKind::OpenAi);
        call.start.trigger.background = wanted.is_background;
        let (mut words, mut given, mut is_repeated) = (None, 0, true);
        let active = call.start_once(request, async |id| {
            is_repeated = false;
            let definition = call.find_definition(&wanted.model).await?;
            let continued = match self.find_continued(&definition, wanted).await? {
                None => self.find_in_thread(&call, &definition, wanted).await?,
                found => found,
            };
            if let Some(waiting) = continued {
                words = find_answer_source(&waiting.opened.plan, &waiting.opened.state().inputs());
                given = waiting.count_answers();
                let is_followed = waiting.is_followed;
                let resumed = waiting.resume(&call, id).await?;
                if !is_followed || self.waits_again(&resumed).await? {
                    return Ok(resumed);
                }
                given = 0;
            }
            let (active, subscription) = self.start_run(&call, &definition, wanted, id).await?;
            words = subscription;
            Ok(active)
        });
        let active = active.await?;
        if is_repeated && call.host.service.has_answered(&call.start, active.id)? {
            given = count_given_answers(&open_run(&self.host.app.runs, active.id).await?.state());
        }
        let is_kept = call.start.idempotency_key.is_some();
        let cancel_as = (!is_kept).then_some(call.start.user);
        Ok(AnswerStream::new(self.host.clone(), active, words).cancel_on_drop(cancel_as).with_given_answers(given))
    }

    async fn start_run(
        &self,
        call: &StartContext<'_>,
        definition: &CatalogEntry,
        wanted: &ModelRequest,
        id: Option<RunId>,
    ) -> ApiResult<(ActiveRun, Option<AnswerSource>)> {
        let plan = definition.prepared.as_ref().map(|prepared| prepared.plan.clone());
        let Some(plan) = plan else {
            // The definition has errors, which the start reports.
            return Ok((
                call.start_run(definition, StartRunRequest { id, ..StartRunRequest::with_inputs(Value::Null) }).await?,
                None,
            ));
        };
        if let (Some(thread), Some(_)) = (&wanted.thread, &plan.thread) {
            let text = wanted.conversation.last_user_text()?;
            let words = find_answer_source(&plan, &Value::Null);
            let turn = UserMessage {
                subscribes: true,
                budget: wanted.budget.clone(),
                ..UserMessage::new(definition, thread, &text)
            };
            return Ok((run_turn(call, turn, id).await?, words));
        }
        let inputs = match (wanted.previous, &plan.thread) {
            (Some(previous), Some(_)) => {
                // The previous run has the results of its tools.
                let sent = wanted.conversation.without_tool_results();
                self.continue_from(previous, inputs::build_inputs(&plan, &sent, &wanted.metadata)?).await?
            }
            _ => inputs::build_inputs(&plan, &wanted.conversation, &wanted.metadata)?,
        };
        let words = find_answer_source(&plan, &inputs);
        let budget = wanted.budget.clone();
        let new = StartRunRequest { needs_events: true, budget, id, ..StartRunRequest::with_inputs(inputs) };
        let run = match wanted.thread.as_deref().filter(|_| can_ask(&plan)) {
            Some(thread) => start_in_thread(call, definition, thread, new).await?,
            None => call.start_run(definition, new).await?,
        };
        Ok((run, words))
    }

    /// Finds the run of the request's thread that waits for the user's message. A conversation finds its own when its turn
    /// starts ([`run_turn`]).
    async fn find_in_thread(
        &self,
        call: &StartContext<'_>,
        definition: &CatalogEntry,
        wanted: &ModelRequest,
    ) -> ApiResult<Option<WaitingRun>> {
        let is_conversation = definition.prepared.as_ref().is_none_or(|prepared| prepared.plan.thread.is_some());
        let Some(thread) = wanted.thread.as_deref().filter(|_| !is_conversation && wanted.previous.is_none()) else {
            return Ok(None);
        };
        let key = thread_key(&definition.id, thread);
        let Some(run) = find_waiting_run(self.host, call.user(), &key).await? else { return Ok(None) };
        let opened = open_run(&self.host.app.runs, run).await?;
        let answer = read_user_answer(run, &opened.plan, &opened.state(), &wanted.conversation.last_user_text()?)?;
        Ok(answer.map(|answer| WaitingRun { opened, given: GivenAnswers::Message(answer), is_followed: false }))
    }

    /// Prepends the messages of an earlier run to the inputs.
    async fn continue_from(&self, previous: RunId, inputs: Value) -> ApiResult<Value> {
        let read = async |runs: &StoredRuns, opened: LoadedRun| {
            let past = flowloom_app::runs::finished::read_outcome(runs, &opened).await?;
            Ok(render_result(&opened.plan, &past.state, &past.env).result)
        };
        let result = read_own_run(&self.host.app.runs, self.caller, &previous.to_string(), read).await?;
        let list = |value: &Value| value.get("messages").and_then(Value::as_list).unwrap_or_default().to_vec();
        let mut map = inputs.as_map().cloned().unwrap_or_default();
        map.insert("messages".into(), Value::list([list(&result), list(&inputs)].concat()));
        Ok(map.into())
    }

    /// Like [`find_waiting`](OpenAiContext::find_waiting). If a message of the user follows the results, a run that is
    /// gone or belongs to another model does not matter: the message starts a run with what the client sends.
    async fn find_continued(&self, definition: &CatalogEntry, wanted: &ModelRequest) -> ApiResult<Option<WaitingRun>> {
        let is_next_turn = wanted.previous.is_none() && wanted.conversation.ends_with_user();
        match self.find_waiting(definition, wanted).await {
            Err(problem) if is_next_turn && problem.is_wrong_request() => Ok(None),
            found => found,
        }
    }

    /// Finds the run that waits for these messages: for results of its tools, or for the answer to a question.
    async fn find_waiting(&self, definition: &CatalogEntry, wanted: &ModelRequest) -> ApiResult<Option<WaitingRun>> {
        let results = wanted.conversation.tool_results()?;
        let own: Vec<_> = results.iter().filter_map(|(id, text)| Some((parse_call_id(id)?, text.as_str()))).collect();
        if own.is_empty() && !wanted.conversation.ends_with_user() {
            let last = results.last().map_or("", |(id, _)| *id);
            self.check_last_result(definition, wanted, last).await?;
        }
        let run = own.last().map(|((run, _), _)| *run).or(wanted.previous);
        let Some(run) = run else { return Ok(None) };
        let opened = open_own_run(&self.host.app.runs, self.caller, &run.to_string()).await?;
        let state = opened.state();
        let workflow = state.created.as_ref().and_then(|created| created.workflow.as_deref());
        if workflow != Some(definition.id.as_str()) {
            let message = format!("the run {run} belongs to another model than {}", definition.id);
            return Err(Problem::new(Code::RequestInvalid, message));
        }
        let steps = state.steps();
        if own.is_empty() {
            let answer = read_user_answer(run, &opened.plan, &state, &wanted.conversation.last_user_text()?)?;
            return Ok(answer.map(|answer| WaitingRun {
                opened,
                given: GivenAnswers::Message(answer),
                is_followed: false,
            }));
        }
        let mut answers = Vec::new();
        // Results of other runs belong to earlier rounds of the conversation.
        for ((_, index), text) in own.into_iter().filter(|((of, _), _)| *of == run) {
            let is_call = |step: &&StepState| {
                let question = step.question.as_ref();
                question.is_none_or(|question| find_client_call(&opened.plan, &step.path, question).is_some())
            };
            let step = steps.get(index).filter(is_call);
            let message = || format!("the run {run} has no such tool call");
            let step = step.ok_or_else(|| Problem::new(Code::RequestInvalid, message()))?;
            // A repeated result was processed already.
            if step.question.is_some() {
                answers.push((step.path.clone(), text.into()));
            }
        }
        let (given, is_followed) = (GivenAnswers::ToolResults(answers), wanted.conversation.ends_with_user());
        Ok(Some(WaitingRun { opened, given, is_followed }))
    }

    /// Fails if the last message is the result of a call that nobody has made: it would be lost. A conversation takes the
    /// results of another model's calls with its messages, and the output of a run may have been sent as a call.
    async fn check_last_result(&self, definition: &CatalogEntry, wanted: &ModelRequest, id: &str) -> ApiResult<()> {
        if let Some(run) = parse_output_call_id(id) {
            return open_own_run(&self.host.app.runs, self.caller, &run.to_string()).await.map(drop);
        }
        let is_conversation = definition.prepared.as_ref().is_some_and(|prepared| prepared.plan.thread.is_some());
        let is_stateless = wanted.thread.is_none() && wanted.previous.is_none();
        if is_conversation && is_stateless && wanted.conversation.has_call(id) {
            return Ok(());
        }
        let message = match id {
            "" => "the last message is the result of a tool, but does not name its call; send the id of the call"
                .to_owned(),
            _ => format!(
                "the last message is the result of the tool call {id:?}, which no run has made; send the id that the call has \
                 in the answer"
            ),
        };
        Err(Problem::new(Code::RequestInvalid, message))
    }

    /// Whether a run that has the results of its tools waits for more. Otherwise it is over, and the message of the user
    /// that follows the results can have its turn.
    async fn waits_again(&self, resumed: &ActiveRun) -> ApiResult<bool> {
        let (runs, run) = (&self.host.app.runs, resumed.id);
        let status = match self.host.service.wait_with_timeout(run, resumed.completion.clone(), MAX_WAIT).await {
            Some(ended) => ended.outcome.state.status,
            None => read_outcome(runs, run).await?.outcome.state.status,
        };
        Ok(!status.is_final())
    }
}

/// Whether a run of a plan can ask the user something.
fn can_ask(plan: &Plan) -> bool {
    let mut asks = false;
    plan.root.visit(&mut |step| {
        asks |= match &step.kind {
            StepKind::Leaf(Leaf::Ask { .. }) => true,
            StepKind::Composite(Composite::Agent(agent)) => agent.tools.iter().any(|tool| tool.needs_approval),
            _ => false,
        };
    });
    asks
}

fn count_given_answers(state: &RunState) -> usize {
    let is_given = |step: &&StepState| step.kind.as_deref() == Some("ask") && step.phase == Phase::Finished;
    state.steps().iter().filter(is_given).count()
}

/// Whether a run can have received this number of answers and tool results: each has had a question. How many a
/// child run has received is not known.
pub(crate) fn can_have_answers(opened: &LoadedRun, number: usize) -> bool {
    let state = opened.state();
    let open: HashSet<StepPath> = state.open_steps().map(|step| step.path.clone()).collect();
    let is_answered = |step: &&StepState| step.kind.as_deref() == Some("ask") && !open.contains(&step.path);
    let answered = state.steps().iter().filter(is_answered).count();
    let has_asking_child = opened.records.iter().any(|record| matches!(record.event, Event::ChildSuspended(_)));
    has_asking_child || number <= answered
}

/// A run that waits for a client's messages.
struct WaitingRun {
    opened: LoadedRun,
    given: GivenAnswers,
    /// Whether a message of the user follows the answers.
    is_followed: bool,
}

/// The answers in a client's messages, by step path.
enum GivenAnswers {
    /// The user's message answers a question.
    Message((StepPath, Value)),
    /// Results of the client's tools answer their calls; none if all were given already.
    ToolResults(Vec<(StepPath, Value)>),
}

impl WaitingRun {
    /// The number of answers that the run has with these.
    fn count_answers(&self) -> usize {
        let new = match &self.given {
            GivenAnswers::Message(_) => 1,
            GivenAnswers::ToolResults(results) => results.len(),
        };
        count_given_answers(&self.opened.state()) + new
    }

    /// Sends the answers. `reserved` is the run for which the call's idempotency key is reserved.
    async fn resume(self, call: &StartContext<'_>, reserved: Option<RunId>) -> ApiResult<ActiveRun> {
        let service = &call.host.service;
        match self.given {
            GivenAnswers::Message((path, value)) => {
                let answer = CommandAction::Answer { path, value };
                let send = async |opened| service.send_answer_once(opened, answer, &call.start, reserved).await;
                resume_in_turn(call.host, self.opened, send).await
            }
            GivenAnswers::ToolResults(results) if results.is_empty() => {
                Ok(call.host.supervisor.find_started(self.opened.id))
            }
            GivenAnswers::ToolResults(results) => {
                let send = async |opened| service.send_answers(opened, results, call.user()).await;
                resume_in_turn(call.host, self.opened, send).await
            }
        }
    }
}
