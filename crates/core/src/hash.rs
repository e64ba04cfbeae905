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

/// Size of the inline buffer in bytes. Most inputs are shorter, and hashing one whole input costs half as much as the
/// streaming state of the hash function.
const INLINE_BYTES: usize = 256;

/// Hashes a sequence of parts. Every part is length-prefixed, so different sequences never collide.
pub struct Hasher {
    small: [u8; INLINE_BYTES],
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
        Hasher { small: [0; INLINE_BYTES], used: 0, large: None }
    }

    fn add_bytes(&mut self, bytes: &[u8]) -> &mut Hasher {
        let end = self.used + bytes.len();
        if self.large.is_none()
            && let Some(room) = self.small.get_mut(self.used..end)
        {
            room.copy_from_slice(bytes);
            self.used = end;
            return self;
        }
        let gathered = &self.small[..self.used];
        let large = self.large.get_or_insert_with(|| {
            let mut large = Box::new(blake3::Hasher::new());
            large.update(gathered);
            large
        });
        large.update(bytes);
        self
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
            Value::Number(number) => self.add_number(3).add_text(&number.to_text()),
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
    pub fn finish(&self) -> Hash {
        Hash::from_blake(match &self.large {
            Some(large) => large.finalize(),
            None => blake3::hash(&self.small[..self.used]),
        })
    }
}
