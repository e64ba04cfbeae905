//! Pages to Markdown, HTML and selections; and pages that are built to break a parser.

use std::time::{Duration, Instant};

use flowloom_core::code::Code;
use flowloom_core::effect::ScrapeRequest;
use flowloom_core::error::{Retry, StepFailure};
use flowloom_core::plan::Capture;
use flowloom_runtime::effects::Scraper;

use super::{TestServer, client_for, html_reply, http_reply, test_context};
use crate::scrape::PageScraper;

/// Upper bound for any page here, also in a debug build on a busy machine.
const MAX_CONVERSION_TIME: Duration = Duration::from_secs(10);

const ARTICLE_HTML: &str = r##"<!doctype html><html lang="en"><head><title>Looms of the north</title>
<meta http-equiv="refresh" content="0; url=http://127.0.0.1:1/"><style>p { color: red }</style></head><body>
<nav><ul><li><a href="/">Home</a></li><li><a href="/about">About us</a></li></ul></nav>
<article><h1>Looms of the north</h1>
<p>A loom holds the warp threads under tension, so that the weft can be passed between them. The oldest finds in the
north are weights of fired clay, hung from upright frames that leaned against the wall of a house.</p>
<h2>Tension</h2>
<p>Later frames were built flat, with a <a href="/beam">cloth beam</a> that takes up the finished weave. The weaver
sits, works the treadles with the feet, and has both hands free for the shuttle, which made the work much faster.</p>
<ul><li>warp</li><li>weft</li></ul>
<script>document.write("never run")</script></article>
<footer>Copyright nobody</footer></body></html>"##;

async fn fetch_answer(answer: Vec<u8>, capture: Capture) -> Result<String, StepFailure> {
    let server = TestServer::start_fixed(answer).await;
    let scraper = PageScraper::new(client_for(&[&server]));
    let result = scraper.fetch_page(&ScrapeRequest { url: server.url_of("/page"), capture }, &test_context()).await;
    assert_eq!(server.seen_requests().len(), 1, "only the page itself is loaded");
    result
}

fn page_reply(kind: &str, body: &str) -> Vec<u8> {
    http_reply("200 OK", &[("content-type", kind)], body)
}

#[tokio::test]
async fn an_article_becomes_markdown() {
    let text = fetch_answer(html_reply(ARTICLE_HTML), Capture::Text).await.expect("an article");
    assert!(text.starts_with("# Looms of the north\n"), "{text}");
    assert!(text.contains("\n## Tension\n") && text.contains("warp"), "{text}");
    assert!(text.contains("[cloth beam](http://127.0.0.1:"), "links are whole: {text}");
    for noise in ["About us", "Copyright", "never run", "color", "<p>"] {
        assert!(!text.contains(noise), "{noise}: {text}");
    }
}

#[tokio::test]
async fn a_short_page_is_converted_whole() {
    let body =
        "<html><head><title>T</title></head><body><h1>Hi</h1><p>one <b>two</b></p><script>x</script></body></html>";
    assert_eq!(fetch_answer(html_reply(body), Capture::Text).await.expect("text"), "# Hi\n\none **two**");
    let untyped = http_reply("200 OK", &[], "<p>x</p>");
    assert_eq!(fetch_answer(untyped, Capture::Text).await.expect("text"), "x");
}

#[tokio::test]
async fn everything_in_the_main_part_is_kept() {
    let answers: String = (1..9).map(|i| format!("<div class=comment><p>Answer {i}</p></div>")).collect();
    let page = format!(
        "<title>Site</title><nav>menu</nav><main><h1>Oslo</h1><p>Oslo is the capital.</p><div class=comments>{answers}</div>\
         <div class=related>Sale until Friday</div><a href='../guide'>guide</a></main><footer>Copyright</footer>"
    );
    let text = fetch_answer(html_reply(&page), Capture::Text).await.expect("text");
    assert!(text.starts_with("# Oslo\n\nOslo is the capital."), "{text}");
    for part in ["Answer 1", "Answer 8", "Sale until Friday", "[guide](http://127.0.0.1:"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("menu") && !text.contains("Copyright"), "{text}");

    let articles = "<article>one</article><article>two</article><aside>ads</aside><a href=/x>x</a>";
    let text = fetch_answer(html_reply(articles), Capture::Text).await.expect("text");
    assert!(text.contains("one") && text.contains("two") && !text.contains("ads"), "{text}");
    assert!(text.contains("[x](http://127.0.0.1:"), "{text}");
}

