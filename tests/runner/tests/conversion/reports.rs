//! What reports say: nothing is lost where the result does the same, findings are at their places, and reasons are true.

use conformance::CaseDefinition;
use flowloom_convert::{Conversion, Fate};
use flowloom_formats::find_format;

use crate::subjects::{Subject, specimens};

/// Definitions that lose nothing, each with the formats in which they do the same.
const LOSSLESS: [(&str, &[&str]); 6] = [
    ("fanout-alone.steps.json", &["flow", "markdown", "pipeline"]),
    ("fanout-input.steps.json", &["flow", "markdown"]),
    ("fanout-values.steps.json", &["flow", "markdown"]),
    ("iteration.steps.json", &["markdown"]),
    ("declared-twice.flow.json", &["markdown"]),
    ("template-literal.markdown.mdx", &["flow", "steps"]),
];

fn list_messages(conversion: &Conversion, fate: Fate) -> Vec<&str> {
    let found = conversion.findings.iter().filter(|finding| finding.fate == fate);
    found.map(|finding| finding.message.as_str()).collect()
}

#[test]
fn what_does_the_same_loses_nothing() {
    let subjects = specimens();
    for (id, targets) in LOSSLESS {
        let subject = subjects.iter().find(|subject| subject.id == id).expect("a definition");
        for to in targets {
            let conversion = subject.convert(find_format(to).expect("a format"));
            assert_eq!(list_messages(&conversion, Fate::Lost), Vec::<&str>::new(), "{id} to {to}");
        }
    }
}

/// Each input of a definition is reported at its row, not at the start of the definition.
#[test]
fn findings_about_inputs_are_at_their_rows() {
    let cases = [
        ("inputs.flow.json", &["markdown", "steps", "pipeline", "graph"][..]),
        ("template-literal.markdown.mdx", &["flow", "steps", "pipeline", "agent"]),
    ];
    let subjects = specimens();
    for (id, targets) in cases {
        let subject = subjects.iter().find(|subject| subject.id == id).expect("a definition");
        for to in targets {
            let conversion = subject.convert(find_format(to).expect("a format"));
            let mut found = 0;
            for finding in &conversion.findings {
                let is_about_input =
                    |message: &&str| message.starts_with("the input ") || message.contains(" the input ");
                let Some(message) = Some(finding.message.as_str()).filter(is_about_input) else { continue };
                let row = &subject.definition.text()[finding.span.start..finding.span.end()];
                let is_named = message.split([' ', ':', ',']).any(|word| word.len() > 2 && row.contains(word));
                found += usize::from(is_named);
                assert!(is_named, "{id} to {to}: {message:?} is at {row:?}");
            }
            assert!(found > 0, "{id} to {to}: {:#?}", conversion.findings);
        }
    }
}

/// A subject that calls the configured function `shop::find`.
fn read_subject(format: &str, file: &str, text: &str) -> Subject {
    let made = CaseDefinition::new(find_format(format).expect("a format"), file, text.to_owned());
    let definition = CaseDefinition { functions: vec!["shop::find".to_owned()], ..made };
    let plan = definition.compile().plan.unwrap_or_else(|| panic!("{:?}", definition.compile().diagnostics));
    Subject { id: file.into(), case: flowloom_core::value::Map::new().into(), definition, plan }
}

#[test]
fn a_configured_function_does_not_get_the_arguments_of_a_step() {
    let text = "---\ntitle: Shop\n---\n\n<ShopFind as=\"found\" query=\"x\" max={3} />\n";
    let subject = read_subject("markdown", "shop.mdx", text);
    let conversion = subject.convert(find_format("steps").expect("a format"));
    let lost = list_messages(&conversion, Fate::Lost);
    assert!(lost.iter().any(|message| message.contains("an endpoint gets this prompt and all variables")), "{lost:?}");
    assert!(!lost.iter().any(|message| message.contains("quotes")), "{lost:?}");
}

/// What an argument says is no reference in the result.
#[test]
fn constant_arguments_that_look_like_references_are_reported() {
    let text = "---\ntitle: Shop\n---\n\n<ShopFind as=\"found\" query=\"{{input}}\" />\n";
    let subject = read_subject("markdown", "shop.mdx", text);
    let conversion = subject.convert(find_format("steps").expect("a format"));
    let lost = list_messages(&conversion, Fate::Lost);
    assert!(lost.iter().any(|message| message.contains("looks like a reference here")), "{lost:?}");
}
