//! Random placements of secrets in texts, whole and in pieces.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use flowloom_runtime::redact::Redactor as _;

use super::{HiddenSecret, SecretRedactor};
use crate::secrets::SecretEncoding;

/// Number of random placements.
const PLACEMENTS: u64 = 100_000;

/// The number of characters of a secret that would reveal something.
const LEAK_CHARS: usize = 5;

/// A small generator of repeatable numbers (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// Text of up to `below` letters, but not `below` itself.
    fn make_text(&mut self, alphabet: &str, below: usize) -> String {
        let length = self.below(below);
        let letters: Vec<char> = alphabet.chars().collect();
        (0..length).map(|_| letters[self.below(letters.len())]).collect()
    }
}

fn build_redactor(secrets: &[(&str, &str)]) -> SecretRedactor {
    let hidden =
        |(name, value): &(&str, &str)| HiddenSecret { name: Some((*name).to_owned()), value: (*value).to_owned() };
    SecretRedactor::new(secrets.iter().map(hidden))
}

/// The texts that a stream returns for each piece, and at its end.
fn push_pieces(redactor: &SecretRedactor, pieces: &[&str]) -> Vec<String> {
    let mut stream = redactor.start_stream();
    let mut shown: Vec<String> = pieces.iter().map(|piece| stream.push_piece(piece)).collect();
    shown.push(stream.finish_text());
    shown
}

const NOISE: &str = "abc0123xyz {}\"\\=/+-_%&é\n";
const VALUES: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!$%&/+=?\"\\ü";

/// The secret in a random encoding, and surrounded by random bytes if that changes the encoding.
fn encode_randomly(random: &mut Random, value: &str) -> String {
    let (before, after) = (random.make_text("abcdef", 4), random.make_text("abcdef", 4));
    let around = format!("{before}{value}{after}");
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    match random.below(11) {
        0 => value.to_owned(),
        1 => SecretEncoding::Url.encode_value(value),
        2 => SecretEncoding::Form.encode_value(value),
        3 => SecretEncoding::Json.encode_value(value),
        4 => STANDARD.encode(around),
        5 => STANDARD_NO_PAD.encode(around),
        6 => URL_SAFE.encode(around),
        7 => URL_SAFE_NO_PAD.encode(around),
        8 => hex(around.as_bytes()),
        9 => hex(around.as_bytes()).to_uppercase(),
        _ => {
            let encoded = SecretEncoding::Url.encode_value(value);
            let (first, escapes) = encoded.split_once('%').map_or((encoded.as_str(), None), |(a, b)| (a, Some(b)));
            let lower = |escape: &str| format!("%{}{}", escape[..2].to_lowercase(), &escape[2..]);
            format!("{first}{}", escapes.map_or_else(String::new, |all| all.split('%').map(lower).collect()))
        }
    }
}

/// Whether a text contains enough of an encoding of the secret to reveal something.
fn shows_encoding(text: &str, encoded: &str) -> bool {
    let characters: Vec<char> = encoded.chars().collect();
    // The first and last characters may belong to what surrounds the secret.
    let inner = &characters[6.min(characters.len())..characters.len().saturating_sub(6).max(6.min(characters.len()))];
    inner.windows(LEAK_CHARS).any(|window| text.contains(&window.iter().collect::<String>()))
}

#[test]
fn no_placement_of_a_secret_leaves_it_readable() {
    let mut random = Random(17);
    let mut value = || format!("Aa0!{}{}", random.make_text(VALUES, 40), random.make_text(VALUES, 10)) + "/+z9";
    let secrets: Vec<HiddenSecret> =
        (0..8).map(|i| HiddenSecret { name: Some(format!("S{i}")), value: value() + "Qx7-_long" }).collect();
    let redactor = SecretRedactor::new(secrets.clone());
    for placement in 0..PLACEMENTS {
        let value = &secrets[random.below(secrets.len())].value;
        let encoded = encode_randomly(&mut random, value);
        let text = format!("{}{encoded}{}", random.make_text(NOISE, 30), random.make_text(NOISE, 30));
        let redacted = redactor.redact_text(&text).into_owned();
        assert!(!shows_encoding(&redacted, &encoded), "placement {placement}: {text:?} became {redacted:?}");

        let mut stream = redactor.start_stream();
        let (mut shown, mut rest) = (String::new(), text.as_str());
        while let Some(end) = rest.char_indices().map(|(at, c)| at + c.len_utf8()).nth(random.below(9)) {
            shown.push_str(&stream.push_piece(&rest[..end]));
            rest = &rest[end..];
        }
        shown.push_str(&stream.push_piece(rest));
        shown.push_str(&stream.finish_text());
        assert_eq!(shown, redacted, "placement {placement}: {text:?}");
    }
}

