//! Resolved text in which secrets are still names.
//!
//! The plan, the journal and every request hash see names only; `tools` puts the values in at the socket. A secret is
//! a piece of its own, not a mark in the text, so that no value put into the text can conjure one up.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Text with secrets by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rich {
    pieces: Vec<Piece>,
}

/// A piece of such text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Piece {
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
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Appends text.
    pub fn push_text(&mut self, text: &str) {
        match self.pieces.last_mut() {
            Some(Piece::Text(last)) => last.push_str(text),
            _ if text.is_empty() => {}
            _ => self.pieces.push(Piece::Text(text.to_owned())),
        }
    }

    /// Appends a secret by name.
    pub fn push_secret(&mut self, name: &str) {
        self.pieces.push(Piece::Secret(name.into()));
    }

    /// Whether it holds a secret.
    pub fn has_secrets(&self) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, Piece::Secret(_)))
    }

    /// The first secret's name.
    pub fn first_secret(&self) -> Option<&str> {
        self.pieces.iter().find_map(|piece| if let Piece::Secret(name) = piece { Some(&**name) } else { None })
    }

    /// The text for people and the journal: secrets as `${secret.NAME}`.
    pub fn names_only(&self) -> String {
        self.fill(|name| format!("${{secret.{name}}}"))
    }

    /// The text with every secret replaced by what `value` gives for its name.
    pub fn fill(&self, value: impl Fn(&str) -> String) -> String {
        let mut out = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Secret(name) => out.push_str(&value(name)),
            }
        }
        out
    }

    /// Runs a text-to-text function over it while the secrets stand as placeholders that occur nowhere in the text.
    pub fn map_text<E>(&self, map: impl FnOnce(&str) -> Result<String, E>) -> Result<Rich, E> {
        if !self.has_secrets() {
            return map(&self.names_only()).map(|text| Rich::from(text.as_str()));
        }
        let plain = self.fill(|_| String::new());
        let mark = (0u32..).map(|n| format!("SECRET{n}MARK")).find(|mark| !plain.contains(mark.as_str()));
        let mark = mark.unwrap_or_default();
        let names: Vec<&str> = self
            .pieces
            .iter()
            .filter_map(|piece| if let Piece::Secret(name) = piece { Some(&**name) } else { None })
            .collect();
        let number = std::cell::Cell::new(0);
        let marked = self.fill(|_| {
            number.set(number.get() + 1);
            format!("{mark}{:06}", number.get() - 1)
        });
        Ok(restore(&map(&marked)?, &mark, &names))
    }
}

/// Turns placeholders back into secrets.
fn restore(text: &str, mark: &str, names: &[&str]) -> Rich {
    let mut rich = Rich::default();
    let mut parts = text.split(mark);
    rich.push_text(parts.next().unwrap_or_default());
    for part in parts {
        let (digits, rest) = part.split_at_checked(6).unwrap_or((part, ""));
        match digits.parse::<usize>().ok().and_then(|i| names.get(i)) {
            Some(name) => rich.push_secret(name),
            None => rich.push_text(digits),
        }
        rich.push_text(rest);
    }
    rich
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_survive_a_rewrite() {
        let mut rich = Rich::from("{\"a\": \"");
        rich.push_secret("KEY");
        rich.push_text("\" }");
        let tight = rich.map_text(|text| Ok::<_, ()>(text.replace(' ', ""))).expect("no error");
        assert_eq!(tight.fill(|name| format!("<{name}>")), "{\"a\":\"<KEY>\"}");
        assert_eq!(tight.names_only(), "{\"a\":\"${secret.KEY}\"}");
    }
}