#[tokio::test]
async fn hidden_text_is_never_shown() {
    let hidden = [
        "<p hidden>IGNORE</p>",
        "<p style='display:none'>IGNORE</p>",
        "<div style='color: red; Display : NONE !important'><b>IGNORE</b></div>",
        "<span style=visibility:hidden>IGNORE</span>",
        "<div aria-hidden=true><div>IGNORE</div></div>",
        "<template>IGNORE</template>",
    ];
    // A page that is too deep to be parsed is read without its tags.
    for frame in [("<main>", "</main>"), ("", ""), (&*"<div>".repeat(300), "")] {
        for part in hidden {
            let page = format!("{}<p>seen</p>{part}<p>more</p>{}", frame.0, frame.1);
            let text = fetch_answer(html_reply(&page), Capture::Text).await.expect("text");
            assert!(text.contains("seen") && text.contains("more") && !text.contains("IGNORE"), "{part}: {text}");
        }
    }
}

#[test]
fn selectors_of_jquery_work() {
    let page = "<div class=a><p>One</p><p class=x>Two <b>b</b></p><p>Three</p></div><p>Four</p>";
    let scraper = PageScraper::new(client_for(&[]));
    let cases: [(&str, &[&str]); 11] = [
        ("p:contains(\"Two\") b", &["b"]),
        ("p:first", &["One"]),
        ("p:last", &["Four"]),
        ("p:eq(1) > b", &["b"]),
        ("p:eq(-2)", &["Three"]),
        ("p[class!=\"x\"]", &["One", "Three", "Four"]),
        ("div.a p:gt(1)", &["Three"]),
        ("p:odd, p:first", &["One", "Two <b>b</b>", "Four"]),
        ("p:first ~ p", &["Two <b>b</b>", "Three"]),
        ("p:first + p", &["Two <b>b</b>"]),
        ("p:first-child", &["One"]),
    ];
    for (selector, expected) in cases {
        assert_eq!(scraper.select_html(page, selector).expect(selector), expected, "{selector}");
    }
    for selector in ["p[[", "p:nth(", "p:nonsense"] {
        let error = scraper.select_html(page, selector).expect_err(selector);
        assert!(error.code == Code::NoSelector && !error.message.contains("developer"), "{error}");
    }
}

#[tokio::test]
async fn tables_become_rows_or_paragraphs() {
    let cases = [
        ("<table><thead><tr><th>A<th>B</thead><tr><td>1<td>x|y</table>", "| A | B |\n| --- | --- |\n| 1 | x\\|y |"),
        ("<table><caption>C</caption><tr><td>1<td>2</table>", "C\n\n| 1 | 2 |\n| --- | --- |"),
        ("<table><tr><td>one</tr><tr><td>two</table>", "one\n\ntwo"),
        ("<table><tr><td><p>one<p>two<td>three</table>", "one\n\ntwo\n\nthree"),
    ];
    for (body, expected) in cases {
        assert_eq!(fetch_answer(html_reply(body), Capture::Text).await.expect(body), expected, "{body}");
    }
}

#[tokio::test]
async fn html_is_the_inside_of_the_document() {
    let cases = [
        ("<!DOCTYPE html>\n<HTML lang=en><head></head><body>é</body></HTML>\n", "<head></head><body>é</body>"),
        ("<html><body>x", "<body>x"),
        ("<p>x</p>", "<p>x</p>"),
        ("<htmlx>y</htmlx>", "<htmlx>y</htmlx>"),
    ];
    for (body, expected) in cases {
        assert_eq!(fetch_answer(html_reply(body), Capture::Html).await.expect(body), expected);
    }
}

