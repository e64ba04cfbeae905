//! A setting with its origin: a flag, a variable, a file or the default.

use super::error::ConfigError;

/// A value and its origin: a flag, a variable, a file or the default.
#[derive(Clone, Debug)]
pub struct Setting<T> {
    /// The value.
    pub value: T,
    /// The source of the value: a flag, a variable, a file, or `default`.
    pub origin: String,
}

impl<T> Setting<T> {
    /// The value in the file at `origin`, if the file has one.
    pub(super) fn from_file(value: Option<T>, origin: &str) -> Option<Setting<T>> {
        value.map(|value| Setting { value, origin: origin.to_owned() })
    }
}

/// The value that was given, else that of the environment variable, else of the file, else the default.
pub(super) fn pick_setting<T>(
    given: Option<Setting<T>>,
    variable: &str,
    parse: impl FnOnce(&str) -> Option<T>,
    file: Option<Setting<T>>,
    default: impl FnOnce() -> T,
) -> Result<Setting<T>, ConfigError> {
    if let Some(given) = given {
        return Ok(given);
    }
    if let Some(text) = std::env::var(variable).ok().filter(|text| !text.is_empty()) {
        let Some(value) = parse(&text) else {
            return Err(ConfigError::Variable { variable: variable.to_owned(), value: text });
        };
        return Ok(Setting { value, origin: format!("${variable}") });
    }
    Ok(file.unwrap_or_else(|| Setting { value: default(), origin: "default".to_owned() }))
}
