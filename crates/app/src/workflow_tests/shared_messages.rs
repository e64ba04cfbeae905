//! The messages of a conversation in the file of a test. A request that continues the conversation of an earlier step names
//! that step and has the messages that follow, so that the file grows with the conversation and not with its square.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde::{Deserialize as _, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

use super::file::{StepAttempt, TestStep};

/// The field of a request with its messages.
const MESSAGES: &str = "messages";

/// The key of the step whose messages come first. An object with this key replaces the first message.
const SAME_AS: &str = "same_as";

/// The key of the attempt of that step, unless it is the first.
const ATTEMPT: &str = "attempt";

/// Minimum number of messages that are named instead of repeated: a request with one message is easy to read.
const MIN_SHARED: usize = 2;

/// Maximum number of bytes of all messages, once those that are named are repeated.
const MAX_MESSAGE_BYTES: usize = 256 << 20;

/// Writes the steps of a test.
pub(super) fn serialize<S: Serializer>(steps: &[TestStep], serializer: S) -> Result<S::Ok, S::Error> {
    let mut steps = steps.to_vec();
    name_shared_messages(&mut steps);
    steps.serialize(serializer)
}

/// Reads the steps of a test.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<TestStep>, D::Error> {
    let mut steps = Vec::deserialize(deserializer)?;
    repeat_shared_messages(&mut steps).map_err(serde::de::Error::custom)?;
    Ok(steps)
}

/// Replaces the messages that earlier steps have sent by the name of a step: of the steps whose whole request comes first, the
/// one with the most messages.
fn name_shared_messages(steps: &mut [TestStep]) {
    let mut earlier: HashMap<u64, (StepAttempt, Vec<Value>)> = HashMap::new();
    let mut known: HashSet<StepAttempt> = HashSet::new();
    for step in steps {
        let attempt = step.to_attempt();
        let Some(messages) = find_messages(step) else { continue };
        let (mut hasher, mut shared) = (DefaultHasher::new(), None);
        for (index, message) in messages.iter().enumerate() {
            message.to_string().hash(&mut hasher);
            let first = &messages[..=index];
            let same = earlier.get(&hasher.finish()).filter(|(_, sent)| index + 1 >= MIN_SHARED && sent == first);
            shared = same.map(|(attempt, _)| (index + 1, attempt.clone())).or(shared);
        }
        if known.insert(attempt.clone()) {
            earlier.entry(hasher.finish()).or_insert_with(|| (attempt, messages.clone()));
        }
        if let Some((count, attempt)) = shared {
            messages.splice(..count, [name_step(&attempt)]);
        }
    }
}

/// Replaces the names of steps by their messages.
fn repeat_shared_messages(steps: &mut [TestStep]) -> Result<(), String> {
    let names_step = |step: &mut TestStep| find_messages(step).is_some_and(|all| all.first().is_some_and(is_name));
    if !steps.iter_mut().any(names_step) {
        return Ok(());
    }
    let mut earlier: HashMap<StepAttempt, (Vec<Value>, usize)> = HashMap::new();
    let mut all_bytes = 0_usize;
    for step in steps {
        let attempt = step.to_attempt();
        let Some(messages) = find_messages(step) else { continue };
        let measure = |messages: &[Value]| messages.iter().map(|message| message.to_string().len()).sum::<usize>();
        let mut bytes = measure(messages);
        if let Some(named) = messages.first().and_then(read_name) {
            let Some((shared, shared_bytes)) = earlier.get(&named) else {
                return Err(format!(
                    "`{SAME_AS}` names no earlier step with messages: {} (attempt {})",
                    named.0, named.1
                ));
            };
            bytes += shared_bytes;
            if all_bytes.saturating_add(bytes) > MAX_MESSAGE_BYTES {
                return Err(format!("the messages of its steps have more than {MAX_MESSAGE_BYTES} bytes in all"));
            }
            messages.splice(..1, shared.iter().cloned());
        }
        all_bytes = all_bytes.saturating_add(bytes);
        earlier.entry(attempt).or_insert_with(|| (messages.clone(), bytes));
    }
    Ok(())
}

fn find_messages(step: &mut TestStep) -> Option<&mut Vec<Value>> {
    step.request.as_mut()?.get_mut(MESSAGES)?.as_array_mut()
}

