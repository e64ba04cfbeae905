//! Which elements of a page a reader does not see: by their attributes, and by simple rules of the page's style sheets.
//!
//! Text that people do not see is a way to give instructions to a model, so doubtful cases count as hidden. Nothing is
//! laid out: a text in the colour of its background, or one that a script hides, is not recognized.

use std::collections::BTreeMap;

use ego_tree::NodeId;
use scraper::{ElementRef, Html, Selector};

/// Maximum number of selectors of a page that are read, of rules that may hide something.
const MAX_SELECTORS: usize = 2_000;
/// Maximum number of comparisons of an element with a rule, for one page.
const MAX_COMPARISONS: usize = 5_000_000;
/// A distance beyond which text is outside the screen, in pixels.
const OFF_SCREEN_PX: f64 = 900.0;
/// The pixels of a unit of length, roughly.
const UNITS_PX: [(&str, f64); 9] = [
    ("px", 1.0),
    ("rem", 16.0),
    ("em", 16.0),
    ("vw", 12.0),
    ("vh", 8.0),
    ("pt", 1.3),
    ("ch", 8.0),
    ("%", 10.0),
    ("cm", 38.0),
];
/// Sizes below this many pixels cannot be read.
const LEGIBLE_PX: f64 = 2.0;
/// Text of this opacity, as a fraction, or a lower one cannot be seen.
const INVISIBLE_OPACITY: f64 = 0.05;

/// The properties of CSS that can hide an element.
const HIDING_PROPERTIES: [&str; 24] = [
    "display",
    "visibility",
    "content-visibility",
    "opacity",
    "filter",
    "color",
    "-webkit-text-fill-color",
    "font-size",
    "font",
    "text-indent",
    "position",
    "left",
    "right",
    "top",
    "bottom",
    "clip",
    "clip-path",
    "transform",
    "width",
    "height",
    "max-height",
    "overflow",
    "margin-left",
    "margin-top",
];

/// Whether attributes hide their element from readers.
pub(super) fn is_hidden_by<'a>(mut attributes: impl Iterator<Item = (&'a str, &'a str)>) -> bool {
    attributes.any(|(name, value)| match name {
        "hidden" => true,
        "aria-hidden" => value.trim().eq_ignore_ascii_case("true"),
        "style" => Style::parse(value).is_hiding(),
        _ => false,
    })
}

/// The declarations of an element that can hide it: lower case, the last of each property.
#[derive(Clone, Debug, Default)]
struct Style(BTreeMap<String, Declaration>);

#[derive(Clone, Debug)]
struct Declaration {
    value: String,
    /// How strong it is: important or not, then the specificity of its rule.
    rank: (bool, usize),
}

impl Style {
    fn parse(text: &str) -> Style {
        let mut style = Style::default();
        style.add_text(&strip_comments(text), usize::MAX);
        style
    }

    /// Adds declarations without comments. They go before the weaker ones, and before earlier ones of the same strength.
    fn add_text(&mut self, text: &str, specificity: usize) {
        for (property, value) in text.split(';').filter_map(|declaration| declaration.split_once(':')) {
            let property = property.trim().to_ascii_lowercase();
            if !HIDING_PROPERTIES.contains(&property.as_str()) {
                continue;
            }
            let value = value.to_ascii_lowercase();
            let (value, mark) = value.split_once('!').unwrap_or((&value, ""));
            let rank = (mark.trim() == "important", specificity);
            if self.0.get(&property).is_none_or(|given| given.rank <= rank) {
                self.0.insert(property, Declaration { value: value.trim().to_owned(), rank });
            }
        }
    }

    /// The same declarations, in a rule with this specificity.
    fn with_specificity(&self, specificity: usize) -> Style {
        let mut style = self.clone();
        style.0.values_mut().for_each(|declaration| declaration.rank.1 = specificity);
        style
    }

    fn add_style(&mut self, other: &Style) {
        for (property, declaration) in &other.0 {
            if self.0.get(property).is_none_or(|given| given.rank <= declaration.rank) {
                self.0.insert(property.clone(), declaration.clone());
            }
        }
    }

    fn get(&self, property: &str) -> &str {
        self.0.get(property).map_or("", |declaration| declaration.value.as_str())
    }

