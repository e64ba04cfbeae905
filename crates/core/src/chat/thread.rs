//! Conversations: ordered messages, shared rather than copied, with a digest of the whole history.

use std::sync::Arc;

use super::{Message, MessagePart, Role, ToolCall};
use crate::hash::{Hash, Hasher};

/// The messages of a conversation so far. Cloning a conversation, and hashing or measuring a request that holds one, costs the
/// same for every length.
#[derive(Clone, Debug)]
pub struct Thread {
    messages: Arc<Vec<Message>>,
    content_bytes: usize,
    digest: Hash,
}

impl Default for Thread {
    fn default() -> Thread {
        Thread { messages: Arc::default(), content_bytes: 0, digest: Hash::EMPTY }
    }
}

impl Thread {
    /// Appends a message.
    pub fn push(&mut self, message: Message) {
        let mut hasher = Hasher::new();
        hasher.add_hash(&self.digest);
        hash_message(&mut hasher, &message);
        self.digest = hasher.finish();
        self.content_bytes += message.content.len();
        Arc::make_mut(&mut self.messages).push(message);
    }

    /// The number of bytes of all texts.
    pub fn content_bytes(&self) -> usize {
        self.content_bytes
    }

    /// The messages in order.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }
}

/// The messages, with a result added for every tool call that has none: providers reject a conversation that breaks off
/// between a call and its result.
pub fn close_open_calls(messages: impl IntoIterator<Item = Message>) -> Vec<Message> {
    let mut all: Vec<Message> = Vec::new();
    let mut open: Vec<ToolCall> = Vec::new();
    for message in messages {
        if message.role == Role::Tool {
            open.retain(|call| Some(&call.id) != message.tool_call_id.as_ref());
        } else {
            all.extend(
                open.drain(..)
                    .map(|call| unanswered_call_message(call, "the conversation broke off before it was run")),
            );
            open.clone_from(&message.tool_calls);
        }
        all.push(message);
    }
    all
}

/// The result of a tool call that was not run, as the model receives it.
pub fn unanswered_call_message(call: ToolCall, why: &str) -> Message {
    let text = format!("Error: the tool {} was not run: {why}.", call.name);
    Message { tool_call_id: Some(call.id), ..Message::new(Role::Tool, text) }
}

impl FromIterator<Message> for Thread {
    fn from_iter<I: IntoIterator<Item = Message>>(messages: I) -> Thread {
        let mut thread = Thread::default();
        messages.into_iter().for_each(|message| thread.push(message));
        thread
    }
}

/// The messages of one request: instructions, the conversation so far, and new messages.
#[derive(Clone, Debug, Default)]
pub struct Messages {
    system: Option<Message>,
    thread: Thread,
    new: Vec<Message>,
}

impl Messages {
    /// A request with optional instructions, a conversation and new messages.
    pub fn new(system: Option<String>, thread: Thread, new: Vec<Message>) -> Messages {
        let system = system.map(|text| Message::new(Role::System, text));
        Messages { system, thread, new }
    }

    /// The new messages.
    pub fn new_messages(&self) -> &[Message] {
        &self.new
    }

    /// Appends a message.
    pub fn push(&mut self, message: Message) {
        self.new.push(message);
    }

    /// All messages, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Message> {
        self.system.iter().chain(self.thread.messages()).chain(&self.new)
    }

    /// The last message.
    pub fn last(&self) -> Option<&Message> {
        self.new.last().or_else(|| self.thread.messages().last()).or(self.system.as_ref())
    }

    /// The number of messages.
    pub fn len(&self) -> usize {
        usize::from(self.system.is_some()) + self.thread.messages().len() + self.new.len()
    }

    /// Size of the texts of all messages, in bytes.
    pub fn content_bytes(&self) -> usize {
        let others = self.system.iter().chain(&self.new).map(|message| message.content.len()).sum::<usize>();
        self.thread.content_bytes + others
    }

    /// An upper bound of the tokens of all messages, for every tokenizer: a token is at least one byte, and each message has some
    /// framing.
    pub fn bound_tokens(&self) -> u64 {
        (self.content_bytes() + 16 * self.len()) as u64
    }

    /// Whether there are no messages.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends a paragraph to the instructions, or creates them.
    pub fn add_instructions(&mut self, text: &str) {
        let first = match self.new.first_mut() {
            Some(first) if self.thread.messages().is_empty() && first.role == Role::System => Some(first),
            _ => None,
        };
        match self.system.as_mut().or(first) {
            Some(system) => system.content = format!("{}\n\n{text}", system.content),
            None => self.system = Some(Message::new(Role::System, text)),
        }
    }

    /// Adds all messages to a hash.
    pub(crate) fn hash_into(&self, hasher: &mut Hasher) {
        hasher.add_number(self.len() as u64);
        self.system.iter().for_each(|message| hash_message(hasher, message));
        hasher.add_hash(&self.thread.digest);
        self.new.iter().for_each(|message| hash_message(hasher, message));
    }
}

