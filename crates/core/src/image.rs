//! Images as models accept them, recognised by their first bytes, and the base64 in which files are given.

/// The media type of an image, by its first bytes; `None` if it is not PNG, JPEG, GIF or WebP, which all models accept.
///
/// # Examples
///
/// ```
/// assert_eq!(flowloom_core::image::detect_image_type(b"GIF89a..."), Some("image/gif"));
/// assert_eq!(flowloom_core::image::detect_image_type(b"<svg/>"), None);
/// ```
pub fn detect_image_type(bytes: &[u8]) -> Option<&'static str> {
    let starts: [(&[u8], &str); 4] =
        [(b"\x89PNG", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"), (b"RIFF", "image/webp")];
    let (_, mime) = starts.into_iter().find(|(start, _)| bytes.starts_with(start))?;
    let is_other_riff = mime == "image/webp" && bytes.get(8..12) != Some(b"WEBP");
    (!is_other_riff).then_some(mime)
}

/// Why a file cannot be sent to a model as an image, with the fix; `None` if it can. `base64` is its content. A name that is
/// empty is that of an image without one. The provider judges the content: it may know more kinds of images.
pub(crate) fn find_image_problem(name: &str, mime: &str, base64: &str) -> Option<String> {
    let name = if name.is_empty() { "the image" } else { name };
    let is_sized = base64.bytes().filter(|byte| is_digit(*byte)).count() % 4 != 1;
    if !is_base64(base64) || !is_sized {
        return Some(format!("{name} is not encoded in base64; give the bytes of the file in base64"));
    }
    let is_text = mime.trim_start().get(..5).is_some_and(|start| start.eq_ignore_ascii_case("text/"));
    is_text.then(|| format!("{name} is {mime}; expected an image, such as image/png"))
}

/// Whether a text is base64, with the standard or the URL-safe alphabet.
pub(crate) fn is_base64(text: &str) -> bool {
    text.trim_end_matches(['=', '\n', '\r']).bytes().all(|byte| is_digit(byte) || matches!(byte, b'\n' | b'\r'))
}

fn is_digit(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'/' | b'_')
}

/// The bytes that base64 describes; `None` if the text has other characters.
pub(crate) fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count) = (0u32, 0);
    for byte in text.bytes().filter(|byte| !matches!(byte, b'=' | b'\n' | b'\r')) {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        bits = (bits << 6) | u32::from(digit);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_recognised_by_their_content() {
        for (bytes, mime) in [
            (&b"\x89PNG\r\n"[..], Some("image/png")),
            (b"\xff\xd8\xff\xe0", Some("image/jpeg")),
            (b"GIF89a", Some("image/gif")),
            (b"RIFF\0\0\0\0WEBP", Some("image/webp")),
            (b"RIFF\0\0\0\0WAVE", None),
            (b"hello", None),
            (b"", None),
        ] {
            assert_eq!(detect_image_type(bytes), mime, "{bytes:?}");
        }
    }

    #[test]
    fn content_that_is_no_base64_and_texts_are_no_images() {
        for (name, mime, base64, problem) in [
            ("a.png", "image/png", "iVBORw0KGgo=", ""),
            ("a.png", "image/png", "iVBO\r\nRw0K\nGgo=\n", ""),
            ("a.bin", "application/octet-stream", "_9j_4AAQ", ""),
            ("a.txt", "Text/plain", "aGk=", "a.txt is Text/plain; expected an image, such as image/png"),
            ("", "image/png", "%%%", "the image is not encoded in base64; give the bytes of the file in base64"),
            ("a.png", "image/png", "iVBOR", "a.png is not encoded in base64; give the bytes of the file in base64"),
            ("a.png", "image/png", "iVBO=RwK", "a.png is not encoded in base64; give the bytes of the file in base64"),
        ] {
            assert_eq!(find_image_problem(name, mime, base64).unwrap_or_default(), problem, "{name} {base64}");
        }
    }
}