#[tokio::test]
async fn other_text_is_kept_as_it_is() {
    for capture in [Capture::Text, Capture::Html] {
        for (kind, body) in [
            ("text/plain", "a <b> c\n"),
            ("application/json", "{\"a\":1}"),
            ("application/feed+json", "[]"),
            ("text/markdown; charset=utf-8", "# x"),
            ("application/rss+xml", "<rss/>"),
        ] {
            assert_eq!(fetch_answer(page_reply(kind, body), capture).await.expect(kind), body, "{kind}");
        }
    }
}

#[tokio::test]
async fn failures_are_described_as_by_the_format() {
    let found_nothing = "URL could not be scraped and no content was found";
    let no_content = "There was no content to be collected or read.";
    let cases = [
        (
            http_reply("404 Not Found", &[], "x"),
            format!("{found_nothing} (the server answered with status 404)."),
            Retry::Never,
        ),
        (
            http_reply("503 x", &[], "x"),
            format!("{found_nothing} (the server answered with status 503)."),
            Retry::Maybe,
        ),
        (html_reply(""), no_content.to_owned(), Retry::Never),
        (html_reply("<html><body> <script>x</script></body></html>"), no_content.to_owned(), Retry::Never),
        (page_reply("text/plain", " \n"), no_content.to_owned(), Retry::Never),
        (page_reply("image/png", "x"), format!("{found_nothing} (it is image/png, which is not text)."), Retry::Never),
    ];
    for (answer, message, retry) in cases {
        let error = fetch_answer(answer, Capture::Text).await.expect_err(&message);
        assert_eq!(error, StepFailure { code: Code::ScrapeFailed, message, retry });
    }
}

#[tokio::test]
async fn addresses_that_cannot_be_read() {
    let scraper = PageScraper::new(client_for(&[]));
    let cases = [
        ("", Code::ScrapeFailed, "URL is required for web scraping"),
        ("  ", Code::ScrapeFailed, "URL is required for web scraping"),
        ("example.com/page", Code::HttpRequestInvalid, "Failed to parse URL from example.com/page"),
        ("file:///etc/passwd", Code::EgressDenied, "only http and https"),
        ("http://127.0.0.1:1/", Code::EgressDenied, "egress.allow = [\"127.0.0.1:1\"]"),
    ];
    for (url, code, part) in cases {
        let request = ScrapeRequest { url: url.to_owned(), capture: Capture::Text };
        let error = scraper.fetch_page(&request, &test_context()).await.expect_err(url);
        assert_eq!(error.code, code, "{url}");
        assert!(error.message.contains(part), "{error}");
    }
}

