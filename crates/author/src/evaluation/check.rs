//! Checks of a dry run: required and forbidden texts, numbers and their order, and where they occur.

use flowloom_core::render::{self, TextStyle};
use flowloom_core::value::Value;
use serde::{Deserialize, Serialize};

use crate::dry_run::{DryRun, NodeReport, NodeStatus};

/// Absolute tolerance for numbers.
const NUMBER_TOLERANCE: f64 = 0.0051;

/// An expectation. All of its parts must hold in the same scope.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Check {
    /// The scope of the check.
    #[serde(rename = "in")]
    pub place: CheckScope,
    /// Texts that must occur, ignoring case (like all texts here except `exactly`).
    pub contains: Vec<String>,
    /// Texts that must occur with the same case.
    pub exactly: Vec<String>,
    /// Texts that must occur exactly once.
    pub once: Vec<String>,
    /// Texts of which at least one must occur.
    pub any_of: Vec<String>,
    /// Texts that must not occur; pointless in a scope that may be empty.
    pub lacks: Vec<String>,
    /// Texts that must occur in this order.
    pub in_order: Vec<String>,
    /// Numbers that must occur, as values or within texts.
    pub numbers: Vec<f64>,
    /// Blocks of which at least one must have run.
    pub uses: Vec<String>,
}

/// The part of a run that a check applies to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckScope {
    /// Everything that the run produced: outputs of blocks, arguments of mocked calls, and memory writes.
    #[default]
    Anywhere,
    /// The end of the run: nodes on which no other node depends, and memory writes.
    End,
    /// Notifications.
    Notification,
    /// Memory writes, including the keys.
    Memory,
}

impl Check {
    /// Whether the check holds. A node that failed contributes nothing.
    pub fn is_met(&self, dry_run: &DryRun) -> bool {
        let texts = self.place.collect_texts(dry_run);
        let whole = texts.join(" ");
        let exact = |text: &String| whole.contains(&normalize_spaces(text));
        let texts: Vec<String> = texts.iter().map(|text| normalize_text(text)).collect();
        let whole = texts.join(" ");
        let has = |text: &String| whole.contains(&normalize_text(text));
        let is_there = !texts.is_empty() || self.lacks.is_empty();
        let is_used =
            |id: &String| dry_run.nodes.iter().any(|node| node.block_id == *id && node.status == NodeStatus::Completed);
        is_there
            && self.contains.iter().all(has)
            && self.exactly.iter().all(exact)
            && self.once.iter().all(|text| whole.matches(&normalize_text(text)).count() == 1)
            && (self.any_of.is_empty() || self.any_of.iter().any(has))
            && !self.lacks.iter().any(has)
            && (self.in_order.is_empty() || texts.iter().any(|text| are_in_order(text, &self.in_order)))
            && self.has_numbers(&whole)
            && (self.uses.is_empty() || self.uses.iter().any(is_used))
    }

    fn has_numbers(&self, whole: &str) -> bool {
        let found = if self.numbers.is_empty() { Vec::new() } else { parse_numbers(whole) };
        self.numbers.iter().all(|wanted| found.iter().any(|number| (number - wanted).abs() < NUMBER_TOLERANCE))
    }

    /// A description of the check.
    pub fn describe_check(&self) -> String {
        let place = match self.place {
            CheckScope::Anywhere => "",
            CheckScope::End => "at the end: ",
            CheckScope::Notification => "in a notification: ",
            CheckScope::Memory => "in the memory: ",
        };
        let list = |texts: &[String]| texts.iter().map(|text| format!("{text:?}")).collect::<Vec<_>>().join(", ");
        let lists = [
            ("", &self.contains),
            ("exactly ", &self.exactly),
            ("once ", &self.once),
            ("one of ", &self.any_of),
            ("not ", &self.lacks),
            ("in order ", &self.in_order),
        ];
        let lists = lists.into_iter().filter(|(_, texts)| !texts.is_empty());
        let mut parts: Vec<String> = lists.map(|(what, texts)| format!("{what}{}", list(texts))).collect();
        parts.extend(self.numbers.iter().map(|number| format!("the number {number}")));
        if !self.uses.is_empty() {
            parts.push(format!("the block {} is used", self.uses.join(" or ")));
        }
        format!("{place}{}", parts.join("; "))
    }
}

