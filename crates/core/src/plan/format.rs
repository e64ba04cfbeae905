//! The ids of formats. Which formats exist is known to the front ends alone.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Bytes of a format's name at most.
const MAX_FORMAT_BYTES: usize = 15;

/// The id of a format: its name in definitions, bundles, journals and the API.
///
/// An open set: every front end makes its own with [`Format::new`]. Only front ends and reports look at it; at run time
/// nothing depends on it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Format {
    bytes: [u8; MAX_FORMAT_BYTES],
    length: u8,
}

impl Format {
    /// The format called `name`: 1 to 15 lower-case ASCII letters, digits and `-`. Panics on any other name, when it is
    /// compiled if the format is a constant.
    pub const fn new(name: &str) -> Format {
        match Format::read(name.as_bytes()) {
            Some(format) => format,
            None => panic!("a format's name has 1 to 15 lower-case letters, digits and hyphens"),
        }
    }

    /// The format called `name`, whether there is one or not; `None` if no format can be called so.
    pub fn parse(name: &str) -> Option<Format> {
        Format::read(name.as_bytes())
    }

    const fn read(name: &[u8]) -> Option<Format> {
        if name.is_empty() || name.len() > MAX_FORMAT_BYTES {
            return None;
        }
        let mut bytes = [0; MAX_FORMAT_BYTES];
        let mut at = 0;
        while at < name.len() {
            if !(name[at].is_ascii_lowercase() || name[at].is_ascii_digit() || name[at] == b'-') {
                return None;
            }
            bytes[at] = name[at];
            at += 1;
        }
        Some(Format { bytes, length: name.len() as u8 })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        // Only ASCII gets in.
        str::from_utf8(&self.bytes[..usize::from(self.length)]).unwrap_or_default()
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Format {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Format {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Format, D::Error> {
        let name = String::deserialize(deserializer)?;
        Format::parse(&name).ok_or_else(|| serde::de::Error::custom(format!("{name:?} is not the name of a format")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_is_its_name() {
        const TOY: Format = Format::new("toy-2");
        let written = serde_json::to_string(&TOY).expect("serialisable");
        assert_eq!(written, "\"toy-2\"");
        assert_eq!(serde_json::from_str::<Format>(&written).expect("readable"), TOY);
        assert!(matches!(Format::parse("toy-2"), Some(TOY)));
        for name in ["", "Toy", "a format", "a-name-that-is-too-long"] {
            assert_eq!(Format::parse(name), None, "{name}");
        }
    }
}