#[test]
fn text_without_secrets_is_unchanged_and_shown_word_by_word() {
    let redactor = build_redactor(&[("KEY", "hunter2-hunter2")]);
    assert!(matches!(redactor.redact_text("nothing here"), std::borrow::Cow::Borrowed(_)));
    let shown = push_pieces(&redactor, &["Good mor", "ning. ", "Grüße, hun", "ger"]);
    assert_eq!(shown, ["Good ", "morning. ", "Grüße, ", "", "hunger"].map(str::to_owned));
}

/// Otherwise the author of the text could find a secret character by character.
#[test]
fn the_pieces_of_a_stream_do_not_depend_on_how_secrets_begin() {
    let redactor = build_redactor(&[("KEY", "hunter2-hunter2"), ("LINES", "first line\nsecond line")]);
    let lengths = |pieces: &[&str]| push_pieces(&redactor, pieces).iter().map(String::len).collect::<Vec<_>>();
    let filler = "z".repeat(300);
    for (beginning, other) in
        [("hunter2-hunter", "hunter3-hunter"), ("first li", "first lo"), ("aHVudGVyMi1", "aHVudGVyMi2")]
    {
        for before in ["", "Hello ", &filler] {
            for after in ["x", " tail", &filler] {
                assert_eq!(
                    lengths(&[before, beginning, after]),
                    lengths(&[before, other, after]),
                    "{before} {beginning} {after}"
                );
            }
        }
    }
}

#[test]
fn text_is_held_back_for_a_limited_length() {
    let long = "k9".repeat(2000);
    let key = format!("-----BEGIN-----\n{long}\n-----END-----");
    let redactor = build_redactor(&[("PEM", &key)]);
    let text = "x".repeat(2000);
    let mut stream = redactor.start_stream();
    let held = text.len() - stream.push_piece(&text).len();
    assert!(held <= 640, "{held}");
    assert_eq!(redactor.redact_text(&format!("<{key}>")), "<${secret.PEM}>");
}

#[test]
fn a_secret_is_replaced_by_its_name() {
    let redactor = build_redactor(&[("KEY", "hunter2-hunter2\n")]);
    assert_eq!(redactor.redact_text("key=hunter2-hunter2;"), "key=${secret.KEY};");
    let basic = STANDARD.encode("user:hunter2-hunter2");
    assert_eq!(redactor.redact_text(&format!("Basic {basic}")), "Basic dXNlcj${secret.KEY}=");
}

#[test]
fn short_values_are_left_alone() {
    let redactor = build_redactor(&[("PIN", "1234")]);
    assert_eq!(redactor.redact_text("1234"), "1234");
}

#[test]
fn a_secret_without_a_name_is_redacted_if_it_cannot_be_guessed() {
    let hidden = ["12345678", "1234567890abcdef"].map(|value| HiddenSecret { name: None, value: value.to_owned() });
    assert_eq!(SecretRedactor::new(hidden).redact_text("12345678 1234567890abcdef"), "12345678 ${secret}");
}

/// What the standard libraries of other languages make of a secret: HTML, forms and JSON of Python, PHP, Go and Jinja.
#[test]
fn the_escapes_of_other_libraries_are_hidden() {
    let redactor = build_redactor(&[
        ("QUOTED", "it's-a-\"secret\"-9"),
        ("FORM", "two words~tilde"),
        ("SIGNS", "a&b<c>d-secret-99"),
        ("WORD", "grüße/geheim-99"),
    ]);
    for text in [
        "it&#x27;s-a-&quot;secret&quot;-9",
        "it&#039;s-a-&quot;secret&quot;-9",
        "it&#39;s-a-&#34;secret&#34;-9",
        "it's-a-&quot;secret&quot;-9",
        "two+words~tilde",
        r"a\u0026b\u003cc\u003ed-secret-99",
        r"gr\u00fc\u00dfe\/geheim-99",
        r"gr\u00fc\u00dfe/geheim-99",
        r"gr\u00FC\u00DFe\/geheim-99",
    ] {
        let redacted = redactor.redact_text(text);
        assert!(redacted.starts_with("${secret.") && redacted.ends_with('}'), "{text} became {redacted}");
    }
}
