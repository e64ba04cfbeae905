//! Asks a model, and reads the JSON in its answers.

use flowloom_core::chat::{Message, Role};
use flowloom_core::code::Code;
use flowloom_core::error::StepFailure;
use flowloom_core::json::{parse_value, read_lenient};
use flowloom_core::value::{Map, Value};
use serde::de::IgnoredAny;

use crate::MAX_REPAIRS;
use crate::env::{ModelQuestion, PlannerEnv, user_says};
use crate::event::PlannerEvent;

/// Maximum number of opening braces from which parsing an answer is tried.
const MAX_JSON_STARTS: usize = 100;
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

/// The JSON object in an answer, preferably one with one of `keys`; surrounding text is ignored.
pub(crate) fn find_object(text: &str, keys: &[&str]) -> Option<Map> {
    let has_key = |map: &Map| keys.iter().any(|key| map.contains_key(*key));
    let mut first = None;
    let mut end = 0;
    for (start, _) in text.match_indices('{').take(MAX_JSON_STARTS) {
        if start < end {
            continue;
        }
        let Some(length) = length_of_value(&text[start..]) else { continue };
        end = start + length;
        let Some(map) = parse_value(&text[start..end]).ok().and_then(|value| value.as_map().cloned()) else { continue };
        if has_key(&map) {
            return Some(map);
        }
        first.get_or_insert(map);
    }
    repair_object(text).filter(has_key).or(first)
}

/// The length in bytes of the JSON value at the start of `text`.
fn length_of_value(text: &str) -> Option<usize> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
    values.next()?.ok()?;
    Some(values.byte_offset())
}

/// The text from the first brace to the last, parsed leniently: source code often contains raw line breaks.
fn repair_object(text: &str) -> Option<Map> {
    let (start, end) = (text.find('{')?, text.rfind('}')?);
    read_lenient(text.get(start..=end)?)?.as_map().cloned()
}

/// The trimmed text of a field; `None` if it is empty or missing.
pub(crate) fn text_of(map: &Map, key: &str) -> Option<String> {
    map.get(key).and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned)
}

/// The strings of a list; other items are ignored.
pub(crate) fn texts_of(map: &Map, key: &str) -> Vec<String> {
    let items = map.get(key).and_then(Value::as_list).unwrap_or_default();
    items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object_value(text: &str) -> Option<Value> {
        find_object(text, &["a"]).map(Value::from)
    }

    fn parse_json(text: &str) -> Option<Value> {
        parse_value(text).ok()
    }

    #[test]
    fn the_object_with_the_key_is_found_among_words_fences_and_others() {
        assert_eq!(object_value(r#"{"a":1}"#), parse_json(r#"{"a":1}"#));
        assert_eq!(object_value("Sure {not json}.\n```json\n{\"a\": \"}\"}\n```\n"), parse_json(r#"{"a":"}"}"#));
        assert_eq!(object_value(r#"first {"b":{"a":0}}, then {"a":2} {"a":3}"#), parse_json(r#"{"a":2}"#));
        assert_eq!(
            object_value(r#"{"b":1}"#),
            parse_json(r#"{"b":1}"#),
            "without the key there is still something to complain about"
        );
        assert_eq!(object_value("[1] {} and no more"), parse_json("{}"));
        assert_eq!(object_value("I cannot do that"), None);
        assert_eq!(object_value("} {"), None);
    }

    #[test]
    fn raw_line_breaks_within_texts_are_repaired() {
        let reply = "```json\n{\"b\": {\"c\": 1}, \"a\": \"line\nline\"}\n```";
        assert_eq!(object_value(reply).and_then(|found| found.get("a").cloned()), Some("line\nline".into()));
    }

    proptest::proptest! {
        #[test]
        fn no_answer_panics(text in r#"[{}\[\]":,a1é\\n `\n]{0,60}"#, any in ".{0,200}") {
            for text in [text, any] {
                let _ = find_object(&text, &["a"]);
            }
        }

        #[test]
        fn an_object_among_words_is_found(before in "[a-z .:é]{0,20}", number in 0i64..1000, after in "[a-z .}]{0,20}") {
            let found = find_object(&format!("{before}{{\"a\": {number}}}{after}"), &["a"]);
            proptest::prop_assert_eq!(found.map(Value::from), Some(Value::map([("a", Value::from(number))])));
        }
    }
}
