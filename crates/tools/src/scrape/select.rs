//! Finds the elements of a page that a selector matches.

use std::collections::HashSet;

use ego_tree::NodeId;
use flowloom_core::selector::{Alternative, PageSelector, Relation, SelectorError, SelectorStep, describe_unreadable};
use html5ever::serialize::TraversalScope;
use scraper::selector::ToCss as _;
use scraper::{ElementRef, Html, Selector};

use super::error::ScrapeError;
use super::shape::PageShape;
use super::write_html::{is_raw_element, write_html};

/// A page and all of its elements, in order.
struct PageElements<'a> {
    document: &'a Html,
    all: Vec<ElementRef<'a>>,
}

impl<'a> PageElements<'a> {
    /// Those of `among` that match a selector. The search of the whole page remembers the positions among siblings, which
    /// every other match counts again.
    fn filter_matches(&self, css: &Selector, among: &[ElementRef<'a>]) -> Vec<ElementRef<'a>> {
        if !counts_siblings(css) {
            return among.iter().copied().filter(|element| css.matches(element)).collect();
        }
        let ids: ElementIds = self.document.select(css).map(|element| element.id()).collect();
        among.iter().copied().filter(|element| ids.contains(&element.id())).collect()
    }
}

/// Whether a match depends on the position among siblings, or on the elements within.
fn counts_siblings(css: &Selector) -> bool {
    let text = css.to_css_string();
    ["nth-", "-of-type", ":has("].iter().any(|part| text.contains(part))
}

/// The inner HTML of each element that the selector matches, in the order of the page; the whole page for an empty
/// selector.
pub(super) fn select_inner_html(html: &str, text: &str) -> Result<Vec<String>, ScrapeError> {
    if text.is_empty() {
        return Ok(vec![html.to_owned()]);
    }
    let selector = PageSelector::parse(text).map_err(ScrapeError::InvalidSelector)?;
    for css in selector.css_parts() {
        parse_css(text, css)?;
    }
    if PageShape::scan_html(html).is_excessive() {
        return Err(ScrapeError::TooDeep);
    }
    let document = Html::parse_document(html);
    let page = PageElements { document: &document, all: document.root_element().descendent_elements().collect() };
    let mut found = HashSet::new();
    for alternative in &selector.alternatives {
        match alternative {
            Alternative::Css(css) => found.extend(document.select(&parse_css(text, css)?).map(|element| element.id())),
            Alternative::Steps(steps) => {
                let matches = take_steps(text, steps, None, &page)?;
                found.extend(matches.into_iter().map(|element| element.id()));
            }
        }
    }
    Ok(page.all.iter().filter(|element| found.contains(&element.id())).map(write_inner_html).collect())
}

/// The content of an element as HTML.
fn write_inner_html(element: &ElementRef<'_>) -> String {
    if is_raw_element(element.value().name(), true) {
        return element.text().collect();
    }
    write_html(*element, TraversalScope::ChildrenOnly(None), true)
}

fn parse_css(selector: &str, css: &str) -> Result<Selector, ScrapeError> {
    Selector::parse(css)
        .map_err(|_| ScrapeError::InvalidSelector(SelectorError::new(selector, describe_unreadable(css))))
}

/// The matches of a selector after these steps.
fn take_steps<'a>(
    selector: &str,
    steps: &[SelectorStep],
    mut matches: Option<Vec<ElementRef<'a>>>,
    page: &PageElements<'a>,
) -> Result<Vec<ElementRef<'a>>, ScrapeError> {
    for step in steps {
        matches = Some(take_step(selector, step, matches, page)?);
    }
    Ok(matches.unwrap_or_default())
}

/// The ids of elements.
type ElementIds = HashSet<NodeId>;

/// Those of `among` that match an inner selector. The positions in a selector of one element count `among`.
fn match_nested<'a>(
    selector: &str,
    inner: &PageSelector,
    among: &[ElementRef<'a>],
    page: &PageElements<'a>,
) -> Result<ElementIds, ScrapeError> {
    let mut ids = HashSet::new();
    for alternative in &inner.alternatives {
        let matches = match alternative {
            Alternative::Css(css) => {
                let css = parse_css(selector, css)?;
                page.filter_matches(&css, among)
            }
            Alternative::Steps(steps) => match &steps[..] {
                [SelectorStep::Follow(_, css), rest @ ..] if !rest.iter().any(is_follow) => {
                    let first = SelectorStep::Match(css.clone());
                    let narrowed = take_step(selector, &first, Some(among.to_vec()), page)?;
                    take_steps(selector, rest, Some(narrowed), page)?
                }
                steps => take_steps(selector, steps, None, page)?,
            },
        };
        ids.extend(matches.into_iter().map(|element| element.id()));
    }
    Ok(ids)
}

