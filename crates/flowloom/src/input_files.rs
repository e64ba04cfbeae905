//! Inputs that people give as files: a path or an address on the command line or at a prompt. The inputs of a request over
//! HTTP never name files.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flowloom_app::config::Config;
use flowloom_app::wiring::download_file;
use flowloom_core::image::detect_image_type;
use flowloom_core::plan::{Input, InputKind};
use flowloom_core::value::Value;

use crate::failure::CommandError;
use crate::inputs::read_text_file;

/// The value of an input whose file is at `place`: a path, an `http` or `https` URL, or `-` for the text on stdin.
pub(crate) fn read_named_file(config: &Config, input: &Input, place: &str) -> Result<Value, CommandError> {
    let is_text = input.kind != InputKind::File;
    if place.starts_with("http://") || place.starts_with("https://") {
        return fetch_value(config, input, place);
    }
    if is_text && place == "-" {
        return Ok(read_text_file(Path::new(place), "input", "it is the text on stdin")?.into());
    }
    let path = Path::new(place);
    let failed = |why: String| {
        let advice = match is_text {
            true => format!(
                "; {} is the path or the address of a file; the text itself is -i {}:='\"…\"'",
                input.name, input.name
            ),
            false => format!("; {} is the path or the address of a file", input.name),
        };
        CommandError::usage(format!("the input {place} cannot be read: {why}{advice}"))
    };
    let bytes = std::fs::read(path).map_err(|error| failed(error.to_string()))?;
    if is_text {
        return String::from_utf8(bytes).map(Value::from).map_err(|_| failed("it is not UTF-8 text".to_owned()));
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mime = mime_guess::from_path(path).first_or_octet_stream().to_string();
    let is_other_text = mime != "image/svg+xml" && std::str::from_utf8(&bytes).is_ok();
    if is_other_text && detect_image_type(&bytes).is_none() {
        let why = if bytes.is_empty() { "it is empty" } else { "it is text and no image" };
        return Err(failed(why.to_owned()));
    }
    Ok(file_value(name, mime, &bytes))
}

/// Fetches a file under the egress rules.
fn fetch_value(config: &Config, input: &Input, url: &str) -> Result<Value, CommandError> {
    let fetched =
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(download_file(config, url)))?;
    if input.kind != InputKind::File {
        return Ok(String::from_utf8_lossy(&fetched.bytes).into_owned().into());
    }
    let path = fetched.url.split(['?', '#']).next().unwrap_or_default();
    let name = path.rsplit('/').next().unwrap_or_default().to_owned();
    let mime = match fetched.media_type.is_empty() {
        true => mime_guess::from_path(&name).first_or_octet_stream().to_string(),
        false => fetched.media_type,
    };
    Ok(file_value(name, mime, &fetched.bytes))
}

/// A file value (name, MIME type, base64). The content of an image decides about its type: names are often wrong.
fn file_value(name: String, mime: String, bytes: &[u8]) -> Value {
    let mime = detect_image_type(bytes).map_or(mime, str::to_owned);
    let file = [("name", name), ("mime", mime), ("base64", STANDARD.encode(bytes))];
    Value::map([("$file", Value::map(file.map(|(key, text)| (key, Value::from(text)))))])
}
