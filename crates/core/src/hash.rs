//! Content hashes of requests, values, bundles and blobs.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::value::Value;

/// The first 128 bits of a BLAKE3 hash, written as 32 hexadecimal digits.
///
/// # Examples
///
/// ```
/// use flowloom_core::hash::Hash;
///
/// let hash = Hash::of_bytes(b"a definition");
/// assert_eq!(Hash::parse(&hash.to_string()), Some(hash));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hash([u8; 16]);

impl Hash {
    /// The hash of no bytes.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowloom_core::hash::Hash;
    ///
    /// assert_eq!(Hash::EMPTY, Hash::of_bytes(b""));
    /// ```
    pub const EMPTY: Hash = Hash(0xaf13_49b9_f5f9_a1a6_a040_4dea_36dc_c949_u128.to_be_bytes());

    /// The hash of some bytes.
    pub fn of_bytes(bytes: &[u8]) -> Hash {
        Hash::from_blake(blake3::hash(bytes))
    }

    /// The hash of a value. Equal values have equal hashes, whatever text they were parsed from.
    pub fn of_value(value: &Value) -> Hash {
        let mut hasher = Hasher::new();
        hasher.add_value(value);
        hasher.finish()
    }

    fn from_blake(hash: blake3::Hash) -> Hash {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&hash.as_bytes()[..16]);
        Hash(bytes)
    }

    /// The raw bytes.
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// Parses 32 hexadecimal digits; `None` for anything else.
    pub fn parse(text: &str) -> Option<Hash> {
        if text.len() != 32 || !text.is_ascii() {
            return None;
        }
        let mut bytes = [0; 16];
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * i..2 * i + 2], 16).ok()?;
        }
        Some(Hash(bytes))
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0u8; 32];
        for (i, byte) in self.0.iter().enumerate() {
            text[2 * i] = DIGITS[usize::from(byte >> 4)];
            text[2 * i + 1] = DIGITS[usize::from(byte & 15)];
        }
        f.write_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Hash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Hash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Hash, D::Error> {
        let text = String::deserialize(deserializer)?;
        Hash::parse(&text).ok_or_else(|| serde::de::Error::custom("a hash is 32 hexadecimal digits"))
    }
}

/// Size of the buffer in bytes. Most inputs are shorter, and hashing one whole input costs half as much as the streaming
/// state of the hash function.
const BUFFER_BYTES: usize = 256;

/// Hashes a sequence of parts. Every part is length-prefixed, so different sequences never collide.
pub struct Hasher {
    /// What the streaming state has not received yet: it is slow for parts of a few bytes.
    buffer: [u8; BUFFER_BYTES],
    used: usize,
    large: Option<Box<blake3::Hasher>>,
}

impl Default for Hasher {
    fn default() -> Hasher {
        Hasher::new()
    }
}

impl Hasher {
    /// An empty hasher.
    pub fn new() -> Hasher {
        Hasher { buffer: [0; BUFFER_BYTES], used: 0, large: None }
    }

    #[inline]
    fn add_bytes(&mut self, bytes: &[u8]) -> &mut Hasher {
        let end = self.used + bytes.len();
        match self.buffer.get_mut(self.used..end) {
            Some(room) => {
                room.copy_from_slice(bytes);
                self.used = end;
            }
            None => self.add_to_large(bytes),
        }
        self
    }

    /// Empties the buffer, and adds bytes for which it has no room.
    fn add_to_large(&mut self, bytes: &[u8]) {
        let large = self.large.get_or_insert_with(Box::default);
        large.update(&self.buffer[..self.used]);
        self.used = 0;
        match self.buffer.get_mut(..bytes.len()) {
            Some(room) => {
                room.copy_from_slice(bytes);
                self.used = bytes.len();
            }
            None => {
                large.update(bytes);
            }
        }
    }

    /// Adds text.
    pub fn add_text(&mut self, text: &str) -> &mut Hasher {
        self.add_number(text.len() as u64).add_bytes(text.as_bytes())
    }

    /// Adds a number.
    pub fn add_number(&mut self, number: u64) -> &mut Hasher {
        self.add_bytes(&number.to_le_bytes())
    }

    /// Adds another hash.
    pub fn add_hash(&mut self, hash: &Hash) -> &mut Hasher {
        self.add_bytes(&hash.0)
    }

    /// Adds a value, structurally.
    pub fn add_value(&mut self, value: &Value) -> &mut Hasher {
        match value {
            Value::Null => self.add_number(0),
            Value::Bool(value) => self.add_number(1 + u64::from(*value)),
            Value::Number(number) => number.read_text(|text| self.add_number(3).add_text(text)),
            Value::String(text) => self.add_number(4).add_text(text),
            Value::List(items) => {
                self.add_number(5).add_number(items.len() as u64);
                items.iter().fold(self, |hasher, item| hasher.add_value(item))
            }
            Value::Map(map) => {
                self.add_number(6).add_number(map.len() as u64);
                map.iter().fold(self, |hasher, (key, item)| hasher.add_text(key).add_value(item))
            }
            Value::Blob(blob) => self.add_number(7).add_hash(&blob.hash),
        }
    }

    /// The hash of everything added.
    pub fn finish(&mut self) -> Hash {
        if self.large.is_some() {
            self.add_to_large(&[]);
        }
        Hash::from_blake(match &self.large {
            Some(large) => large.finalize(),
            None => blake3::hash(&self.buffer[..self.used]),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_does_not_depend_on_the_buffer() {
        for lengths in [vec![], vec![256], vec![257, 3], vec![7; 300], vec![250, 6, 1000, 1, 255, 256]] {
            let parts: Vec<Vec<u8>> = lengths.iter().map(|length| vec![*length as u8; *length]).collect();
            let mut hasher = Hasher::new();
            parts.iter().for_each(|part| {
                hasher.add_bytes(part);
            });
            let whole = Hash::of_bytes(&parts.concat());
            assert_eq!((hasher.finish(), hasher.finish()), (whole, whole), "{lengths:?}");
        }
    }
}