impl CheckScope {
    /// The texts in the scope, one for each node, notification or key.
    fn collect_texts(self, dry_run: &DryRun) -> Vec<String> {
        let memory =
            || dry_run.memory.iter().map(|write| format!("{} {}", write.key, flatten_values(write.value.iter())));
        let notifications =
            dry_run.notifications.iter().map(|notification| flatten_values(std::iter::once(notification)));
        let of = |nodes: &mut dyn Iterator<Item = &NodeReport>| {
            nodes.map(|node| flatten_values(produced_values(node))).collect::<Vec<_>>()
        };
        let texts: Vec<String> = match self {
            CheckScope::Anywhere => of(&mut dry_run.nodes.iter()).into_iter().chain(memory()).collect(),
            CheckScope::End => {
                let is_last =
                    |node: &&NodeReport| !dry_run.nodes.iter().any(|other| other.needs.contains(&node.node_id));
                of(&mut dry_run.nodes.iter().filter(is_last)).into_iter().chain(memory()).collect()
            }
            CheckScope::Notification => notifications.collect(),
            CheckScope::Memory => memory().collect(),
        };
        texts.iter().map(|text| normalize_spaces(text)).filter(|text| !text.is_empty()).collect()
    }
}

/// The values that a node produced: its output, or its arguments if it was mocked.
fn produced_values(node: &NodeReport) -> impl Iterator<Item = &Value> {
    let made = if node.mocked.is_some() { &node.inputs } else { &node.output };
    made.iter().filter(|_| node.status == NodeStatus::Completed)
}

/// All keys and values of the data as one text, without its structure.
fn flatten_values<'a>(values: impl Iterator<Item = &'a Value>) -> String {
    let mut text = String::new();
    values.for_each(|value| append_value(value, &mut text));
    text
}

fn append_value(value: &Value, text: &mut String) {
    match value {
        Value::List(items) => items.iter().for_each(|item| append_value(item, text)),
        Value::Map(map) => map.iter().for_each(|(key, item)| {
            text.push_str(&format!("{key} "));
            append_value(item, text);
        }),
        Value::Null => {}
        value => text.push_str(&format!("{} ", render::render_text(value, TextStyle::Json))),
    }
}

