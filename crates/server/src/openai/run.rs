//! Starts a run for a client's messages, or resumes the run that waits for them.

use axum::http::HeaderMap;
use flowloom_app::definitions::catalog::Definition;
use flowloom_app::engines::Opened;
use flowloom_app::runs::inputs::said as read_answer;
use flowloom_app::runs::service::NewRun;
use flowloom_app::runs::supervisor::Begun;
use flowloom_core::code::Code;
use flowloom_core::id::RunId;
use flowloom_core::path::Path as StepPath;
use flowloom_core::state::StepState;
use flowloom_core::value::{Map, Value};
use flowloom_formats::{Spoken, present, spoken};

use super::inputs;
use super::messages::Conversation;
use super::reply::{called, read_call_id};
use super::speaker::Speaker;
use crate::caller::Caller;
use crate::problem::{Answer, Problem};
use crate::runs::answer::open;
use crate::runs::start::Call;
use crate::state::Server;
use crate::threads::{Saying, settle_in_turn, talk};

/// The request header that names the conversation.
const THREAD: &str = "x-flowloom-thread";

/// A request in the form common to both interfaces.
pub(crate) struct Wanted {
    /// Id of the workflow.
    pub(crate) model: String,
    pub(crate) conversation: Conversation,
    pub(crate) metadata: Map,
    /// The conversation to which the turn belongs.
    pub(crate) thread: Option<String>,
    /// The run that this one continues.
    pub(crate) previous: Option<RunId>,
}

/// The context of a request.
pub(crate) struct Asking<'a> {
    pub(crate) server: &'a Server,
    pub(crate) caller: &'a Caller,
    pub(crate) headers: &'a HeaderMap,
}

impl Wanted {
    /// Sets the thread from metadata, body or header.
    pub(crate) fn with_thread(mut self, headers: &HeaderMap) -> Wanted {
        let named = |name: &str| self.metadata.get(name).and_then(Value::as_str).map(str::to_owned);
        let header = || Some(headers.get(THREAD)?.to_str().ok()?.to_owned());
        let thread = named("thread").or_else(|| named("thread_id")).or(self.thread.take()).or_else(header);
        self.thread = thread.filter(|thread| !thread.is_empty());
        self
    }
}

impl Asking<'_> {
    /// Starts or resumes the run that answers. `request` identifies the request under its Idempotency-Key.
    pub(crate) async fn begin(&self, wanted: &Wanted, request: &str) -> Answer<Speaker> {
        let call = Call::admitted(self.server, self.caller, None, self.headers)?;
        let mut words = None;
        let begun = call.once(request, async |id| {
            let definition = call.definition(&wanted.model).await?;
            if let Some(waiting) = self.waiting(&definition, wanted).await? {
                words = spoken(&waiting.opened.plan, &waiting.opened.state().inputs());
                return waiting.go_on(&call).await;
            }
            let (begun, told) = self.start(&call, &definition, wanted, id).await?;
            words = told;
            Ok(begun)
        });
        let begun = begun.await?;
        let is_kept = call.start.idempotency_key.is_some();
        Ok(Speaker::new(self.server.clone(), begun, words).cancelled_by((!is_kept).then_some(call.start.user)))
    }

    async fn start(
        &self,
        call: &Call<'_>,
        definition: &Definition,
        wanted: &Wanted,
        id: Option<RunId>,
    ) -> Answer<(Begun, Option<Spoken>)> {
        let plan = definition.prepared.as_ref().map(|prepared| prepared.plan.clone());
        let Some(plan) = plan else {
            // The definition has errors, which the start reports.
            return Ok((call.begin(definition, NewRun { id, ..NewRun::with(Value::Null) }).await?, None));
        };
        if let (Some(thread), Some(_)) = (&wanted.thread, &plan.thread) {
            let text = wanted.conversation.text()?;
            let words = spoken(&plan, &Value::Null);
            let saying = Saying { definition, thread, text: &text, is_heard: true };
            return Ok((talk(call, saying, id).await?, words));
        }
        let mut inputs = inputs::of(&plan, &wanted.conversation, &wanted.metadata)?;
        if let (Some(previous), Some(_)) = (wanted.previous, &plan.thread) {
            inputs = self.after(previous, inputs).await?;
        }
        let words = spoken(&plan, &inputs);
        let starting = NewRun { is_heard: true, ..NewRun::with(inputs) };
        Ok((call.begin(definition, NewRun { id, ..starting }).await?, words))
    }

    /// Prepends the messages of an earlier run to the inputs.
    async fn after(&self, previous: RunId, inputs: Value) -> Answer<Value> {
        let opened = open(self.server, self.caller, &previous.to_string()).await?;
        let past = flowloom_app::runs::finished::recorded(&self.server.app, &opened).await?;
        let said = present(&opened.plan, &past.state, &past.env).result;
        let list = |value: &Value| value.get("messages").and_then(Value::as_list).unwrap_or_default().to_vec();
        let mut map = inputs.as_map().cloned().unwrap_or_default();
        map.insert("messages".into(), Value::list([list(&said), list(&inputs)].concat()));
        Ok(map.into())
    }

    /// Finds the run that waits for these messages: for results of its tools, or for the answer to a question.
    async fn waiting(&self, definition: &Definition, wanted: &Wanted) -> Answer<Option<Waiting>> {
        let results = wanted.conversation.results()?;
        let own: Vec<_> = results.iter().filter_map(|(id, text)| Some((read_call_id(id)?, text.as_str()))).collect();
        let run = own.first().map(|((run, _), _)| *run).or(wanted.previous);
        let Some(run) = run else { return Ok(None) };
        let opened = open(self.server, self.caller, &run.to_string()).await?;
        let state = opened.state();
        let workflow = state.created.as_ref().and_then(|created| created.workflow.as_deref());
        if workflow != Some(definition.id.as_str()) {
            let message = format!("the run {run} belongs to another model than {}", definition.id);
            return Err(Problem::new(Code::RequestInvalid, message));
        }
        let steps = state.steps();
        if own.is_empty() {
            let said = wanted.conversation.text()?;
            let asks =
                steps.iter().find_map(|step| Some((step.path.clone(), read_answer(step.question.as_ref()?, &said))));
            return Ok(asks.map(|answer| Waiting { opened, answers: vec![answer] }));
        }
        let mut answers = Vec::new();
        for ((of, index), text) in own {
            let is_call = |step: &&StepState| step.question.is_none() || called(&opened.plan, step).is_some();
            let step = steps.get(index).filter(|_| of == run).filter(is_call);
            let message = || format!("the run {run} has no such tool call");
            let step = step.ok_or_else(|| Problem::new(Code::RequestInvalid, message()))?;
            // A repeated result was processed already.
            if step.question.is_some() {
                answers.push((step.path.clone(), text.into()));
            }
        }
        Ok(Some(Waiting { opened, answers }))
    }
}

/// A run that waits for a client's messages.
struct Waiting {
    opened: Opened,
    /// Answers by step path; empty if all were given already.
    answers: Vec<(StepPath, Value)>,
}

impl Waiting {
    async fn go_on(self, call: &Call<'_>) -> Answer<Begun> {
        match self.answers.is_empty() {
            true => Ok(call.server.live.again(self.opened.id)),
            false => settle_in_turn(call.server, self.opened, self.answers, call.user()).await,
        }
    }
}
