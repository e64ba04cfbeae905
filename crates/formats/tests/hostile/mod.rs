//! Markdown texts of the maximum size that are slow to parse.

/// Texts that would take too long in a parser with quadratic running time.
pub(crate) fn hostile_texts() -> Vec<(&'static str, String)> {
    let fill = |piece: &str| piece.repeat(250_000 / piece.len());
    vec![
        ("brackets", fill("[")),
        ("links", fill("[a](")),
        ("stars", fill("*a ")),
        ("underscores", fill("_a")),
        ("backticks", (1..700).map(|n| "`".repeat(n) + " ").collect()),
        ("quotes", fill("> ")),
        ("quote lines", fill("> > > > > > > > > > a\n")),
        ("bullets", fill("- ")),
        ("braces", fill("{")),
        ("pairs of braces", fill("{1} ")),
        ("nested braces", fill("{[") + &fill("]}")),
        ("quotation marks in an expression", format!("{{ \"{}", fill("}"))),
        ("expression lines", fill("{1}\n\n")),
        ("negations", format!("{{{}1}}", "!".repeat(30_000))),
        ("parentheses", format!("{{{}1{}}}", "(".repeat(15_000), ")".repeat(15_000))),
        ("sums", format!("{{1{}}}", "+1".repeat(15_000))),
        ("elements", fill("<a>\n")),
        ("closed elements", fill("<a>") + &fill("</a>")),
        ("many lines", "# a\n".repeat(7_900)),
        ("many paragraphs", "word {1}\n\n".repeat(3_900)),
        ("one line", fill("word ")),
        ("lines", fill("word\n")),
        ("paragraphs", fill("word\n\n")),
        ("headings", fill("# a\n")),
        ("breaks", fill("---\n\n")),
        ("entities", fill("&amp;")),
        ("escapes", fill("\\*")),
        ("definitions", fill("[a]: b\n")),
        ("deep list", (0..300).map(|n| " ".repeat(2 * n) + "- a\n").collect()),
        ("yaml", format!("---\na: {}\n---\n\nx\n", fill("["))),
        ("yaml aliases", format!("---\na: &a [x]\nb: [{}]\n---\n\nx\n", fill("*a, "))),
        ("attributes", format!("<GenText {} />\n", fill("a=\"b\" "))),
    ]
}
