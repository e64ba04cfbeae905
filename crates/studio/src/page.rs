//! The embedded files of the page, and the page for a server.

use std::borrow::Cow;

use rust_embed::{Embed, EmbeddedFile};

/// The folder that `make page` fills.
#[derive(Embed)]
#[folder = "page/"]
struct BuiltFiles;

/// The page itself.
const PAGE_NAME: &str = "index.html";

/// The element of the page with its base address; every address in it is relative to this.
const BASE_ELEMENT: &str = "<base href=\"/\">";

/// The page that is served if the program was built without the studio.
const MISSING_PAGE: &str = include_str!("missing.html");

/// Content types by the end of a name. Other files are not served.
const CONTENT_TYPES: [(&str, &str); 5] = [
    (".js", "text/javascript; charset=utf-8"),
    (".css", "text/css; charset=utf-8"),
    (".svg", "image/svg+xml"),
    (".png", "image/png"),
    (".woff2", "font/woff2"),
];

/// Encodings with the ends of the compressed files' names, the smallest first.
const ENCODINGS: [(&str, &str); 2] = [("br", ".br"), ("gzip", ".gz")];

/// A file of the page, as it is sent.
pub struct PageFile {
    /// The content.
    pub content: Cow<'static, [u8]>,
    /// Its type.
    pub content_type: &'static str,
    /// How it is compressed; `None` if it is not.
    pub encoding: Option<&'static str>,
    /// A tag that differs for every content.
    pub tag: String,
}

/// Finds a file by its path without the slash at the start. `accepted` is the header `Accept-Encoding` of the request.
pub fn find_file(name: &str, accepted: &str) -> Option<PageFile> {
    let content_type =
        CONTENT_TYPES.iter().find(|(end, _)| name.ends_with(end)).map(|(_, content_type)| *content_type)?;
    let accepts =
        |encoding: &str| accepted.split(',').any(|one| one.split(';').next().map(str::trim) == Some(encoding));
    let compressed = ENCODINGS
        .iter()
        .filter(|(encoding, _)| accepts(encoding))
        .find_map(|(encoding, end)| BuiltFiles::get(&format!("{name}{end}")).map(|file| (file, Some(*encoding))));
    let (file, encoding) = compressed.or_else(|| BuiltFiles::get(name).map(|file| (file, None)))?;
    Some(PageFile { tag: to_tag(&file), content: file.data, content_type, encoding })
}

/// The page for a server whose addresses start with `prefix`, such as `/flows`; it ends without a slash.
pub fn render_page(prefix: &str) -> String {
    let Some(file) = BuiltFiles::get(PAGE_NAME) else { return MISSING_PAGE.to_owned() };
    let base = format!("<base href=\"{}/\">", escape_attribute(prefix));
    String::from_utf8_lossy(&file.data).replacen(BASE_ELEMENT, &base, 1)
}

/// Whether the page was built into the program.
pub fn has_page() -> bool {
    BuiltFiles::get(PAGE_NAME).is_some()
}

fn to_tag(file: &EmbeddedFile) -> String {
    let hash = file.metadata.sha256_hash();
    let digits: String = hash.iter().take(12).map(|byte| format!("{byte:02x}")).collect();
    format!("\"{digits}\"")
}

fn escape_attribute(text: &str) -> String {
    text.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_says_where_it_is() {
        let page = render_page("/flows");
        assert_eq!(page.contains("<base href=\"/flows/\">"), has_page());
        assert_eq!(page.contains("make page"), !has_page());
    }

    #[test]
    fn only_known_types_are_served() {
        assert!(find_file("README.md", "").is_none());
        assert!(find_file("../Cargo.toml", "br").is_none());
    }
}