fn is_follow(step: &SelectorStep) -> bool {
    matches!(step, SelectorStep::Follow(..))
}

/// The elements that have a related element which matches an inner selector.
fn find_owners(selector: &str, inner: &PageSelector, page: &PageElements<'_>) -> Result<ElementIds, ScrapeError> {
    let mut owners = HashSet::new();
    for alternative in &inner.alternatives {
        match alternative {
            Alternative::Css(css) => {
                let css = parse_css(selector, &format!(":has({css})"))?;
                owners.extend(page.document.select(&css).map(|element| element.id()));
            }
            Alternative::Steps(steps) => {
                let relation = match steps.first() {
                    Some(SelectorStep::Follow(relation, _)) => *relation,
                    _ => Relation::Descendant,
                };
                let mut found = HashSet::new();
                for element in take_steps(selector, steps, None, page)? {
                    add_owners(&mut found, element, relation);
                }
                owners.extend(found);
            }
        }
    }
    Ok(owners)
}

/// Adds the elements to which an element has a relation.
fn add_owners(owners: &mut ElementIds, element: ElementRef<'_>, relation: Relation) {
    let parent = || element.parent().and_then(ElementRef::wrap);
    match relation {
        // The ancestors above one that was added were added as well.
        Relation::Descendant => element.ancestors().take_while(|outer| owners.insert(outer.id())).for_each(drop),
        Relation::Child => owners.extend(parent().map(|parent| parent.id())),
        Relation::Next => owners.extend(element.prev_siblings().find_map(ElementRef::wrap).map(|other| other.id())),
        Relation::Sibling => element.prev_siblings().take_while(|other| owners.insert(other.id())).for_each(drop),
    }
}

/// The matches after one step, in the order of the page; `None` before the first step.
fn take_step<'a>(
    selector: &str,
    step: &SelectorStep,
    matches: Option<Vec<ElementRef<'a>>>,
    page: &PageElements<'a>,
) -> Result<Vec<ElementRef<'a>>, ScrapeError> {
    let count = matches.as_ref().map_or(0, Vec::len) as i64;
    let from_start = |position: i64| if position < 0 { count + position } else { position };
    let keep = |is_kept: &dyn Fn(i64, &ElementRef<'a>) -> bool| {
        let all = matches.iter().flatten().enumerate();
        all.filter(|(index, element)| is_kept(*index as i64, element)).map(|(_, element)| *element).collect()
    };
    Ok(match step {
        SelectorStep::Follow(relation, css) => {
            let css = parse_css(selector, css)?;
            let candidates = page.filter_matches(&css, &page.all).into_iter();
            match &matches {
                None => candidates.collect(),
                Some(matches) => find_related(*relation, matches, candidates),
            }
        }
        SelectorStep::Match(css) => {
            let css = parse_css(selector, css)?;
            page.filter_matches(&css, matches.as_deref().unwrap_or_default())
        }
        SelectorStep::Contains(text) => keep(&|_, element| element.text().collect::<String>().contains(text)),
        SelectorStep::ContainsIgnoringCase(text) => {
            keep(&|_, element| element.text().collect::<String>().to_lowercase().contains(text))
        }
        SelectorStep::Is(inner) | SelectorStep::Not(inner) => {
            let ids = match_nested(selector, inner, matches.as_deref().unwrap_or_default(), page)?;
            let is_wanted = matches!(step, SelectorStep::Is(_));
            keep(&|_, element| ids.contains(&element.id()) == is_wanted)
        }
        SelectorStep::Has(inner) => {
            let owners = find_owners(selector, inner, page)?;
            keep(&|_, element| owners.contains(&element.id()))
        }
        SelectorStep::At(position) => keep(&|index, _| index == from_start(*position)),
        SelectorStep::After(position) => keep(&|index, _| index > from_start(*position)),
        SelectorStep::Before(position) => keep(&|index, _| index < from_start(*position)),
        SelectorStep::Even(is_even) => keep(&|index, _| (index % 2 == 0) == *is_even),
    })
}

