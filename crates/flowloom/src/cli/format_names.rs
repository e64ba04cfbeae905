//! Names of formats as arguments: shells complete them, and the command itself reports one that there is not.

use std::ffi::OsStr;
use std::sync::LazyLock;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, Command, Error};

/// The names of the formats.
static NAMES: LazyLock<Vec<String>> =
    LazyLock::new(|| flowloom_formats::formats().map(|format| format.to_string()).collect());

/// Takes any text, and offers the names of the formats for completion.
#[derive(Clone)]
pub(crate) struct FormatParser;

impl TypedValueParser for FormatParser {
    type Value = String;

    fn parse_ref(&self, command: &Command, argument: Option<&Arg>, value: &OsStr) -> Result<String, Error> {
        StringValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(NAMES.iter().map(|name| PossibleValue::new(name.as_str()))))
    }
}
