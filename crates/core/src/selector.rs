//! Selectors of elements of a web page: CSS, with the extensions of jQuery: `:contains("text")`, positions such as
//! `:first` and `:eq(n)`, kinds of elements such as `:header` and `:checked`, `[name!=value]`, and `:not(…)`, `:is(…)` and
//! `:has(…)` with these in them.
//!
//! The positions count all elements that the selector has found so far, unlike CSS's `:first-child`. A selector is
//! therefore a list of steps, each of which narrows or follows what the previous one found.

/// Maximum nesting of selectors in selectors.
const MAX_NESTING: usize = 8;

/// Kinds of elements that have names in jQuery, and the plain CSS that means the same.
const ALIASES: [(&str, &str); 23] = [
    ("active", NOTHING),
    ("any-link", ":is(a, area, link)[href]"),
    ("button", ":is(button, input[type=button])"),
    ("checkbox", "[type=checkbox]"),
    ("checked", ":is(input:is([type=radio], [type=checkbox])[checked], option[selected])"),
    ("disabled", DISABLED),
    ("enabled", ENABLED),
    ("file", "[type=file]"),
    ("header", ":is(h1, h2, h3, h4, h5, h6)"),
    ("hover", NOTHING),
    ("image", "[type=image]"),
    ("input", ":is(input, textarea, select, button)"),
    ("link", ":is(a, area, link)[href]"),
    ("optional", ":is(input, select, textarea):not([required])"),
    ("parent", ":not(:empty)"),
    ("password", "[type=password]"),
    ("radio", "[type=radio]"),
    ("required", ":is(input, select, textarea)[required]"),
    ("reset", "[type=reset]"),
    ("selected", "option[selected]"),
    ("submit", "[type=submit]"),
    ("text", "input:is(:not([type]), [type=\"\"], [type=text])"),
    ("visited", NOTHING),
];

/// Replacement for selectors that need a reader of the page, such as `:focus`: matches no element.
const NOTHING: &str = ":not(*)";

/// The elements of forms that are disabled.
const DISABLED: &str = ":is(:is(button, input, select, textarea, optgroup, option)[disabled], optgroup[disabled] > option, \
                        fieldset[disabled]:not(fieldset[disabled] legend:first-of-type *))";

/// All others.
const ENABLED: &str = ":not(:is(button, input, select, textarea, optgroup, option)[disabled], optgroup[disabled] > option, \
                       fieldset[disabled]:not(fieldset[disabled] legend:first-of-type *))";

/// Why CSS cannot be read.
pub fn describe_unreadable(css: &str) -> String {
    format!("{css:?} is not CSS, or has a part that is not supported")
}

/// A selector: alternatives, whose matches are united.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageSelector {
    /// The alternatives.
    pub alternatives: Vec<Alternative>,
}

/// One alternative of a selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Alternative {
    /// A selector of plain CSS.
    Css(String),
    /// A selector with extensions.
    Steps(Vec<SelectorStep>),
}

/// A step of a selector with extensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SelectorStep {
    /// The elements that are related to those found so far and match a compound selector of plain CSS.
    Follow(Relation, String),
    /// Those that match a compound selector of plain CSS.
    Match(String),
    /// Those whose text contains this text.
    Contains(String),
    /// Those whose text contains this text in capital or small letters. The text has small letters.
    ContainsIgnoringCase(String),
    /// Those that match the selector.
    Is(PageSelector),
    /// Those that do not match the selector.
    Not(PageSelector),
    /// Those with an element that is related to them and matches the selector. Each of its alternatives is CSS, or has one
    /// relation and no position.
    Has(PageSelector),
    /// The one at this position, counted from the end if it is negative.
    At(i64),
    /// Those after this position.
    After(i64),
    /// Those before this position.
    Before(i64),
    /// Those at even positions, counted from 0; otherwise those at odd ones.
    Even(bool),
}

/// How an element is related to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// It is in it.
    Descendant,
    /// It is directly in it.
    Child,
    /// It directly follows it.
    Next,
    /// It follows it.
    Sibling,
}

/// Why a text is not a selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{selector:?} is not a selector: {problem}")]
pub struct SelectorError {
    selector: String,
    problem: String,
}

impl SelectorError {
    /// Creates the error for a selector that cannot be read.
    pub fn new(selector: &str, problem: impl Into<String>) -> SelectorError {
        SelectorError { selector: selector.to_owned(), problem: problem.into() }
    }
}