/// The candidates that are related to one of the matches.
fn find_related<'a>(
    relation: Relation,
    matches: &[ElementRef<'a>],
    candidates: impl Iterator<Item = ElementRef<'a>>,
) -> Vec<ElementRef<'a>> {
    let mut ids: HashSet<_> = matches.iter().map(|element| element.id()).collect();
    if relation == Relation::Sibling {
        let mut later = HashSet::new();
        for element in matches {
            // The siblings after one that was seen already were seen as well.
            element.next_siblings().take_while(|sibling| later.insert(sibling.id())).for_each(drop);
        }
        ids = later;
    }
    let is_match = |element: ElementRef<'a>| ids.contains(&element.id());
    let is_related = |element: &ElementRef<'a>| match relation {
        Relation::Descendant => element.ancestors().filter_map(ElementRef::wrap).any(is_match),
        Relation::Child => element.parent().and_then(ElementRef::wrap).is_some_and(is_match),
        Relation::Next => element.prev_siblings().find_map(ElementRef::wrap).is_some_and(is_match),
        Relation::Sibling => is_match(*element),
    };
    candidates.filter(is_related).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str =
        "<html><head></head><body><h2>A</h2><div id=one><p>B</p><p>zz</p></div><div id=two><p>C</p></div>
        <a href=x>link</a><a>anchor</a><form><input type=checkbox checked id=c><input id=t><button>Go</button>
        <select><option>no</option><option selected>yes</option></select></form><p></p></body></html>";

    fn select(selector: &str) -> Vec<String> {
        let found = select_inner_html(PAGE, selector).unwrap_or_else(|error| panic!("{selector}: {error}"));
        found.iter().map(|html| html.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    }

    #[test]
    fn elements_are_written_as_they_were_read() {
        let page = r#"<script type="application/ld+json">{"a": "Tom & <b>"}</script><style>a > b {}</style>
            <noscript><img src="x"></noscript><div><a href="/p" data-k="v" class="c">1 &amp; 2</a></div>"#;
        let select = |selector: &str| select_inner_html(page, selector).expect(selector).concat();
        assert_eq!(select("script"), r#"{"a": "Tom & <b>"}"#);
        assert_eq!(select("style"), "a > b {}");
        assert_eq!(select("noscript"), r#"<img src="x">"#);
        assert_eq!(select("div"), r#"<a href="/p" data-k="v" class="c">1 &amp; 2</a>"#);
    }

    #[test]
    fn extensions_of_jquery_select_as_in_cheerio() {
        for (selector, expected) in [
            (":header", &["A"][..]),
            ("p:not(:first)", &["zz", "C", ""]),
            ("div:not(:contains(zz))", &["<p>C</p>"]),
            ("div:has(:contains(B))", &["<p>B</p><p>zz</p>"]),
            ("div:has(> p:contains(C)) > p", &["C"]),
            ("h2:has(+ div:contains(B))", &["A"]),
            ("p:is(:contains(B), :contains(C))", &["B", "C"]),
            ("p:icontains(ZZ)", &["zz"]),
            ("div p:parent", &["B", "zz", "C"]),
            (":link", &["link"]),
            ("a:any-link", &["link"]),
            (":button", &["Go"]),
            (":selected", &["yes"]),
            ("option:checked", &["yes"]),
            (":checkbox:checked", &[""]),
            ("form > :text", &[""]),
            ("h2, p:last", &["A", ""]),
            (":scope p:first", &["B"]),
            (":first p:first", &["B"]),
            (":root > body h2", &["A"]),
        ] {
            assert_eq!(select(selector), expected, "{selector}");
        }
        assert_eq!(select("form :input").len(), 4);
        assert_eq!(select(":scope p").len(), 4);
        assert_eq!(select(":first p").len(), 4);
    }

    #[test]
    fn positions_among_many_siblings_take_linear_time() {
        let page = format!("<ul>{}</ul>", "<li>x</li>".repeat(100_000));
        for selector in [
            "li:nth-child(2):first",
            "li:last-of-type:not(:eq(3))",
            "li:eq(7):nth-child(8)",
            "ul:has(li:nth-child(9)):first",
        ] {
            assert_eq!(select_inner_html(&page, selector).expect(selector).len(), 1, "{selector}");
        }
    }

    #[test]
    fn states_of_forms_are_those_of_the_page() {
        let page = r#"<form><fieldset disabled><legend><input value=1></legend><button>a</button></fieldset>
            <button>b</button><button disabled>c</button><select required><option>d</option></select>
            <textarea>e</textarea><a href="/">f</a></form>"#;
        for (selector, expected) in [
            ("button:disabled", &["c"][..]),
            ("button:enabled", &["a", "b"]),
            (":is(select, textarea):required option", &["d"]),
            ("textarea:optional", &["e"]),
            ("button:matches(:disabled, .x):nth(0)", &["c"]),
            ("textarea:matches(a, textarea)", &["e"]),
            ("button:not(:disabled)", &["a", "b"]),
            ("a:hover, a:visited, a:active", &[]),
        ] {
            assert_eq!(select_inner_html(page, selector).expect(selector), expected, "{selector}");
        }
    }
}