impl From<Vec<Message>> for Messages {
    fn from(new: Vec<Message>) -> Messages {
        Messages { new, ..Messages::default() }
    }
}

fn hash_message(hasher: &mut Hasher, message: &Message) {
    hasher.add_number(message.role as u64).add_text(&message.content).add_number(message.tool_calls.len() as u64);
    for call in &message.tool_calls {
        hasher.add_text(&call.name).add_value(&call.arguments);
    }
    hasher.add_number(message.parts.len() as u64);
    for part in &message.parts {
        match part {
            MessagePart::Text { text } => hasher.add_number(0).add_text(text),
            MessagePart::Image { mime, data, .. } => hasher.add_number(1).add_text(mime).add_text(data),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_the_same_only_if_its_messages_are() {
        let hash = |messages: &Messages| {
            let mut hasher = Hasher::new();
            messages.hash_into(&mut hasher);
            hasher.finish()
        };
        let thread: Thread = [Message::new(Role::User, "a"), Message::new(Role::Assistant, "b")].into_iter().collect();
        let mut longer = thread.clone();
        longer.push(Message::new(Role::User, "c"));
        let (one, two) = (Messages::new(None, thread.clone(), Vec::new()), Messages::new(None, longer, Vec::new()));
        assert_ne!(hash(&one), hash(&two));
        assert_eq!(hash(&one), hash(&Messages::new(None, thread, Vec::new())));
        assert_eq!(two.iter().map(|message| message.content.as_str()).collect::<String>(), "abc");
        assert_eq!((one.content_bytes(), two.content_bytes()), (2, 3));
    }

    #[test]
    fn instructions_join_those_that_are_there() {
        let mut messages = Messages::new(Some("Be brief.".into()), Thread::default(), Vec::new());
        messages.add_instructions("Answer in JSON.");
        let mut bare = Messages::from(vec![Message::new(Role::User, "hi")]);
        bare.add_instructions("Answer in JSON.");
        let texts = |messages: &Messages| messages.iter().map(|m| m.content.clone()).collect::<Vec<_>>();
        assert_eq!(texts(&messages), ["Be brief.\n\nAnswer in JSON."]);
        assert_eq!(texts(&bare), ["Answer in JSON.", "hi"]);
    }

    fn message_with_calls(ids: &[&str]) -> Message {
        let call = |id: &&str| ToolCall::new(*id, "look", crate::value::Value::Null);
        Message { tool_calls: ids.iter().map(call).collect(), ..Message::new(Role::Assistant, "") }
    }

    #[test]
    fn calls_without_a_result_are_answered_where_the_conversation_continues() {
        let result = Message { tool_call_id: Some("a".into()), ..Message::new(Role::Tool, "7") };
        let messages = [
            message_with_calls(&["a", "b"]),
            result.clone(),
            Message::new(Role::User, "and?"),
            message_with_calls(&["c"]),
        ];
        let repaired = close_open_calls(messages.clone());
        let ids: Vec<_> = repaired.iter().map(|message| message.tool_call_id.as_deref()).collect();
        assert_eq!(ids, [None, Some("a"), Some("b"), None, None]);
        assert_eq!(
            repaired[2].content,
            "Error: the tool look was not run: the conversation broke off before it was run."
        );
        assert_eq!(
            close_open_calls([messages[0].clone(), result.clone()]),
            [messages[0].clone(), result],
            "the end may still be open"
        );
    }
}