    /// Whether an element with these declarations cannot be seen.
    fn is_hiding(&self) -> bool {
        HIDING_VALUES.iter().any(|(property, hides)| hides(self.get(property)))
            || self.is_off_screen()
            || self.is_clipped_away()
            || self.is_cut_to_nothing()
    }

    /// Whether an offset moves the element out of the page.
    fn is_off_screen(&self) -> bool {
        let is_outside = |side| read_px(self.get(side)).is_some_and(|at| at <= -OFF_SCREEN_PX);
        !self.get("position").is_empty() && ["left", "right", "top", "bottom"].into_iter().any(is_outside)
    }

    /// Whether the old form of a clip, which only affects placed elements, leaves nothing.
    fn is_clipped_away(&self) -> bool {
        matches!(self.get("position"), "absolute" | "fixed") && is_empty_clip(self.get("clip"))
    }

    /// Whether the element has no size, and its content is cut to it.
    fn is_cut_to_nothing(&self) -> bool {
        let overflow = self.get("overflow");
        let is_cut = overflow.starts_with("hidden") || overflow.starts_with("clip");
        is_cut && ["width", "height", "max-height"].into_iter().any(|size| is_illegible(self.get(size)))
    }
}

/// Whether a value of a property hides its element.
type HidingTest = fn(&str) -> bool;

/// The values that hide an element by themselves, by property.
const HIDING_VALUES: [(&str, HidingTest); 14] = [
    ("display", |value| value == "none"),
    ("visibility", |value| matches!(value, "hidden" | "collapse")),
    ("content-visibility", |value| value == "hidden"),
    ("opacity", |value| read_number(value).is_some_and(|opacity| opacity <= INVISIBLE_OPACITY)),
    ("color", is_transparent),
    ("-webkit-text-fill-color", is_transparent),
    ("filter", |value| read_argument(value, "opacity").and_then(read_number) == Some(0.0)),
    ("font-size", is_illegible),
    ("font", |value| value.split([' ', '/']).any(|part| part.starts_with('0') && read_px(part) == Some(0.0))),
    ("text-indent", |value| read_px(value).is_some_and(|indent| indent.abs() >= OFF_SCREEN_PX)),
    ("margin-left", |value| read_px(value).is_some_and(|margin| margin <= -OFF_SCREEN_PX)),
    ("margin-top", |value| read_px(value).is_some_and(|margin| margin <= -OFF_SCREEN_PX)),
    ("clip-path", is_empty_clip),
    ("transform", moves_away),
];

/// Whether a length is too small to read.
fn is_illegible(length: &str) -> bool {
    read_px(length).is_some_and(|size| size < LEGIBLE_PX)
}

/// A text without the comments of CSS.
fn strip_comments(text: &str) -> String {
    let mut rest = text;
    let mut plain = String::new();
    while let Some((before, comment)) = rest.split_once("/*") {
        plain.push_str(before);
        rest = comment.split_once("*/").map_or("", |(_, after)| after);
    }
    plain + rest
}

/// A number or a percentage, as a fraction.
fn read_number(text: &str) -> Option<f64> {
    match text.strip_suffix('%') {
        Some(percent) => percent.parse::<f64>().ok().map(|percent| percent / 100.0),
        None => text.parse().ok(),
    }
}

/// A length in pixels, roughly.
fn read_px(text: &str) -> Option<f64> {
    if let Ok(number) = text.parse::<f64>() {
        return Some(number);
    }
    let (number, size) = UNITS_PX.iter().find_map(|(unit, size)| Some((text.strip_suffix(unit)?, size)))?;
    number.parse::<f64>().ok().map(|number| number * size)
}

/// The argument of a function in a value: `0` of `opacity` in `opacity(0)`.
fn read_argument<'a>(value: &'a str, function: &str) -> Option<&'a str> {
    let (_, after) = value.split_once(function)?;
    after.trim_start().strip_prefix('(')?.split_once(')').map(|(argument, _)| argument.trim())
}