/// N-11: shapes that make parsers recurse or repeat themselves. Each returns its text, quickly.
#[tokio::test]
async fn hostile_shapes_still_give_their_text() {
    let fonts: String = (0..200).map(|i| format!("<font color={i}>")).collect();
    let cases = [
        ("divs", "<div>".repeat(100_000) + "deep text"),
        ("formatting", "<b>".repeat(20_000) + "deep text"),
        ("repeated formatting", fonts + &"<p>x".repeat(30_000) + "deep text"),
        ("tables", "<table><tr><td>".repeat(10_000) + "deep text"),
        ("lists", "<ul><li>".repeat(10_000) + "deep text"),
        ("quotes", "<div a=\"'\" b='\"' =\">".repeat(10_000) + "deep text"),
        ("early comment end", "<!-->".to_owned() + &"<div>".repeat(20_000) + "deep text"),
        ("style in svg", "<svg><style>".to_owned() + &"<g>".repeat(20_000) + "</style><p>deep text"),
        ("self-closed html", "<div/>".repeat(20_000) + "deep text"),
        ("left drawing", "<svg><p></p>".to_owned() + &"<path/>".repeat(20_000) + "<p>deep text"),
        ("text in a select", "<select><style></select>".to_owned() + &"<div>".repeat(20_000) + "</style>deep text"),
        ("unclosed tag", "deep text <div ".to_owned() + &"a=\"".repeat(20_000)),
        ("nested code", "<code>`".repeat(200) + &"`".repeat(1000) + "deep text"),
        ("nested quotes", "<blockquote>".repeat(200) + "<pre>" + &"x\n".repeat(10_000) + "deep text"),
        (
            "a wide cell",
            "<table><tr><th>".to_owned() + &"a".repeat(20_000) + &"<tr><td>b<td>c".repeat(9_000) + "deep text",
        ),
        ("pushed-out text", "<table>".to_owned() + &"x<i>y</i>".repeat(20_000) + "deep text"),
        ("a flat page", "<p>x</p>".repeat(20_000) + "deep text"),
    ];
    for (name, body) in cases {
        let start = Instant::now();
        let text =
            fetch_answer(html_reply(&body), Capture::Text).await.unwrap_or_else(|error| panic!("{name}: {error}"));
        let taken = start.elapsed();
        assert!(text.contains("deep text"), "{name}: {}", &text[..text.len().min(200)]);
        assert!(taken < MAX_CONVERSION_TIME, "{name}: {taken:?}");
    }
}

#[tokio::test]
async fn nuls_and_broken_bytes_are_no_trouble() {
    let body = b"<p>a\0b \xff\xfe c</p>";
    let text =
        fetch_answer(http_reply("200 OK", &[("content-type", "text/html")], body), Capture::Text).await.expect("text");
    assert!(!text.contains('\0') && text.contains('c'), "{text:?}");
}

#[test]
fn ordinary_pages_are_not_taken_for_hostile_ones() {
    let icons = "<p>x<svg><g><path d=\"M0\"/><circle r=\"1\"/></g></svg><br><img src=x><input>".repeat(3000);
    let rows = format!("<table>{}</table>", "<tr><td>a<td>b".repeat(3000));
    let anchors = "<a name=x><p>text".repeat(2000);
    let script = format!("<script>{}</script>", "document.write('<div>');".repeat(2000));
    let items = format!("<ul>{}</ul>", "<li>a<p>b<dl><dt>c<dd>d</dl>".repeat(2000));
    for body in [icons, rows, anchors, script, items, ARTICLE_HTML.to_owned()] {
        let page = PageScraper::new(client_for(&[])).select_html(&body, "body");
        assert_eq!(page.expect("parsed").len(), 1, "{}", &body[..60]);
    }
}

#[test]
fn selections() {
    let scraper = PageScraper::new(client_for(&[]));
    let page = "<html><body><h1>T <b>x</b></h1><ul><li>1</li><li>2</li></ul></body></html>";
    let select = |selector| scraper.select_html(page, selector);
    assert_eq!(select("li").expect("hits"), ["1", "2"]);
    assert_eq!(select("h1").expect("a hit"), ["T <b>x</b>"]);
    assert_eq!(select("table").expect("none"), Vec::<String>::new());
    assert_eq!(select("ul > li:first-child, h1 b").expect("hits"), ["x", "1"]);
    assert_eq!(select("").expect("the page"), [page]);
    assert_eq!(select("UL > LI:LAST").expect("a hit"), ["2"]);
    for bad in [" ", "li[", "::", "a:nonsense", "<li>"] {
        let error = select(bad).expect_err(bad);
        assert_eq!(error.code, Code::NoSelector);
        assert!(error.message.contains(&format!("{bad:?} is not a selector")), "{error}");
    }
    let deep = "<div>".repeat(100_000);
    assert_eq!(scraper.select_html(&deep, "div").expect_err("too deep").code, Code::ScrapeFailed);
}