impl PageSelector {
    /// Parses a selector. The parts of plain CSS are not checked; see [`PageSelector::css_parts`]. Fails if a part is
    /// missing, if a bracket is not closed, or if an extension has an invalid argument.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowloom_core::selector::{Alternative, PageSelector};
    ///
    /// let selector = PageSelector::parse("h1, p:first").expect("a selector");
    /// assert_eq!(selector.alternatives[0], Alternative::Css("h1".to_owned()));
    /// assert_eq!(selector.css_parts().collect::<Vec<_>>(), ["h1", "p"]);
    /// ```
    pub fn parse(text: &str) -> Result<PageSelector, SelectorError> {
        parse_alternatives(text, 0).map_err(|problem| SelectorError::new(text, problem))
    }

    /// The parts that are plain CSS.
    pub fn css_parts(&self) -> impl Iterator<Item = &str> {
        let mut parts = Vec::new();
        self.collect_css_parts(&mut parts);
        parts.into_iter()
    }

    fn collect_css_parts<'s>(&'s self, parts: &mut Vec<&'s str>) {
        for alternative in &self.alternatives {
            match alternative {
                Alternative::Css(css) => parts.push(css.trim_start_matches(is_relation_char)),
                Alternative::Steps(steps) => {
                    for step in steps {
                        match step {
                            SelectorStep::Follow(_, css) | SelectorStep::Match(css) => parts.push(css),
                            SelectorStep::Is(inner) | SelectorStep::Not(inner) | SelectorStep::Has(inner) => {
                                inner.collect_css_parts(parts);
                            }
                            _ => {}
                        }
                    }
                }
            }
        }
    }

    fn has_extension(&self) -> bool {
        self.alternatives.iter().any(|alternative| matches!(alternative, Alternative::Steps(_)))
    }
}

/// Whether a character separates two elements of a selector.
fn is_relation_char(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{c}' | '>' | '+' | '~')
}

fn parse_alternatives(text: &str, nesting: usize) -> Result<PageSelector, String> {
    let mut reader = SelectorReader { text, at: 0, nesting };
    let mut alternatives = Vec::new();
    loop {
        alternatives.push(reader.read_alternative()?);
        if !reader.skip(',') {
            return Ok(PageSelector { alternatives });
        }
    }
}

struct SelectorReader<'a> {
    text: &'a str,
    at: usize,
    nesting: usize,
}