fn is_transparent(color: &str) -> bool {
    let alpha = || {
        let inner = read_argument(color, "rgba").or_else(|| read_argument(color, "hsla"))?;
        read_number(inner.rsplit([',', '/', ' ']).next()?.trim())
    };
    color == "transparent" || alpha() == Some(0.0)
}

/// Whether nothing is left of a clipped element.
fn is_empty_clip(clip: &str) -> bool {
    if let Some(edges) = read_argument(clip, "rect") {
        let edges: Vec<Option<f64>> = edges.split([',', ' ']).filter(|edge| !edge.is_empty()).map(read_px).collect();
        let [Some(top), Some(right), Some(bottom), Some(left)] = edges[..] else { return false };
        return bottom - top < LEGIBLE_PX || right - left < LEGIBLE_PX;
    }
    let inset = read_argument(clip, "inset").and_then(|edges| read_number(edges.split(' ').next()?));
    let radius = read_argument(clip, "circle").and_then(|radius| read_px(radius.split(' ').next()?));
    inset.is_some_and(|inset| inset >= 0.5) || radius == Some(0.0)
}

/// Whether a transformation shrinks an element to nothing or moves it off the screen.
fn moves_away(transform: &str) -> bool {
    let is_zero = |function| read_argument(transform, function).and_then(|scale| read_number(scale.split(',').next()?));
    let is_far = |function: &str| {
        let offsets = read_argument(transform, function)?;
        offsets.split(',').find(|offset| read_px(offset.trim()).is_some_and(|px| px.abs() >= OFF_SCREEN_PX))
    };
    ["scale", "scalex", "scaley"].into_iter().any(|function| is_zero(function) == Some(0.0))
        || ["translate", "translatex", "translatey"].into_iter().any(|function| is_far(function).is_some())
}

/// A rule of a style sheet, with one selector.
struct StyleRule {
    selector: Selector,
    style: Style,
}

/// The elements that the page's style sheets hide, together with their own styles. Only rules with simple selectors count:
/// those without pseudo-classes, outside of conditions other than `@media screen`.
pub(super) fn find_hidden_by_rules(page: &Html) -> Vec<NodeId> {
    let rules = read_rules(page);
    let mut budget = MAX_COMPARISONS;
    let mut hidden = Vec::new();
    for element in page.root_element().descendent_elements() {
        // Some pages hide everything until a script has run.
        if matches!(element.value().name(), "html" | "body") {
            continue;
        }
        if rules.len() > budget {
            break;
        }
        budget -= rules.len();
        let mut style = Style::default();
        rules.iter().filter(|rule| rule.selector.matches(&element)).for_each(|rule| style.add_style(&rule.style));
        if style.0.is_empty() {
            continue;
        }
        if let Some(own) = element.attr("style") {
            style.add_style(&Style::parse(own));
        }
        if style.is_hiding() {
            hidden.push(element.id());
        }
    }
    hidden
}

fn read_rules(page: &Html) -> Vec<StyleRule> {
    let (mut rules, mut selectors_left) = (Vec::new(), MAX_SELECTORS);
    let Ok(sheets) = Selector::parse("style") else { return rules };
    for sheet in page.select(&sheets).filter(is_for_screens) {
        let text = strip_comments(&sheet.text().collect::<String>());
        let mut rest = text.as_str();
        while let Some((head, after)) = rest.split_once('{') {
            // Statements such as `@import` end with a semicolon, and the braces of conditions are behind their rules.
            let head = head.rsplit(';').next().unwrap_or_default();
            let head = head.trim_start_matches(|next: char| next == '}' || next.is_whitespace()).trim_end();
            if head.strip_prefix("@media").is_some_and(covers_screens) {
                rest = after;
                continue;
            }
            let (body, behind) = split_block(after);
            rest = behind;
            let mut declared = Style::default();
            declared.add_text(body, 0);
            if head.starts_with('@') || declared.0.is_empty() {
                continue;
            }
            for selector in head.split(',').map(str::trim) {
                if selectors_left == 0 {
                    return rules;
                }
                selectors_left -= 1;
                if selector.contains([':', '(']) {
                    continue;
                }
                let style = declared.with_specificity(measure_specificity(selector));
                if let Ok(selector) = Selector::parse(selector) {
                    rules.push(StyleRule { selector, style });
                }
            }
        }
    }
    rules
}

