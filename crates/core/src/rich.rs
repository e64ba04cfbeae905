//! Resolved text in which secrets are still names.
//!
//! The plan, the journal and all request hashes contain only names; `tools` inserts the values when it sends. A secret
//! is a piece of its own, not a marker in the text, so no inserted value can forge one.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::code::Code;
use crate::error::StepFailure;
use crate::hash::Hasher;

/// Text that contains secrets by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rich {
    pieces: Vec<RichPiece>,
}

/// A piece of such text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RichPiece {
    /// Text as it is.
    Text(String),
    /// The name of a secret.
    Secret(Arc<str>),
}

impl From<&str> for Rich {
    fn from(text: &str) -> Rich {
        let mut rich = Rich::default();
        rich.push_text(text);
        rich
    }
}

impl Rich {
    /// The pieces in order.
    pub fn pieces(&self) -> &[RichPiece] {
        &self.pieces
    }

    /// Appends text.
    pub fn push_text(&mut self, text: &str) {
        match self.pieces.last_mut() {
            Some(RichPiece::Text(last)) => last.push_str(text),
            _ if text.is_empty() => {}
            _ => self.pieces.push(RichPiece::Text(text.to_owned())),
        }
    }

    /// Adds it to a hash: names of secrets, never their values.
    pub(crate) fn hash_into(&self, hasher: &mut Hasher) {
        hasher.add_number(self.pieces.len() as u64);
        for piece in &self.pieces {
            match piece {
                RichPiece::Text(text) => hasher.add_number(0).add_text(text),
                RichPiece::Secret(name) => hasher.add_number(1).add_text(name),
            };
        }
    }

    /// Appends owned text; avoids a copy if it is the first piece.
    pub fn push_string(&mut self, text: String) {
        if self.pieces.is_empty() && !text.is_empty() {
            self.pieces.push(RichPiece::Text(text));
        } else {
            self.push_text(&text);
        }
    }

    /// Appends a secret by name.
    pub fn push_secret(&mut self, name: &str) {
        self.pieces.push(RichPiece::Secret(name.into()));
    }

    /// Whether the text contains a secret.
    pub fn has_secrets(&self) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, RichPiece::Secret(_)))
    }

    /// The name of the first secret.
    pub fn first_secret(&self) -> Option<&str> {
        self.pieces.iter().find_map(|piece| if let RichPiece::Secret(name) = piece { Some(&**name) } else { None })
    }

    /// The text for people and the journal, with secrets as `${secret.NAME}`.
    pub fn to_redacted_text(&self) -> String {
        self.fill_secrets(|name| format!("${{secret.{name}}}"))
    }

    /// The text with every secret replaced by `value(name)`.
    pub fn fill_secrets(&self, value: impl Fn(&str) -> String) -> String {
        if let [RichPiece::Text(text)] = self.pieces.as_slice() {
            return text.clone();
        }
        let mut out = String::new();
        for piece in &self.pieces {
            match piece {
                RichPiece::Text(text) => out.push_str(text),
                RichPiece::Secret(name) => out.push_str(&value(name)),
            }
        }
        out
    }

    /// Applies a text-to-text function while the secrets are replaced by placeholders.
    ///
    /// Each placeholder must occur exactly once in the result, and in order. If a text contains a placeholder of its
    /// own, even one that appears only after decoding, the function is applied again with different placeholders; so no
    /// value can forge a secret. Fails with the error of the function, and with `FL0115` if it loses or changes a
    /// placeholder, for example that of a secret in a host name.
    pub fn map_text(&self, map: impl Fn(&str) -> Result<String, StepFailure>) -> Result<Rich, StepFailure> {
        let names: Vec<&str> = self
            .pieces
            .iter()
            .filter_map(|piece| if let RichPiece::Secret(name) = piece { Some(&**name) } else { None })
            .collect();
        if names.is_empty() {
            return map(&self.to_redacted_text()).map(|text| Rich::from(text.as_str()));
        }
        for attempt in 0..MAX_PLACEHOLDER_ATTEMPTS {
            let mark = format!("SECRET{attempt}MARK");
            let number = std::cell::Cell::new(0);
            let marked = self.fill_secrets(|_| {
                number.set(number.get() + 1);
                format!("{mark}{:06}", number.get() - 1)
            });
            if let Some(rich) = restore_secrets(&map(&marked)?, &mark, &names) {
                return Ok(rich);
            }
        }
        let message = format!("the secret {} cannot be used here", names[0]);
        Err(StepFailure::new(Code::SecretPlace, message))
    }
}

/// Number of placeholders tried before the place is considered unfit for secrets.
const MAX_PLACEHOLDER_ATTEMPTS: u32 = 32;

/// Turns placeholders back into secrets; `None` unless each occurs exactly once and in order.
fn restore_secrets(text: &str, mark: &str, names: &[&str]) -> Option<Rich> {
    let mut rich = Rich::default();
    let mut parts = text.split(mark);
    rich.push_text(parts.next().unwrap_or_default());
    let mut found = 0;
    for part in parts {
        let (digits, rest) = part.split_at_checked(6)?;
        if digits.parse() != Ok(found) {
            return None;
        }
        rich.push_secret(names.get(found)?);
        rich.push_text(rest);
        found += 1;
    }
    (found == names.len()).then_some(rich)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_survive_a_rewrite() {
        let mut rich = Rich::from("{\"a\": \"");
        rich.push_secret("KEY");
        rich.push_text("\" }");
        let tight = rich.map_text(|text| Ok(text.replace(' ', ""))).expect("no error");
        assert_eq!(tight.fill_secrets(|name| format!("<{name}>")), "{\"a\":\"<KEY>\"}");
        assert_eq!(tight.to_redacted_text(), "{\"a\":\"${secret.KEY}\"}");
    }

    #[test]
    fn a_value_cannot_conjure_a_secret_up() {
        let mut rich = Rich::from("{\"v\":\"\\u0053ECRET0MARK000000\",\"k\":\"");
        rich.push_secret("KEY");
        rich.push_text("\"}");
        let decode = |text: &str| crate::json::parse_value(text).map(|value| crate::json::write_json(&value));
        let mapped = rich.map_text(|text| Ok(decode(text).expect("valid"))).expect("no error");
        assert_eq!(mapped.fill_secrets(|_| "x".into()), "{\"v\":\"SECRET0MARK000000\",\"k\":\"x\"}");
    }

    #[test]
    fn a_lost_secret_is_an_error() {
        let mut rich = Rich::from("https://");
        rich.push_secret("HOST");
        let error = rich.map_text(|text| Ok(text.to_lowercase())).expect_err("its mark is changed");
        assert_eq!(error.code, Code::SecretPlace);
    }
}
