//! Finds the elements of a page that a selector matches.

use std::collections::HashSet;

use flowloom_core::selector::{Alternative, PageSelector, Relation, SelectorError, SelectorStep};
use scraper::{ElementRef, Html, Selector};

use super::error::ScrapeError;
use super::shape::PageShape;

/// The inner HTML of each element that the selector matches, in the order of the page; the whole page for an empty
/// selector.
pub(super) fn select_inner_html(html: &str, text: &str) -> Result<Vec<String>, ScrapeError> {
    if text.trim().is_empty() {
        return Ok(vec![html.to_owned()]);
    }
    let selector = PageSelector::parse(text).map_err(ScrapeError::InvalidSelector)?;
    for css in selector.css_parts() {
        parse_css(text, css)?;
    }
    if PageShape::scan_html(html).is_excessive() {
        return Err(ScrapeError::TooDeep);
    }
    let page = Html::parse_document(html);
    let elements: Vec<ElementRef<'_>> = page.root_element().descendent_elements().collect();
    let mut found = HashSet::new();
    for alternative in &selector.alternatives {
        match alternative {
            Alternative::Css(css) => found.extend(page.select(&parse_css(text, css)?).map(|element| element.id())),
            Alternative::Steps(steps) => {
                let mut matches = None;
                for step in steps {
                    matches = Some(take_step(text, step, matches, &elements)?);
                }
                found.extend(matches.into_iter().flatten().map(|element| element.id()));
            }
        }
    }
    Ok(elements.iter().filter(|element| found.contains(&element.id())).map(ElementRef::inner_html).collect())
}

fn parse_css(selector: &str, css: &str) -> Result<Selector, ScrapeError> {
    Selector::parse(css)
        .map_err(|_| ScrapeError::InvalidSelector(SelectorError::new(selector, format!("{css:?} is not valid CSS"))))
}

/// What a step makes of the matches so far, in the order of the page; `None` before the first step.
fn take_step<'a>(
    selector: &str,
    step: &SelectorStep,
    matches: Option<Vec<ElementRef<'a>>>,
    elements: &[ElementRef<'a>],
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
            let candidates = elements.iter().copied().filter(|element| css.matches(element));
            match &matches {
                None => candidates.collect(),
                Some(matches) => find_related(*relation, matches, candidates),
            }
        }
        SelectorStep::Match(css) => {
            let css = parse_css(selector, css)?;
            keep(&|_, element| css.matches(element))
        }
        SelectorStep::Contains(text) => keep(&|_, element| element.text().collect::<String>().contains(text)),
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
