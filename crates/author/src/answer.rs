//! Asks a model, and reads the JSON in its answers.

use flowloom_core::chat::{Message, Role};
use flowloom_core::code::Code;
use flowloom_core::error::StepFailure;

use crate::env::{ModelQuestion, PlannerEnv, user_says};
use crate::event::PlannerEvent;
use crate::limits::MAX_REPAIRS;

/// Maximum length of an unusable answer that is quoted to the model, in characters.
const MAX_QUOTED_CHARS: usize = 16_000;

/// Asks once, and emits the prompt and the answer. Returns the text of the answer, or (inner `Err`) the reason why the
/// answer is unusable.
pub(crate) async fn ask_once(
    world: &dyn PlannerEnv,
    question: &ModelQuestion,
) -> Result<Result<String, String>, StepFailure> {
    let ModelQuestion { stage, system, messages, .. } = question;
    world.emit_event(PlannerEvent::LlmPrompt {
        stage: stage.clone(),
        system: system.clone(),
        messages: messages.clone(),
    });
    let answer = match world.ask_model(question).await {
        Ok(answer) => answer,
        Err(error) if error.code == Code::ModelNotJson => return Ok(Err(error.message)),
        Err(error) => return Err(error),
    };
    let event = PlannerEvent::LlmResponse { stage: stage.clone(), text: answer.text.clone(), elapsed: answer.elapsed };
    world.emit_event(event);
    Ok(Ok(answer.text))
}

/// Asks until `read` accepts the answer. Each further prompt lists all errors so far.
pub(crate) async fn ask_until<T>(
    world: &dyn PlannerEnv,
    stage: &'static str,
    question: ModelQuestion,
    read: impl Fn(&str) -> Result<T, Vec<String>>,
) -> Result<T, StepFailure> {
    let (_, value) = Dialogue::new(question).next_answer(world, stage, read).await?;
    Ok(value)
}

/// A question, and the errors of the answers so far.
pub(crate) struct Dialogue {
    /// The next question.
    pub(crate) question: ModelQuestion,
    first: Message,
    problems: Vec<Vec<String>>,
}

impl Dialogue {
    pub(crate) fn new(question: ModelQuestion) -> Dialogue {
        let first = question.messages.first().cloned().unwrap_or_else(|| user_says(""));
        Dialogue { question, first, problems: Vec::new() }
    }

    /// The number of unusable answers.
    pub(crate) fn failure_count(&self) -> usize {
        self.problems.len()
    }

    /// The next answer that `read` accepts, with its text.
    pub(crate) async fn next_answer<T>(
        &mut self,
        world: &dyn PlannerEnv,
        stage: &'static str,
        read: impl Fn(&str) -> Result<T, Vec<String>>,
    ) -> Result<(String, T), StepFailure> {
        loop {
            let (reply, problems) = match ask_once(world, &self.question).await? {
                Ok(text) => match read(&text) {
                    Ok(value) => return Ok((text, value)),
                    Err(problems) => (Some(text), problems),
                },
                Err(why) => (None, vec![why]),
            };
            self.reject_answer(world, stage, reply.as_deref(), problems)?;
        }
    }

    /// Rejects an answer, so that the question is asked again. Fails with `FL1060` once the repairs are exhausted.
    pub(crate) fn reject_answer(
        &mut self,
        world: &dyn PlannerEnv,
        stage: &'static str,
        reply: Option<&str>,
        problems: Vec<String>,
    ) -> Result<(), StepFailure> {
        let error = problems.join("; ");
        world.emit_event(PlannerEvent::Validation { stage, error: Some(error.clone()) });
        self.add_failure(reply, problems);
        if self.failure_count() > MAX_REPAIRS {
            let message =
                format!("{stage}: none of {} answers could be used; errors of the last: {error}", self.failure_count());
            return Err(StepFailure::new(Code::AuthoringFailed, message));
        }
        Ok(())
    }

    /// Records the errors of an answer. The next question contains that answer and all errors so far.
    pub(crate) fn add_failure(&mut self, reply: Option<&str>, problems: Vec<String>) {
        self.problems.push(problems);
        let mut correction = "Your answer cannot be used. Errors so far:".to_owned();
        for (attempt, problems) in self.problems.iter().enumerate() {
            for problem in problems {
                correction.push_str(&format!("\n- answer {}: {problem}", attempt + 1));
            }
        }
        correction.push_str("\nAnswer again with the whole corrected JSON object and nothing else.");
        let reply: String = reply.unwrap_or_default().chars().take(MAX_QUOTED_CHARS).collect();
        let reply = if reply.trim().is_empty() { "(nothing)".to_owned() } else { reply };
        self.question.messages = vec![self.first.clone(), Message::new(Role::Assistant, reply), user_says(correction)];
    }
}
