//! The header of a GGUF model file. Only the header is read, so this is fast for files of any size, and a
//! damaged file is an error: llama.cpp, which loads the file, runs in a process of its own.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek as _};
use std::path::Path;

/// Longest text that is read from a header, in bytes: chat templates are far shorter.
const MAX_TEXT_BYTES: u64 = 1 << 20;
/// Most entries, tensors or items of a list in a header.
const MAX_COUNT: u64 = 1 << 24;

/// The header of a model file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelHeader {
    /// The architecture, such as `llama` or `qwen3`.
    pub architecture: String,
    /// Maximum number of tokens of prompt and answer together; `None` if the file states none.
    pub window_tokens: Option<u64>,
    /// Number of weights.
    pub parameter_count: u64,
}

/// Why a header cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum HeaderError {
    /// The file cannot be read, or ends too early.
    #[error("{0}")]
    Read(#[from] io::Error),
    /// The file has another format.
    #[error("it is not a GGUF file")]
    NotGguf,
    /// The format has a version that is not supported.
    #[error("it has version {version} of the GGUF format; supported are 2 and 3")]
    UnsupportedVersion {
        /// The version that the file states.
        version: u32,
    },
    /// A length, a count or a type is out of range.
    #[error("its header is damaged")]
    Damaged,
    /// The file ends before its weights do.
    #[error("it has {found_bytes} of {expected_bytes} bytes; fetch it again")]
    Truncated {
        /// Size of the file.
        found_bytes: u64,
        /// Size that the file has at least.
        expected_bytes: u64,
    },
}

/// Reads the header of a model file. Fails if the file cannot be read, is not GGUF, has a version other than 2 or 3,
/// states impossible lengths, or ends before its weights do.
pub fn read_header(file: &Path) -> Result<ModelHeader, HeaderError> {
    let file = File::open(file)?;
    let found_bytes = file.metadata()?.len();
    let mut reader = HeaderReader(BufReader::with_capacity(1 << 18, file));
    let mut magic = [0; 4];
    reader.0.read_exact(&mut magic).map_err(|_| HeaderError::NotGguf)?;
    if magic != *b"GGUF" {
        return Err(HeaderError::NotGguf);
    }
    let version = reader.read_u32()?;
    if !matches!(version, 2 | 3) {
        return Err(HeaderError::UnsupportedVersion { version });
    }
    let tensor_count = reader.read_count()?;
    let entry_count = reader.read_count()?;
    let (mut header, mut alignment) = (ModelHeader::default(), DEFAULT_ALIGNMENT);
    for _ in 0..entry_count {
        let key = reader.read_text()?;
        let kind = reader.read_u32()?;
        if key == "general.architecture" && kind == STRING {
            header.architecture = reader.read_text()?;
        } else if key.ends_with(".context_length") {
            header.window_tokens = reader.read_integer(kind)?;
        } else if key == "general.alignment" {
            alignment = reader.read_integer(kind)?.unwrap_or(DEFAULT_ALIGNMENT);
        } else {
            reader.skip_value(kind)?;
        }
    }
    let mut data_bytes = 0;
    for _ in 0..tensor_count {
        let tensor = reader.read_tensor()?;
        header.parameter_count = header.parameter_count.saturating_add(tensor.weight_count);
        data_bytes = data_bytes.max(tensor.end_offset());
    }
    let data_start = reader.0.stream_position()?.checked_next_multiple_of(alignment).ok_or(HeaderError::Damaged)?;
    match data_start.saturating_add(data_bytes) {
        expected_bytes if data_bytes > 0 && found_bytes < expected_bytes => {
            Err(HeaderError::Truncated { found_bytes, expected_bytes })
        }
        _ => Ok(header),
    }
}

/// The place of the weights is a multiple of this number of bytes, if the file states no other one.
const DEFAULT_ALIGNMENT: u64 = 32;

/// The description of a tensor.
struct TensorInfo {
    weight_count: u64,
    /// Number of its type.
    kind: u32,
    /// Where its weights start, counted from those of the first tensor.
    offset: u64,
}

impl TensorInfo {
    /// One past its last byte; for types that are not known, at least its first byte.
    fn end_offset(&self) -> u64 {
        let size = block_size(self.kind)
            .map_or(1, |(weights, bytes)| self.weight_count.div_ceil(weights).saturating_mul(bytes));
        self.offset.saturating_add(size)
    }
}

/// How many weights of a type form a block, and how many bytes a block has; `None` for types that are not known.
fn block_size(kind: u32) -> Option<(u64, u64)> {
    // The numbers of ggml: plain numbers first, then the quantised types by their size.
    let size = match kind {
        24 => (1, 1),
        1 | 25 | 30 => (1, 2),
        0 | 26 => (1, 4),
        27 | 28 => (1, 8),
        39 => (32, 17),
        2 | 20 => (32, 18),
        3 => (32, 20),
        6 => (32, 22),
        7 => (32, 24),
        8 => (32, 34),
        9 => (32, 36),
        19 => (256, 50),
        34 => (256, 54),
        29 => (256, 56),
        16 | 35 => (256, 66),
        17 => (256, 74),
        22 => (256, 82),
        10 => (256, 84),
        18 => (256, 98),
        11 | 21 => (256, 110),
        23 => (256, 136),
        12 => (256, 144),
        13 => (256, 176),
        14 => (256, 210),
        15 => (256, 292),
        _ => return None,
    };
    Some(size)
}

/// Type numbers of the format.
const STRING: u32 = 8;
const ARRAY: u32 = 9;