impl<'a> SelectorReader<'a> {
    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        Some(next)
    }

    fn skip(&mut self, wanted: char) -> bool {
        let is_there = self.peek() == Some(wanted);
        self.at += if is_there { wanted.len_utf8() } else { 0 };
        is_there
    }

    /// Reads up to the next comma.
    fn read_alternative(&mut self) -> Result<Alternative, String> {
        let start = self.at;
        let mut steps = Vec::new();
        let mut relation = self.read_relation();
        let mut has_extension = false;
        loop {
            let (css, mut extension) = self.read_css(&mut has_extension)?;
            if css.is_empty() && extension.is_none() {
                return Err("a part of it is missing".to_owned());
            }
            let css = if css.is_empty() { "*".into() } else { css };
            steps.push(SelectorStep::Follow(relation.unwrap_or(Relation::Descendant), css));
            while let Some(step) = extension.take() {
                steps.push(step);
                has_extension = true;
                let css;
                (css, extension) = self.read_css(&mut has_extension)?;
                if !css.is_empty() {
                    steps.push(SelectorStep::Match(css));
                }
            }
            relation = self.read_relation();
            if relation.is_none() || matches!(self.peek(), None | Some(',')) {
                break;
            }
        }
        let source = self.text[start..self.at].trim();
        Ok(if has_extension { Alternative::Steps(steps) } else { Alternative::Css(source.to_owned()) })
    }

    /// Reads white space and a combinator; `None` if there is neither.
    fn read_relation(&mut self) -> Option<Relation> {
        let mut relation = None;
        while let Some(next) = self.peek() {
            relation = match next {
                ' ' | '\t' | '\n' | '\r' | '\u{c}' => relation.or(Some(Relation::Descendant)),
                '>' => Some(Relation::Child),
                '+' => Some(Relation::Next),
                '~' => Some(Relation::Sibling),
                _ => break,
            };
            self.next();
        }
        relation
    }

    /// Reads plain CSS up to an extension, which is read, too, or up to a combinator or a comma. `[a!=b]` and `:header`
    /// become plain CSS.
    fn read_css(&mut self, has_extension: &mut bool) -> Result<(String, Option<SelectorStep>), String> {
        let mut css = String::new();
        while let Some(next) = self.peek() {
            match next {
                ',' => break,
                next if is_relation_char(next) => break,
                '[' => css.push_str(&self.read_attribute(has_extension)?),
                '(' => css.push_str(self.read_balanced('(', ')')?),
                '\\' => css.extend(self.next().into_iter().chain(self.next())),
                // A pseudo-element.
                ':' if self.text[self.at..].starts_with("::") => css.extend(self.next().into_iter().chain(self.next())),
                ':' => {
                    let name = self.read_pseudo_name();
                    if let Some((_, meaning)) = ALIASES.iter().find(|(alias, _)| *alias == name) {
                        *has_extension = true;
                        // A name of an element goes first.
                        match meaning.starts_with(char::is_alphabetic) && !css.is_empty() {
                            true => css.push_str(&format!(":is({meaning})")),
                            false => css.push_str(meaning),
                        }
                    } else if name == "scope" && self.nesting == 0 {
                        *has_extension = true;
                        css.push_str(":root");
                    } else if let Some(step) = self.read_extension(&name)? {
                        return Ok((css, Some(step)));
                    } else if name == "matches" {
                        *has_extension = true;
                        css.push_str(":is");
                    } else {
                        css.push(':');
                        css.push_str(&name);
                    }
                }
                _ => css.extend(self.next()),
            }
        }
        Ok((css, None))
    }

    /// Reads a colon and a name, which is in lower case then.
    fn read_pseudo_name(&mut self) -> String {
        let rest = &self.text[self.at + 1..];
        let length =
            rest.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')).count();
        self.at += 1 + length;
        rest[..length].to_ascii_lowercase()
    }

    /// The extension of this name, whose argument follows; `None`, with nothing read, if it is plain CSS.
    fn read_extension(&mut self, name: &str) -> Result<Option<SelectorStep>, String> {
        const NAMES: [&str; 10] = ["contains", "icontains", "first", "last", "eq", "nth", "gt", "lt", "even", "odd"];
        const NESTING_NAMES: [&str; 5] = ["not", "is", "where", "matches", "has"];
        let start = self.at;
        if !NAMES.contains(&name) && !NESTING_NAMES.contains(&name) {
            return Ok(None);
        }
        let argument = if self.peek() == Some('(') { Some(self.read_balanced('(', ')')?) } else { None };
        let argument = argument.map(|text| text[1..text.len() - 1].trim());
        if NESTING_NAMES.contains(&name) {
            let step = self.read_nested(name, argument.unwrap_or_default())?;
            if step.is_none() {
                self.at = start;
            }
            return Ok(step);
        }
        let position = || {
            let number = argument.and_then(|text| text.parse::<i64>().ok());
            number.ok_or_else(|| format!(":{name} needs a position, for example :{name}(0)"))
        };
        let text = || {
            let text = argument.map(unquote);
            text.ok_or_else(|| format!(":{name} needs a string, for example :{name}(\"sold out\")"))
        };
        Ok(Some(match name {
            "first" => SelectorStep::At(0),
            "last" => SelectorStep::At(-1),
            "eq" | "nth" => SelectorStep::At(position()?),
            "gt" => SelectorStep::After(position()?),
            "lt" => SelectorStep::Before(position()?),
            "contains" => SelectorStep::Contains(text()?),
            "icontains" => SelectorStep::ContainsIgnoringCase(text()?.to_lowercase()),
            name => SelectorStep::Even(name == "even"),
        }))
    }

    /// The step of a selector in a selector; `None` if it is plain CSS.
    fn read_nested(&self, name: &str, argument: &str) -> Result<Option<SelectorStep>, String> {
        if self.nesting >= MAX_NESTING {
            return Err(format!("selectors are nested more than {MAX_NESTING} levels deep"));
        }
        let inner = parse_alternatives(argument, self.nesting + 1)?;
        if !inner.has_extension() {
            return Ok(None);
        }
        Ok(Some(match name {
            "not" => SelectorStep::Not(inner),
            "has" => {
                let is_simple = |step: &SelectorStep| {
                    use SelectorStep::{After, At, Before, Even, Follow};
                    !matches!(step, Follow(..) | At(_) | After(_) | Before(_) | Even(_))
                };
                let is_supported = |alternative: &Alternative| match alternative {
                    Alternative::Css(_) => true,
                    Alternative::Steps(steps) => steps.iter().skip(1).all(is_simple),
                };
                if !inner.alternatives.iter().all(is_supported) {
                    return Err(":has(…) with an extension of jQuery takes one element and no position".to_owned());
                }
                SelectorStep::Has(inner)
            }
            _ => SelectorStep::Is(inner),
        }))
    }

    /// Reads `[…]`.
    fn read_attribute(&mut self, has_extension: &mut bool) -> Result<String, String> {
        let whole = self.read_balanced('[', ']')?;
        let inner = &whole[1..whole.len() - 1];
        let quoted = inner.find(['"', '\'']).unwrap_or(inner.len());
        let Some(at) = inner[..quoted].find("!=") else { return Ok(whole.to_owned()) };
        *has_extension = true;
        let (name, value) = (inner[..at].trim(), unquote(inner[at + 2..].trim()));
        let value = value.replace('\\', "\\\\").replace('"', "\\\"");
        Ok(format!(":not([{name}=\"{value}\"])"))
    }

    /// Reads up to the bracket that closes the one here.
    fn read_balanced(&mut self, open: char, close: char) -> Result<&'a str, String> {
        let start = self.at;
        let mut depth = 0;
        let mut quote = None;
        while let Some(next) = self.next() {
            match (quote, next) {
                (_, '\\') => drop(self.next()),
                (Some(mark), next) if mark == next => quote = None,
                (Some(_), _) => {}
                (None, '"' | '\'') => quote = Some(next),
                (None, next) if next == open => depth += 1,
                (None, next) if next == close => {
                    depth -= 1;
                    if depth == 0 {
                        return Ok(&self.text[start..self.at]);
                    }
                }
                _ => {}
            }
        }
        Err(format!("{open} is not closed"))
    }
}

