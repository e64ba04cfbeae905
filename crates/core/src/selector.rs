//! Selectors of elements of a web page: CSS, with the extensions of jQuery that people use: `:contains("text")`,
//! `:first`, `:last`, `:eq(n)`, `:gt(n)`, `:lt(n)`, `:even`, `:odd` and `[name!=value]`.
//!
//! The positions count all elements that the selector has found so far, unlike CSS's `:first-child`. A selector is
//! therefore a list of steps, each of which narrows or follows what the previous one found.

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
    /// The error of a selector.
    pub fn new(selector: &str, problem: impl Into<String>) -> SelectorError {
        SelectorError { selector: selector.to_owned(), problem: problem.into() }
    }
}

impl PageSelector {
    /// Parses a selector. The parts of plain CSS are not checked; see [`PageSelector::css_parts`].
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
        let mut reader = SelectorReader { text, at: 0 };
        let mut alternatives = Vec::new();
        loop {
            let alternative = reader.read_alternative().map_err(|problem| SelectorError::new(text, problem))?;
            alternatives.push(alternative);
            if !reader.skip(',') {
                return Ok(PageSelector { alternatives });
            }
        }
    }

    /// The parts that are plain CSS.
    pub fn css_parts(&self) -> impl Iterator<Item = &str> {
        self.alternatives.iter().flat_map(|alternative| match alternative {
            Alternative::Css(css) => vec![css.as_str()],
            Alternative::Steps(steps) => steps
                .iter()
                .filter_map(|step| match step {
                    SelectorStep::Follow(_, css) | SelectorStep::Match(css) => Some(css.as_str()),
                    _ => None,
                })
                .collect(),
        })
    }
}

struct SelectorReader<'a> {
    text: &'a str,
    at: usize,
}

impl SelectorReader<'_> {
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
            let css = self.read_css(&mut has_extension)?;
            let is_bare = css.is_empty() && self.peek() == Some(':');
            if css.is_empty() && !is_bare {
                return Err("a part of it is missing".to_owned());
            }
            steps.push(SelectorStep::Follow(
                relation.unwrap_or(Relation::Descendant),
                if is_bare { "*".into() } else { css },
            ));
            while let Some(extension) = self.read_extension()? {
                steps.push(extension);
                has_extension = true;
                let css = self.read_css(&mut has_extension)?;
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

    /// Reads plain CSS up to an extension, a combinator or a comma. `[a!=b]` becomes plain CSS.
    fn read_css(&mut self, has_extension: &mut bool) -> Result<String, String> {
        let mut css = String::new();
        while let Some(next) = self.peek() {
            match next {
                ' ' | '\t' | '\n' | '\r' | '\u{c}' | '>' | '+' | '~' | ',' => break,
                ':' if self.extension_name().is_some() => break,
                '[' => css.push_str(&self.read_attribute(has_extension)?),
                '(' => css.push_str(self.read_balanced('(', ')')?),
                '\\' => css.extend(self.next().into_iter().chain(self.next())),
                ':' => {
                    // A pseudo-element has two colons.
                    css.extend(self.next());
                    css.extend(self.peek().filter(|next| *next == ':').and_then(|_| self.next()));
                }
                _ => css.extend(self.next()),
            }
        }
        Ok(css)
    }

    /// The extension that starts here, with its length.
    fn extension_name(&self) -> Option<&'static str> {
        const NAMES: [&str; 8] = ["contains", "first", "last", "eq", "gt", "lt", "even", "odd"];
        let rest = self.text[self.at..].strip_prefix(':')?;
        let length =
            rest.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')).count();
        NAMES.into_iter().find(|name| *name == &rest[..length])
    }

    fn read_extension(&mut self) -> Result<Option<SelectorStep>, String> {
        let Some(name) = self.extension_name() else { return Ok(None) };
        self.at += 1 + name.len();
        let argument = if self.peek() == Some('(') { Some(self.read_balanced('(', ')')?) } else { None };
        let argument = argument.map(|text| text[1..text.len() - 1].trim());
        let position = || {
            let number = argument.and_then(|text| text.parse::<i64>().ok());
            number.ok_or_else(|| format!(":{name} needs a position, for example :{name}(0)"))
        };
        Ok(Some(match name {
            "first" => SelectorStep::At(0),
            "last" => SelectorStep::At(-1),
            "eq" => SelectorStep::At(position()?),
            "gt" => SelectorStep::After(position()?),
            "lt" => SelectorStep::Before(position()?),
            "contains" => match argument.map(unquote) {
                Some(text) => SelectorStep::Contains(text),
                None => return Err(":contains needs a text, for example :contains(\"sold out\")".to_owned()),
            },
            name => SelectorStep::Even(name == "even"),
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
    fn read_balanced(&mut self, open: char, close: char) -> Result<&str, String> {
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
    }

    #[test]
    fn what_is_missing_is_named() {
        for (text, part) in [
            ("p[[", "[ is not closed"),
            ("p:eq", "position"),
            ("p:contains", "text"),
            ("p,", "missing"),
            ("p:eq(x)", "position"),
        ] {
            let error = PageSelector::parse(text).expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
