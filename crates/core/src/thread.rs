//! Conversations: messages in order, shared rather than copied, with a digest of everything said.

use std::sync::Arc;

use crate::hash::{Hash, Hasher};
use crate::request::{Message, MessagePart, Role};

/// What was said so far. Cloning is cheap, and a request that holds a whole conversation costs one hash, however long
/// it is.
#[derive(Clone, Debug)]
pub struct Thread {
    messages: Arc<Vec<Message>>,
    digest: Hash,
}

impl Default for Thread {
    fn default() -> Thread {
        Thread { messages: Arc::default(), digest: Hash::of(b"") }
    }
}

impl Thread {
    /// Adds a message.
    pub fn push(&mut self, message: Message) {
        let mut hasher = Hasher::new();
        hasher.hash(&self.digest);
        hash_message(&mut hasher, &message);
        self.digest = hasher.finish();
        Arc::make_mut(&mut self.messages).push(message);
    }

    /// The messages in order.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }
}

impl FromIterator<Message> for Thread {
    fn from_iter<I: IntoIterator<Item = Message>>(messages: I) -> Thread {
        let mut thread = Thread::default();
        messages.into_iter().for_each(|message| thread.push(message));
        thread
    }
}

/// The messages of one request: instructions, the conversation so far, and what is new.
#[derive(Clone, Debug, Default)]
pub struct Messages {
    system: Option<Message>,
    thread: Thread,
    new: Vec<Message>,
}

impl Messages {
    /// Instructions (if there are any) before a conversation.
    pub fn new(system: Option<String>, thread: Thread) -> Messages {
        let system = system.map(|text| Message::new(Role::System, text));
        Messages { system, thread, new: Vec::new() }
    }

    /// Adds a message at the end.
    pub fn push(&mut self, message: Message) {
        self.new.push(message);
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Message> {
        self.system.iter().chain(self.thread.messages()).chain(&self.new)
    }

    /// The last one.
    pub fn last(&self) -> Option<&Message> {
        self.new.last().or_else(|| self.thread.messages().last()).or(self.system.as_ref())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        usize::from(self.system.is_some()) + self.thread.messages().len() + self.new.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a paragraph to the instructions.
    pub fn instruct(&mut self, text: &str) {
        let first = match self.new.first_mut() {
            Some(first) if self.thread.messages().is_empty() && first.role == Role::System => Some(first),
            _ => None,
        };
        match self.system.as_mut().or(first) {
            Some(system) => system.content = format!("{}\n\n{text}", system.content),
            None => self.system = Some(Message::new(Role::System, text)),
        }
    }

    /// Adds everything to a hash.
    pub(crate) fn hash_into(&self, hasher: &mut Hasher) {
        hasher.number(self.len() as u64);
        self.system.iter().for_each(|message| hash_message(hasher, message));
        hasher.hash(&self.thread.digest);
        self.new.iter().for_each(|message| hash_message(hasher, message));
    }
}

impl From<Vec<Message>> for Messages {
    fn from(new: Vec<Message>) -> Messages {
        Messages { new, ..Messages::default() }
    }
}

fn hash_message(hasher: &mut Hasher, message: &Message) {
    hasher.number(message.role as u64).text(&message.content).number(message.tool_calls.len() as u64);
    for call in &message.tool_calls {
        hasher.text(&call.name).value(&call.arguments);
    }
    hasher.number(message.parts.len() as u64);
    for part in &message.parts {
        match part {
            MessagePart::Text { text } => hasher.number(0).text(text),
            MessagePart::Image { mime, data } => hasher.number(1).text(mime).text(data),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_the_same_only_if_everything_said_is() {
        let hash = |messages: &Messages| {
            let mut hasher = Hasher::new();
            messages.hash_into(&mut hasher);
            hasher.finish()
        };
        let thread: Thread = [Message::new(Role::User, "a"), Message::new(Role::Assistant, "b")].into_iter().collect();
        let mut longer = thread.clone();
        longer.push(Message::new(Role::User, "c"));
        let (one, two) = (Messages::new(None, thread.clone()), Messages::new(None, longer));
        assert_ne!(hash(&one), hash(&two));
        assert_eq!(hash(&one), hash(&Messages::new(None, thread)));
        assert_eq!(two.iter().map(|message| message.content.as_str()).collect::<String>(), "abc");
    }

    #[test]
    fn instructions_join_those_that_are_there() {
        let mut messages = Messages::new(Some("Be brief.".into()), Thread::default());
        messages.instruct("Answer in JSON.");
        let mut bare = Messages::from(vec![Message::new(Role::User, "hi")]);
        bare.instruct("Answer in JSON.");
        let texts = |messages: &Messages| messages.iter().map(|m| m.content.clone()).collect::<Vec<_>>();
        assert_eq!(texts(&messages), ["Be brief.\n\nAnswer in JSON."]);
        assert_eq!(texts(&bare), ["Answer in JSON.", "hi"]);
    }
}
