//! The answer of a run, either complete or streamed.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use flowloom_app::runs::stored::{LoadedRun, StoredRuns};
use flowloom_app::runs::supervisor::{ActiveRun, FinishedRun, RunCompletion};
use flowloom_core::id::RunId;
use flowloom_formats::AnswerSource;
use flowloom_runtime::publish::{Delivery, Delta, RunUpdate, Subscription};
use futures_util::stream::{self, Stream};
use tokio::runtime::Handle;

use super::format::AnswerFormat;
use super::names::answer_id;
use super::reply::{RunAnswer, build_answer};
use crate::problem::{ApiResult, Problem};
use crate::runs::answer::{MAX_WAIT, name_started_run, read_run};
use crate::state::RunHost;

/// Streams the answer of a run to a client.
pub(crate) struct AnswerStream {
    host: Arc<RunHost>,
    run: RunId,
    completion: Option<RunCompletion>,
    subscription: Option<Subscription>,
    /// The step whose text is the answer; `None` if it is unknown in advance.
    answer_source: Option<AnswerSource>,
    /// The text that was sent.
    sent_text: String,
    sent_model_chars: u64,
    /// The attempt whose text was sent.
    sent_attempt: Option<u32>,
    /// Whether the step was repeated after some of its text was sent.
    was_repeated: bool,
    is_finished: bool,
    /// The user on whose behalf the run is cancelled if the client disconnects.
    cancel_as: Option<String>,
    format: AnswerFormat,
    /// The number of answers and results that the client has given to the run.
    given_answers: usize,
}

/// A piece of an answer.
pub(crate) enum AnswerPiece {
    Text(String),
    /// The end of the answer.
    End(ApiResult<RunAnswer>),
}

impl AnswerStream {
    pub(crate) fn new(host: Arc<RunHost>, active: ActiveRun, words: Option<AnswerSource>) -> AnswerStream {
        let ActiveRun { id, completion, subscription } = active;
        AnswerStream {
            host,
            run: id,
            completion,
            subscription,
            answer_source: words,
            sent_text: String::new(),
            sent_model_chars: 0,
            sent_attempt: None,
            was_repeated: false,
            is_finished: false,
            cancel_as: None,
            format: AnswerFormat::Text,
            given_answers: 0,
        }
    }

    /// Sets the number of answers and results that the client has given to the run.
    pub(crate) fn with_given_answers(mut self, given_answers: usize) -> AnswerStream {
        self.given_answers = given_answers;
        self
    }

    /// The id of the answer; see [`answer_id`].
    pub(crate) fn answer_id(&self, prefix: &str) -> String {
        answer_id(prefix, self.run, self.given_answers)
    }

    /// Gives the answer in a form. Only a text is sent while it is written.
    pub(crate) fn in_format(mut self, format: AnswerFormat) -> AnswerStream {
        if !format.is_text() {
            self.answer_source = None;
        }
        self.format = format;
        self
    }

    /// Cancels the run on behalf of a user if the stream is dropped early: a user who stops an answer also wants to
    /// stop the work behind it.
    pub(crate) fn cancel_on_drop(mut self, by: Option<String>) -> AnswerStream {
        self.cancel_as = by;
        self
    }

    pub(crate) fn run_id(&self) -> RunId {
        self.run
    }

    /// Waits until the start of the run is stored, so that only stored runs are acknowledged before they end.
    pub(crate) async fn wait_until_stored(&self) -> ApiResult<()> {
        let stored = self.host.service.wait_until_stored(self.run, self.completion.clone()).await;
        self.name_run(stored.map_err(Problem::from))
    }

    /// A result whose problem names the run, with a status that clients do not retry: a retry would start a second run.
    fn name_run<T>(&self, result: ApiResult<T>) -> ApiResult<T> {
        name_started_run(&self.host, self.run, self.completion.as_ref(), result).map_err(|problem| {
            match problem.has_started_run() {
                true => problem.with_status(StatusCode::UNPROCESSABLE_ENTITY),
                false => problem,
            }
        })
    }