/// Number of bytes of a value of a type; `None` for texts, lists and unknown types.
fn value_size(kind: u32) -> Option<u64> {
    match kind {
        0 | 1 | 7 => Some(1),
        2 | 3 => Some(2),
        4..=6 => Some(4),
        10..=12 => Some(8),
        _ => None,
    }
}

struct HeaderReader(BufReader<File>);

impl HeaderReader {
    fn read_u32(&mut self) -> Result<u32, HeaderError> {
        let mut bytes = [0; 4];
        self.0.read_exact(&mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn read_u64(&mut self) -> Result<u64, HeaderError> {
        let mut bytes = [0; 8];
        self.0.read_exact(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn read_count(&mut self) -> Result<u64, HeaderError> {
        Some(self.read_u64()?).filter(|count| *count <= MAX_COUNT).ok_or(HeaderError::Damaged)
    }

    fn read_text(&mut self) -> Result<String, HeaderError> {
        let length = Some(self.read_u64()?).filter(|length| *length <= MAX_TEXT_BYTES).ok_or(HeaderError::Damaged)?;
        let mut bytes = Vec::new();
        (&mut self.0).take(length).read_to_end(&mut bytes)?;
        if (bytes.len() as u64) < length {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The value of an unsigned integer; `None` for another type.
    fn read_integer(&mut self, kind: u32) -> Result<Option<u64>, HeaderError> {
        match kind {
            4 => Ok(Some(u64::from(self.read_u32()?))),
            10 => Ok(Some(self.read_u64()?)),
            _ => self.skip_value(kind).map(|()| None),
        }
    }

    fn skip_value(&mut self, kind: u32) -> Result<(), HeaderError> {
        match (kind, value_size(kind)) {
            (_, Some(size)) => self.skip_bytes(size),
            (STRING, _) => self.skip_text(),
            (ARRAY, _) => self.skip_list(),
            _ => Err(HeaderError::Damaged),
        }
    }

    fn skip_list(&mut self) -> Result<(), HeaderError> {
        let kind = self.read_u32()?;
        let count = self.read_count()?;
        match value_size(kind) {
            Some(size) => self.skip_bytes(size * count),
            None if kind == STRING => (0..count).try_for_each(|_| self.skip_text()),
            // The format allows lists of lists, which no model has.
            None => Err(HeaderError::Damaged),
        }
    }

    fn skip_text(&mut self) -> Result<(), HeaderError> {
        let length = self.read_u64()?;
        self.skip_bytes(length)
    }

    fn skip_bytes(&mut self, count: u64) -> Result<(), HeaderError> {
        let count = i64::try_from(count).map_err(|_| HeaderError::Damaged)?;
        Ok(self.0.seek_relative(count)?)
    }

    /// A tensor, whose description comes next.
    fn read_tensor(&mut self) -> Result<TensorInfo, HeaderError> {
        self.skip_text()?;
        let dimension_count = self.read_u32()?;
        if dimension_count > 8 {
            return Err(HeaderError::Damaged);
        }
        let mut weight_count = 1_u64;
        for _ in 0..dimension_count {
            weight_count = weight_count.saturating_mul(self.read_u64()?);
        }
        Ok(TensorInfo { weight_count, kind: self.read_u32()?, offset: self.read_u64()? })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A file with one tensor of 15 weights.
    pub(crate) fn model_bytes() -> Vec<u8> {
        let text = |text: &str| [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat();
        let entry = |key: &str, kind: u32, value: Vec<u8>| [text(key), kind.to_le_bytes().to_vec(), value].concat();
        let list = [STRING.to_le_bytes().to_vec(), 2_u64.to_le_bytes().to_vec(), text("a"), text("b")].concat();
        let tensor = [text("w"), 2_u32.to_le_bytes().to_vec(), 3_u64.to_le_bytes().to_vec()].concat();
        let tensor = [tensor, 5_u64.to_le_bytes().to_vec(), vec![0; 12]].concat();
        let mut bytes = [
            b"GGUF".to_vec(),
            3_u32.to_le_bytes().to_vec(),
            1_u64.to_le_bytes().to_vec(),
            3_u64.to_le_bytes().to_vec(),
            entry("general.architecture", STRING, text("llama")),
            entry("tokenizer.ggml.tokens", ARRAY, list),
            entry("llama.context_length", 4, 2048_u32.to_le_bytes().to_vec()),
            tensor,
        ]
        .concat();
        bytes.resize(bytes.len().next_multiple_of(32) + 15 * 4, 0);
        bytes
    }

    fn read_bytes(bytes: &[u8]) -> Result<ModelHeader, HeaderError> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("model.gguf");
        std::fs::write(&file, bytes).unwrap();
        read_header(&file)
    }

    #[test]
    fn a_header_states_architecture_window_and_size() {
        let header = read_bytes(&model_bytes()).unwrap();
        let expected = ModelHeader { architecture: "llama".to_owned(), window_tokens: Some(2048), parameter_count: 15 };
        assert_eq!(header, expected);
    }

    #[test]
    fn damaged_files_are_errors() {
        let whole = model_bytes();
        for length in 0..whole.len() {
            assert!(read_bytes(&whole[..length]).is_err(), "{length}");
        }
        let short = read_bytes(&whole[..whole.len() - 1]).unwrap_err().to_string();
        assert!(short.contains(&format!("{} of {} bytes; fetch it again", whole.len() - 1, whole.len())), "{short}");
        assert!(matches!(read_bytes(b"GGUF but not really"), Err(HeaderError::UnsupportedVersion { .. })));
        assert!(matches!(read_bytes(b"<html>"), Err(HeaderError::NotGguf)));
        for at in 8..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] = 0xff;
            let _ = read_bytes(&damaged);
        }
    }
}