/// The text with single spaces.
fn normalize_spaces(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The text in lower case, with single spaces.
fn normalize_text(text: &str) -> String {
    normalize_spaces(&text.to_lowercase())
}

fn are_in_order(text: &str, parts: &[String]) -> bool {
    let mut rest = text;
    parts.iter().all(|part| {
        let part = normalize_text(part);
        let found = rest.find(&part);
        rest = found.map_or("", |at| &rest[at + part.len()..]);
        found.is_some()
    })
}

/// The numbers in a text; thousands separators (commas) are ignored.
fn parse_numbers(text: &str) -> Vec<f64> {
    let is_part = |letter: char| letter.is_ascii_digit() || letter == '.' || letter == ',' || letter == '-';
    let words = text.split(|letter| !is_part(letter));
    words
        .filter_map(|word| {
            word.trim_end_matches(['.', ',', '-']).trim_start_matches(['.', ',']).replace(',', "").parse().ok()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use flowloom_core::json::parse_value;

    /// A run of three nodes: one reads, one computes with the result, one sends a notification.
    fn test_dry_run() -> DryRun {
        let text = r#"{"nodes":[
            {"node_id":"n1","block_id":"web_scrape","needs":[],"status":"completed","inputs":{"url":"https://x"},"output":{"content":"SECRET page"},"mocked":"fixture"},
            {"node_id":"n2","block_id":"sums","needs":["n1"],"status":"completed","output":{"total":1234.5,"names":["Zoe","adam"]}},
            {"node_id":"n3","block_id":"notify_push","needs":["n2"],"status":"completed","inputs":{"title":"Sum","body":"The total\nis 1,234.50 EUR"},"output":{"delivered":true},"mocked":"example"}],
            "notifications":[{"title":"Sum","body":"The total\nis 1,234.50 EUR"}],
            "memory":[{"key":"last","value":{"n":7}}],"usage":{}}"#;
        serde_json::from_str(text).expect("a rehearsal")
    }

    fn check_is_met(check: &str) -> bool {
        serde_json::from_str::<Check>(check).expect("a check").is_met(&test_dry_run())
    }

    #[test]
    fn words_and_numbers_are_found_where_they_must_be() {
        for check in [
            r#"{"contains":["zoe","ADAM"],"exactly":["Zoe","adam"]}"#,
            r#"{"in":"notification","contains":["total is"],"numbers":[1234.5]}"#,
            r#"{"in":"memory","contains":["last"],"numbers":[7]}"#,
            r#"{"any_of":["nobody","adam"],"once":["zoe"]}"#,
            r#"{"in_order":["zoe","adam"]}"#,
            r#"{"in":"end","lacks":["adam"]}"#,
            r#"{"uses":["http_request","web_scrape"]}"#,
        ] {
            assert!(check_is_met(check), "{check}");
        }
    }

    #[test]
    fn what_is_not_so_does_not_pass() {
        for check in [
            r#"{"contains":["zoe","eve"]}"#,
            r#"{"contains":["SECRET"]}"#,
            r#"{"exactly":["zoe"]}"#,
            r#"{"in":"notification","contains":["zoe"]}"#,
            r#"{"in":"end","numbers":[1234.4]}"#,
            r#"{"in":"memory","numbers":[1234.5]}"#,
            r#"{"any_of":["nobody","eve"]}"#,
            r#"{"once":["eve"]}"#,
            r#"{"once":["total"]}"#,
            r#"{"in_order":["adam","zoe"]}"#,
            r#"{"in_order":["zoe","zoe"]}"#,
            r#"{"lacks":["adam"]}"#,
            r#"{"uses":["web_search"]}"#,
        ] {
            assert!(!check_is_met(check), "{check}");
        }
        let failed = test_dry_run();
        let nodes = failed.nodes.into_iter().map(|node| NodeReport { status: NodeStatus::Failed, ..node }).collect();
        let failed = DryRun { nodes, notifications: Vec::new(), memory: Vec::new(), ..test_dry_run() };
        let lacks = Check { lacks: vec!["x".to_owned()], ..Check::default() };
        assert!(!lacks.is_met(&failed), "where there is nothing, nothing is right either");
    }

    #[test]
    fn a_check_says_what_it_wants() {
        let check: Check =
            serde_json::from_str(r#"{"in":"end","contains":["a"],"lacks":["b"],"numbers":[2],"uses":["v","w"]}"#)
                .expect("a check");
        assert_eq!(check.describe_check(), "at the end: \"a\"; not \"b\"; the number 2; the block v or w is used");
        assert!(serde_json::from_str::<Check>(r#"{"includes":["a"]}"#).is_err(), "a slip of the pen is no check");
    }

    #[test]
    fn numbers_are_read_out_of_texts() {
        assert_eq!(parse_numbers("1,234.50 eur, -3 and 2024-05-06."), [1234.5, -3.0]);
        assert_eq!(parse_numbers("no 7."), [7.0]);
    }

    proptest::proptest! {
        #[test]
        fn a_number_that_is_not_there_is_not_found(number in -1e6f64..1e6, other in -1e6f64..1e6) {
            let text = format!("the sum is {number:.2} today");
            proptest::prop_assert!(parse_numbers(&text).iter().any(|found| (found - number).abs() < NUMBER_TOLERANCE));
            let is_near = (number - other).abs() < 2.0 * NUMBER_TOLERANCE;
            proptest::prop_assert!(is_near || !parse_numbers(&text).iter().any(|found| (found - other).abs() < NUMBER_TOLERANCE));
        }

        #[test]
        fn no_text_panics(text in ".{0,60}") {
            let _ = parse_numbers(&text);
            let _ = are_in_order(&normalize_text(&text), &["a".to_owned(), "é".to_owned()]);
            let _ = parse_value(&text).map(|value| flatten_values(std::iter::once(&value)));
        }
    }
}