fn is_for_screens(sheet: &ElementRef<'_>) -> bool {
    sheet.attr("media").is_none_or(covers_screens)
}

/// Whether a media query holds for every screen.
fn covers_screens(query: &str) -> bool {
    matches!(query.trim().to_ascii_lowercase().as_str(), "" | "all" | "screen" | "only screen" | "only all")
}

/// Splits after the brace that closes a block.
fn split_block(text: &str) -> (&str, &str) {
    let mut depth = 0usize;
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => return (&text[..at], &text[at + 1..]),
            '}' => depth -= 1,
            _ => {}
        }
    }
    (text, "")
}

/// The specificity of a simple selector.
fn measure_specificity(selector: &str) -> usize {
    let ids = selector.matches('#').count();
    let classes = selector.matches(['.', '[']).count();
    let elements = selector.split([' ', '>', '+', '~']).filter(|part| part.starts_with(char::is_alphabetic)).count();
    ids * 10_000 + classes * 100 + elements
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_that_hide_are_recognized() {
        for style in [
            "display:none",
            "display/**/:none",
            "display: block; DISPLAY : None !important",
            "visibility:hidden",
            "opacity:0",
            "opacity: 0.0",
            "font-size:0",
            "font: 0/0 a",
            "font-size: 1px",
            "text-indent:-9999px",
            "text-indent: -999em",
            "margin-left: -9999em",
            "position:absolute;left:-10000px",
            "position: fixed; top: -100em",
            "position:absolute;clip:rect(0 0 0 0)",
            "position:absolute;clip: rect(1px, 1px, 1px, 1px)",
            "clip-path: inset(50%)",
            "color: transparent",
            "color:rgba(0,0,0,0)",
            "transform:scale(0)",
            "transform: translateX(-9999px)",
            "overflow:hidden;height:0",
            "width:1px;height:1px;overflow:hidden",
            "filter: opacity(0%)",
        ] {
            assert!(Style::parse(style).is_hiding(), "{style}");
        }
    }

    #[test]
    fn declarations_that_show_are_recognized() {
        for style in [
            "",
            "display:block",
            "opacity:0.9",
            "opacity:1",
            "font-size:12px",
            "font: 10px/1.2 serif",
            "text-indent:-1em",
            "left:-10000px",
            "position:relative;left:-5px",
            "position:absolute;clip:rect(0, 100px, 50px, 0)",
            "clip-path: inset(5%)",
            "color:#000",
            "color: rgba(0, 0, 0, 0.8)",
            "transform:scale(1.5)",
            "height:0",
            "overflow:hidden;height:20px",
            "display:none;display:block",
            "/* display:none */",
            "background:url(a;display:nonesuch)",
        ] {
            assert!(!Style::parse(style).is_hiding(), "{style}");
        }
    }

    #[test]
    fn the_strongest_rule_decides() {
        let page = Html::parse_document(
            "<style>@import 'a.css'; .a, .b { display: none } @media print { p { display: none } }
             @media only screen { .f { display: none } } p.b { display: block } #c { text-indent: -9999px } /* .d { display: none } */ p:hover { display: none }</style>
             <style media=print>.e { display: none }</style><body style='opacity:0'>
             <p class=a>1</p><p class=b>2</p><p id=c>3</p><p class=d>4</p><p class=e>5</p>
             <p class=a style='display:block'>6</p><p class=f>7</p></body>",
        );
        let hidden = find_hidden_by_rules(&page);
        let texts: Vec<String> = page
            .root_element()
            .descendent_elements()
            .filter(|element| hidden.contains(&element.id()))
            .map(|element| element.text().collect())
            .collect();
        assert_eq!(texts, ["1", "3", "7"]);
    }

    #[test]
    fn rules_with_many_selectors_and_declarations_take_linear_time() {
        for declaration in ["x:y;", "color:red;"] {
            let (selectors, declarations) = (vec!["a"; 100_000].join(","), declaration.repeat(100_000));
            let page = format!("<style>{selectors}{{{declarations}}}</style><p>text</p>");
            assert_eq!(find_hidden_by_rules(&Html::parse_document(&page)), []);
        }
    }
}