/// The text without its quotation marks.
fn unquote(text: &str) -> String {
    let inner = ['"', '\''].iter().find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote));
    inner.unwrap_or(text).replace("\\\"", "\"").replace("\\'", "'")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps_of(text: &str) -> Vec<SelectorStep> {
        match PageSelector::parse(text).expect(text).alternatives.remove(0) {
            Alternative::Steps(steps) => steps,
            Alternative::Css(css) => panic!("{css} has no extension"),
        }
    }

    #[test]
    fn plain_css_is_kept_as_it_is() {
        for css in ["p", "ul > li a[href^='x, y']", "p:first-child::before", "a:not(.b, :has(> c))", "#a\\:first", "*"]
        {
            let parsed = PageSelector::parse(css).expect(css);
            assert_eq!(parsed.alternatives, [Alternative::Css(css.to_owned())], "{css}");
        }
        assert_eq!(PageSelector::parse("a, b:last ,c").expect("a list").alternatives.len(), 3);
    }

    #[test]
    fn extensions_are_steps() {
        use SelectorStep::{After, At, Contains, Even, Follow, Match};
        let follow = |relation, css: &str| Follow(relation, css.to_owned());
        assert_eq!(
            steps_of("div.a > p:contains(\"Two (b)\"):first.x b"),
            [
                follow(Relation::Descendant, "div.a"),
                follow(Relation::Child, "p"),
                Contains("Two (b)".into()),
                At(0),
                Match(".x".into()),
                follow(Relation::Descendant, "b"),
            ]
        );
        assert_eq!(steps_of(":eq(-2)"), [follow(Relation::Descendant, "*"), At(-2)]);
        assert_eq!(steps_of("li:gt(1):odd"), [follow(Relation::Descendant, "li"), After(1), Even(false)]);
        assert_eq!(steps_of("p[class!=a]"), [follow(Relation::Descendant, "p:not([class=\"a\"])")]);
        assert_eq!(steps_of(":header"), [follow(Relation::Descendant, ":is(h1, h2, h3, h4, h5, h6)")]);
        let is_text = ":is(input:is(:not([type]), [type=\"\"], [type=text]))";
        assert_eq!(steps_of("input:text"), [follow(Relation::Descendant, &format!("input{is_text}"))]);
        let inner = PageSelector { alternatives: vec![Alternative::Steps(steps_of(":contains(zz)"))] };
        assert_eq!(steps_of("p:not(:contains(zz))"), [follow(Relation::Descendant, "p"), SelectorStep::Not(inner)]);
    }

    #[test]
    fn what_is_missing_is_named() {
        for (text, part) in [
            ("p[[", "[ is not closed"),
            ("p:eq", "position"),
            ("p:contains", "needs a string"),
            ("p,", "missing"),
            ("p:eq(x)", "position"),
            ("p:has(a:first)", "no position"),
            (&":not(".repeat(20_000), "not closed"),
            (&format!("{}:first{}", ":not(".repeat(50), ")".repeat(50)), "levels deep"),
        ] {
            let error = PageSelector::parse(text).expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