    /// Waits for the complete answer.
    pub(crate) async fn wait_for_answer(mut self) -> ApiResult<RunAnswer> {
        self.subscription = None;
        self.finish(MAX_WAIT).await
    }

    /// The answer as a stream of pieces.
    pub(crate) fn into_pieces(mut self) -> impl Stream<Item = AnswerPiece> + Send + 'static {
        if self.subscription.is_none() {
            self.subscription = self.host.supervisor.subscribe(self.run);
        }
        stream::unfold(self, |mut stream| async move {
            if stream.is_finished {
                return None;
            }
            let piece = stream.next_piece().await;
            Some((piece, stream))
        })
    }

    async fn next_piece(&mut self) -> AnswerPiece {
        while let Some(subscription) = &mut self.subscription {
            match subscription.next().await {
                Some(Delivery::Update(update)) => {
                    if let Some(text) = self.answer_text(update) {
                        self.sent_text.push_str(&text);
                        return AnswerPiece::Text(text);
                    }
                }
                // Missed text is sent with the rest at the end.
                Some(Delivery::Missed(_)) => {}
                None => self.subscription = None,
            }
        }
        let reply = match self.finish(Duration::MAX).await {
            Ok(reply) => reply,
            Err(problem) => return AnswerPiece::End(Err(problem)),
        };
        let rest = self.find_rest(&reply.text);
        AnswerPiece::End(Ok(RunAnswer { text: rest, ..reply }))
    }

    /// The part of the answer that was not sent. The text of an attempt that failed cannot be taken back, so the whole answer
    /// follows it.
    fn find_rest(&self, answer: &str) -> String {
        match answer.strip_prefix(&self.sent_text) {
            Some(rest) => rest.to_owned(),
            None if self.was_repeated => format!("\n\n{answer}"),
            None => String::new(),
        }
    }

    /// The text of an update, if it continues the answer.
    fn answer_text(&mut self, update: RunUpdate) -> Option<String> {
        let RunUpdate::Delta(Delta { path, attempt, offset, text, .. }) = update else { return None };
        let source = self.answer_source.as_ref().filter(|source| source.path == path)?;
        if *self.sent_attempt.get_or_insert(attempt) != attempt {
            self.was_repeated = true;
            return None;
        }
        if offset != self.sent_model_chars {
            return None;
        }
        let before = if self.sent_model_chars == 0 { source.before.as_str() } else { "" };
        self.sent_model_chars += text.chars().count() as u64;
        Some(format!("{before}{text}"))
    }

    async fn finish(&mut self, time: Duration) -> ApiResult<RunAnswer> {
        let ended = self.wait_for_outcome(time).await;
        self.is_finished = true;
        let ended = self.name_run(ended)?;
        self.format.apply(self.run, build_answer(&ended)?)
    }

    async fn wait_for_outcome(&mut self, time: Duration) -> ApiResult<Arc<FinishedRun>> {
        if let Some(ended) = self.host.service.wait_with_timeout(self.run, self.completion.clone(), time).await {
            return Ok(ended);
        }
        Ok(Arc::new(read_outcome(&self.host.app.runs, self.run).await?))
    }
}

/// Reads the outcome of a stored run.
pub(crate) async fn read_outcome(runs: &StoredRuns, run: RunId) -> ApiResult<FinishedRun> {
    let read = async |runs: &StoredRuns, opened: LoadedRun| {
        let outcome = flowloom_app::runs::finished::read_outcome(runs, &opened).await?;
        Ok(FinishedRun { plan: opened.plan, outcome })
    };
    read_run(runs, run, read).await
}

impl Drop for AnswerStream {
    fn drop(&mut self) {
        // Without a runtime the process is stopping, and the run continues when it starts again.
        if let (false, Some(sender), Ok(runtime)) = (self.is_finished, self.cancel_as.take(), Handle::try_current())
            && self.host.supervisor.is_live(self.run)
        {
            let (runs, run) = (self.host.service.clone(), self.run);
            runtime.spawn(async move { runs.cancel_abandoned(run, &sender).await });
        }
    }
}
