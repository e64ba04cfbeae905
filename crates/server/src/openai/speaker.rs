//! The answer of a run, either complete or streamed.

use std::sync::Arc;
use std::time::Duration;

use flowloom_app::runs::supervisor::{Begun, Ended, Ending};
use flowloom_core::id::RunId;
use flowloom_formats::Spoken;
use flowloom_runtime::publish::{Heard, Signal, Subscription};
use futures_util::stream::{self, Stream};

use super::reply::{Reply, reply};
use crate::problem::Answer;
use crate::runs::answer::WAIT;
use crate::state::Server;

/// Streams the answer of a run to a client.
pub(crate) struct Speaker {
    server: Server,
    run: RunId,
    ending: Option<Ending>,
    heard: Option<Subscription>,
    /// The step whose text is the answer; `None` if it is unknown in advance.
    words: Option<Spoken>,
    /// The text that was sent.
    sent: String,
    taken: u64,
    is_over: bool,
    /// The user on whose behalf the run is cancelled if the client disconnects.
    by: Option<String>,
}

/// A piece of an answer.
pub(crate) enum Piece {
    Text(String),
    /// The end of the answer.
    End(Answer<Reply>),
}

impl Speaker {
    pub(crate) fn new(server: Server, begun: Begun, words: Option<Spoken>) -> Speaker {
        let Begun { id, ending, heard } = begun;
        Speaker { server, run: id, ending, heard, words, sent: String::new(), taken: 0, is_over: false, by: None }
    }

    /// Cancels the run on behalf of a user if the stream is dropped early: a user who stops an answer also wants to
    /// stop the work behind it.
    pub(crate) fn cancelled_by(mut self, by: Option<String>) -> Speaker {
        self.by = by;
        self
    }

    pub(crate) fn run(&self) -> RunId {
        self.run
    }

    /// Waits for the complete answer.
    pub(crate) async fn whole(mut self) -> Answer<Reply> {
        self.heard = None;
        self.end(WAIT).await
    }

    /// The answer as a stream of pieces.
    pub(crate) fn pieces(mut self) -> impl Stream<Item = Piece> + Send + 'static {
        if self.heard.is_none() {
            self.heard = self.server.live.subscribe(self.run);
        }
        stream::unfold(self, |mut speaker| async move {
            if speaker.is_over {
                return None;
            }
            let piece = speaker.next().await;
            Some((piece, speaker))
        })
    }

    async fn next(&mut self) -> Piece {
        while let Some(heard) = &mut self.heard {
            match heard.next().await {
                Some(Heard::Signal(signal)) => {
                    if let Some(text) = self.words_of(signal) {
                        self.sent.push_str(&text);
                        return Piece::Text(text);
                    }
                }
                // Missed text is sent with the rest at the end.
                Some(Heard::Missed(_)) => {}
                None => self.heard = None,
            }
        }
        let reply = match self.end(Duration::MAX).await {
            Ok(reply) => reply,
            Err(problem) => return Piece::End(Err(problem)),
        };
        // The streamed text is the beginning of the answer, or all of it.
        let rest = reply.text.strip_prefix(&self.sent).unwrap_or_default().to_owned();
        Piece::End(Ok(Reply { text: rest, ..reply }))
    }

    /// The text of an update, if it continues the answer.
    fn words_of(&mut self, signal: Signal) -> Option<String> {
        let Signal::Delta { path, offset, text, .. } = signal else { return None };
        let words = self.words.as_ref().filter(|words| words.path == path && offset == self.taken)?;
        let before = if self.taken == 0 { words.before.as_str() } else { "" };
        self.taken += text.chars().count() as u64;
        Some(format!("{before}{text}"))
    }

    async fn end(&mut self, time: Duration) -> Answer<Reply> {
        let ended = self.ended(time).await;
        self.is_over = true;
        reply(&*ended?)
    }

    async fn ended(&mut self, time: Duration) -> Answer<Arc<Ended>> {
        if let Some(ended) = self.server.runs.waited(self.run, self.ending.clone(), time).await {
            return Ok(ended);
        }
        Ok(Arc::new(recorded(&self.server, self.run).await?))
    }
}

/// Reads the outcome of a stored run.
pub(crate) async fn recorded(server: &Server, run: RunId) -> Answer<Ended> {
    let opened = server.app.open_id(run).await?;
    let outcome = flowloom_app::runs::finished::recorded(&server.app, &opened).await?;
    Ok(Ended { plan: opened.plan, outcome })
}

impl Drop for Speaker {
    fn drop(&mut self) {
        if let (false, Some(by)) = (self.is_over, &self.by)
            && let Some(control) = self.server.live.control(self.run)
        {
            control.cancel(by);
        }
    }
}