fn name_step((path, attempt): &StepAttempt) -> Value {
    match attempt {
        1 => json!({SAME_AS: path}),
        attempt => json!({SAME_AS: path, ATTEMPT: attempt}),
    }
}

fn is_name(message: &Value) -> bool {
    read_name(message).is_some()
}

/// The step that an object in place of a message names.
fn read_name(message: &Value) -> Option<StepAttempt> {
    let path = message.get(SAME_AS)?.as_str()?;
    let attempt = message.get(ATTEMPT).and_then(Value::as_u64).and_then(|attempt| u32::try_from(attempt).ok());
    Some((path.to_owned(), attempt.unwrap_or(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build_message(role: &str, content: &str) -> Value {
        json!({"role": role, "content": content})
    }

    fn build_step(path: &str, attempt: u32, messages: &[Value]) -> Value {
        json!({"path": path, "attempt": attempt, "request": {"model": "m:x", "messages": messages}})
    }

    fn read_steps(steps: &Value) -> Result<Vec<TestStep>, serde_json::Error> {
        deserialize(steps)
    }

    #[test]
    fn a_conversation_is_written_once() {
        let talk: Vec<Value> = (0..60)
            .map(|n| build_message(if n % 2 == 0 { "user" } else { "assistant" }, &format!("text {n}")))
            .collect();
        let mut all: Vec<Value> = (0..30).map(|n| build_step(&format!("/a{n}"), 1, &talk[..=2 * n])).collect();
        all.push(build_step("/a29", 2, &talk[..=58]));
        all.push(build_step("/b", 1, &talk));
        all.push(build_step("/c", 1, &[build_message("user", "text 0"), build_message("user", "other")]));
        let steps: Vec<TestStep> = serde_json::from_value(all.into()).expect("steps");
        let written = serialize(&steps, serde_json::value::Serializer).expect("JSON");
        let first = |at: usize| written[at]["request"]["messages"].as_array().map(|all| (all[0].clone(), all.len()));
        assert_eq!(first(1), Some((build_message("user", "text 0"), 3)), "one message is repeated");
        assert_eq!(first(2), Some((json!({"same_as": "/a1"}), 3)));
        assert_eq!(first(30), Some((json!({"same_as": "/a29"}), 1)), "a repeated attempt");
        assert_eq!(first(31), Some((json!({"same_as": "/a29"}), 2)));
        assert_eq!(first(32), Some((build_message("user", "text 0"), 2)));
        let again = read_steps(&written).expect("steps");
        assert_eq!(serde_json::to_value(again).ok(), serde_json::to_value(steps).ok());
    }

    #[test]
    fn steps_may_have_one_name() {
        let two = [build_message("user", "a"), build_message("assistant", "b")];
        let other = [build_message("user", "c"), build_message("assistant", "d")];
        let all = json!([
            build_step("/a", 1, &other),
            build_step("/a", 1, &two),
            build_step("/b", 1, &two),
            build_step("/c", 1, &other)
        ]);
        let steps: Vec<TestStep> = serde_json::from_value(all).expect("steps");
        let written = serialize(&steps, serde_json::value::Serializer).expect("JSON");
        let again = read_steps(&written).expect("steps");
        assert_eq!(serde_json::to_value(again).ok(), serde_json::to_value(steps).ok());
    }

    #[test]
    fn a_name_must_be_that_of_an_earlier_step() {
        let error =
            read_steps(&json!([build_step("/b", 1, &[json!({"same_as": "/a", "attempt": 2})])])).expect_err("no step");
        assert_eq!(error.to_string(), "`same_as` names no earlier step with messages: /a (attempt 2)");
    }

    #[test]
    fn messages_are_repeated_up_to_a_limit() {
        let long = build_message("user", &"x".repeat(1 << 20));
        let mut all = vec![build_step("/a0", 1, std::slice::from_ref(&long))];
        let named =
            |n: usize| build_step(&format!("/a{n}"), 1, &[json!({"same_as": format!("/a{}", n - 1)}), long.clone()]);
        all.extend((1..40).map(named));
        let error = read_steps(&all.into()).expect_err("too much");
        assert!(error.to_string().contains("more than 268435456 bytes"), "{error}");
    }
}
