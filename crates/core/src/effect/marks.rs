//! Marks that replace secrets in text that is parsed or rendered before the secrets are filled in.

use std::cell::RefCell;

use crate::rich::Rich;
use crate::value::Map;

/// Number of digits after a mark: the index of the secret.
const MARK_DIGITS: usize = 6;

/// Marks that replace secrets in a text.
#[derive(Clone, Debug)]
pub struct SecretMarks {
    mark: String,
    names: Vec<String>,
}

/// Arguments in whose strings marks replace secrets.
#[derive(Clone, Debug)]
pub struct MarkedArguments {
    /// The arguments.
    pub map: Map,
    /// The marks.
    pub marks: SecretMarks,
}

impl SecretMarks {
    /// Chooses a mark that occurs in none of `texts`.
    pub fn absent_from(texts: &[&str]) -> SecretMarks {
        let free = |mark: &String| !texts.iter().any(|text| text.contains(mark.as_str()));
        let mark = (0u32..).map(|n| format!("FLOWLOOMSECRET{n}X")).find(free).unwrap_or_default();
        SecretMarks { mark, names: Vec::new() }
    }

    /// The names of the secrets that are marked.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The mark of one more secret.
    pub fn mark_name(&mut self, name: &str) -> String {
        self.names.push(name.to_owned());
        format!("{}{:0MARK_DIGITS$}", self.mark, self.names.len() - 1)
    }

    /// `text` with marks in place of its secrets.
    pub fn mark_secrets(&mut self, text: &Rich) -> String {
        let marks = RefCell::new(self);
        text.fill_secrets(|name| marks.borrow_mut().mark_name(name))
    }

    /// Converts marked text back to text with named secrets.
    pub fn restore_secrets(&self, text: &str) -> Rich {
        if self.names.is_empty() {
            return text.into();
        }
        let mut rich = Rich::default();
        let mut parts = text.split(&self.mark);
        rich.push_text(parts.next().unwrap_or_default());
        for part in parts {
            let (digits, rest) = part.split_at_checked(MARK_DIGITS).unwrap_or((part, ""));
            if let Some(name) = digits.parse::<usize>().ok().and_then(|i| self.names.get(i)) {
                rich.push_secret(name);
            }
            rich.push_text(rest);
        }
        rich
    }
}
