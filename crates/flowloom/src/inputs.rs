//! Parses inputs and budgets given on the command line.

use std::io::Read as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flowloom_core::effect::AskRequest;
use flowloom_core::json::parse_value;
use flowloom_core::limits::Limits;
use flowloom_core::plan::{InputKind, Inputs, Plan};
use flowloom_core::value::{Map, Value};

use crate::failure::Failure;

/// Reads the inputs of a run: `--input`, overridden by each `-i`.
pub(crate) fn read(plan: &Plan, values: &[String], file: Option<&Path>) -> Result<Value, Failure> {
    let whole = file.map(read_file).transpose()?;
    let is_whole = matches!(plan.inputs, Inputs::Whole(_));
    let base = match whole {
        None if is_whole && values.is_empty() => return Ok("".into()),
        None => Map::new(),
        Some(text) => match parse_value(&text) {
            Ok(Value::Map(map)) => (*map).clone(),
            Ok(value) if is_whole && values.is_empty() => return Ok(value),
            Err(_) if is_whole && values.is_empty() => return Ok(text.trim_end_matches('\n').into()),
            Ok(other) => return Err(Failure::usage(format!("the input must be a JSON object, not {}", other.kind()))),
            Err(error) => return Err(Failure::usage(format!("the input is not JSON: {error}"))),
        },
    };
    let mut map = base;
    for value in values {
        let (name, value) = given(plan, value)?;
        map.insert(name.into(), value);
    }
    Ok(map.into())
}

/// Parses one `-i` according to the input's declared kind.
fn given<'a>(plan: &Plan, text: &'a str) -> Result<(&'a str, Value), Failure> {
    let kind_of = |name: &str| match &plan.inputs {
        Inputs::Named { declared, .. } => declared.iter().find(|input| input.name == name).map(|input| &input.kind),
        Inputs::Whole(_) => None,
    };
    if let Some((name, file)) = text.split_once("=@")
        && kind_of(name) == Some(&InputKind::File)
    {
        return Ok((name, read_blob(Path::new(file))?));
    }
    let (name, value) = pair(text)?;
    let value = match kind_of(name) {
        Some(kind) => of_kind(kind, value),
        None => value,
    };
    Ok((name, value))
}

/// Converts typed text to an input kind: the text of a JSON array becomes a list where a list is expected.
pub(crate) fn of_kind(kind: &InputKind, typed: Value) -> Value {
    match (kind, typed.as_str().map(parse_value)) {
        (InputKind::List, Some(Ok(list @ Value::List(_)))) => list,
        _ => typed,
    }
}

/// Reads a file as a file value (name, MIME type, base64).
pub(crate) fn read_blob(path: &Path) -> Result<Value, Failure> {
    let bytes = std::fs::read(path)
        .map_err(|error| Failure::usage(format!("the input {} cannot be read: {error}", path.display())))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mime = mime_guess::from_path(path).first_or_octet_stream().to_string();
    let file = [("name", name), ("mime", mime), ("base64", STANDARD.encode(bytes))];
    Ok(Value::map([("$file", Value::map(file.map(|(key, text)| (key, Value::from(text)))))]))
}

/// Reads a text file; `-` reads stdin.
pub(crate) fn read_file(path: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    let read = match path.to_str() {
        Some("-") => std::io::stdin().read_to_string(&mut text).map(|_| ()),
        _ => std::fs::read_to_string(path).map(|content| text = content),
    };
    read.map_err(|error| Failure::usage(format!("the input {} cannot be read: {error}", path.display())))?;
    Ok(text)
}

/// Parses `name=text`, `name=@file` or `name:=JSON`.
pub(crate) fn pair(text: &str) -> Result<(&str, Value), Failure> {
    let Some((name, value)) = text.split_once('=') else {
        return Err(Failure::usage(format!("-i expects name=value, name=@file or name:=JSON, not {text:?}")));
    };
    if let Some(name) = name.strip_suffix(':') {
        let value =
            parse_value(value).map_err(|error| Failure::usage(format!("the value of {name} is not JSON: {error}")))?;
        return Ok((name, value));
    }
    match value.strip_prefix('@') {
        Some(file) => Ok((name, read_file(Path::new(file))?.into())),
        None => Ok((name, value.into())),
    }
}

/// Parses `tokens=N,usd=N,steps=N,time=30s` into the limits.
pub(crate) fn budget(text: &str, limits: &mut Limits) -> Result<(), Failure> {
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let invalid =
            || Failure::usage(format!("invalid budget: expected tokens=N,usd=N,steps=N,time=30s, not {part:?}"));
        let (name, value) = part.split_once('=').ok_or_else(invalid)?;
        match name {
            "tokens" => limits.tokens = Some(value.parse().map_err(|_| invalid())?),
            "steps" => limits.steps = value.parse().map_err(|_| invalid())?,
            "time" => limits.time_ms = Some(duration_ms(value).ok_or_else(invalid)?),
            "usd" => {
                let usd: f64 = value.parse().map_err(|_| invalid())?;
                if !(0.0..1e12).contains(&usd) {
                    return Err(invalid());
                }
                limits.micro_usd = Some((usd * 1e6).round() as u64);
            }
            _ => return Err(invalid()),
        }
    }
    Ok(())
}

/// Parses `500ms`, `30s`, `5m`, `2h` or `30d` into milliseconds; a bare number means seconds.
pub(crate) fn duration_ms(text: &str) -> Option<u64> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
    let (number, unit) = text.split_at(digits);
    let factor = match unit {
        "ms" => 1.0,
        "" | "s" => 1e3,
        "m" => 6e4,
        "h" => 3.6e6,
        "d" => 8.64e7,
        _ => return None,
    };
    Some((number.parse::<f64>().ok()? * factor) as u64)
}

/// Converts a person's text to a value for the question's schema.
pub(crate) fn said(question: &AskRequest, text: &str) -> Value {
    let kind = question.schema.as_ref().and_then(|schema| schema.get("type")?.as_str().map(str::to_owned));
    match (kind.as_deref(), text.trim().to_lowercase().as_str()) {
        (None | Some("string"), _) => text.into(),
        (Some("boolean"), "yes" | "y" | "true" | "ok") => true.into(),
        (Some("boolean"), "no" | "n" | "false") => false.into(),
        _ => json_or_text(text),
    }
}

/// Parses JSON, or returns the text itself.
pub(crate) fn json_or_text(text: &str) -> Value {
    parse_value(text).unwrap_or_else(|_| text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_read() {
        let mut limits = Limits::default();
        budget("tokens=500, usd=0.25,steps=3,time=1.5s", &mut limits).expect("valid");
        assert_eq!(
            (limits.tokens, limits.micro_usd, limits.steps, limits.time_ms),
            (Some(500), Some(250_000), 3, Some(1500))
        );
        assert!(budget("tokens=-1", &mut limits).is_err());
        assert!(budget("minutes=3", &mut limits).is_err());
    }
}
