//! The canonical layout keeps the plan and the comments of every recorded case, of every example and of random
//! definitions, and is stable.

use std::path::{Path, PathBuf};

use conformance::{CaseDefinition, describe_plan, load_cases};
use flowloom_core::plan::Format;
use flowloom_formats::{Compiled, find_format, format_source};
use proptest::prelude::*;

fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Lays a definition out and holds the result to everything that a layout promises.
fn check_layout(definition: &CaseDefinition) -> Result<String, String> {
    let lay_out = |text: &str| format_source(definition.format, &definition.entry, text);
    let Ok(laid_out) = lay_out(definition.text()) else {
        let is_refused = definition.compile().plan.is_none();
        return if is_refused { Ok(String::new()) } else { Err("a valid definition is refused".to_owned()) };
    };
    let again = lay_out(&laid_out).map_err(|_| format!("the result does not parse:\n{laid_out}"))?;
    if again != laid_out {
        return Err(format!("not stable:\n{laid_out}\n---\n{again}"));
    }
    let (before, after) = (definition.compile(), definition.with_text(laid_out.clone()).compile());
    let text = |compiled: &Compiled| compiled.plan.as_ref().map(describe_plan);
    let codes = |compiled: &Compiled| {
        let mut codes: Vec<_> = compiled.diagnostics.iter().map(|found| (found.code, found.message.clone())).collect();
        codes.sort_by_key(|(code, message)| (format!("{code:?}"), message.clone()));
        codes
    };
    if text(&before) != text(&after) {
        return Err(format!(
            "another plan:\n{}\n---\n{laid_out}\n{:?}\n{:?}",
            definition.text(),
            text(&before),
            text(&after)
        ));
    }
    if before.plan.is_none() && codes(&before).len() != codes(&after).len() {
        return Err(format!("other problems: {:?}\n{:?}\n{laid_out}", codes(&before), codes(&after)));
    }
    Ok(laid_out)
}

#[test]
fn the_layout_of_every_case_keeps_its_plan() {
    let cases = load_cases(&[repository().join("tests/conformance")]).expect("readable");
    let mut failed = Vec::new();
    for case in &cases {
        for definition in case.definitions() {
            failed.extend(check_layout(&definition).err().map(|why| format!("{}: {why}", case.id)));
        }
    }
    assert!(failed.is_empty(), "{} failed\n{}", failed.len(), failed.join("\n"));
}

/// The definitions below a folder with their formats.
fn definitions_below(folder: &Path, out: &mut Vec<CaseDefinition>) {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            definitions_below(&path, out);
            continue;
        }
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        let name = path.strip_prefix(repository()).expect("inside").display().to_string();
        let made = CaseDefinition::new(find_format("flow").expect("a format"), &name, text);
        let detected = flowloom_formats::compile(&name, &made.sources(), None).format;
        out.extend(detected.map(|format| CaseDefinition { format, ..made.clone() }));
    }
}

#[test]
fn the_examples_are_in_the_canonical_layout_or_become_it() {
    let mut definitions = Vec::new();
    definitions_below(&repository().join("examples"), &mut definitions);
    assert!(definitions.len() > 20, "{}", definitions.len());
    let failed: Vec<String> = definitions
        .iter()
        .filter_map(|definition| check_layout(definition).err().map(|why| format!("{}: {why}", definition.entry)))
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

const MESSY_FLOW: &str = r#"// The weather of a city.
{ "steps": [ /* inputs */ {"config": {"variables": [{"value": 1.50, "name": "city"}]}, "type": "start"}, // first
    {"type": "llmInstruction", "config": {"directOutput": true, "instruction": "A \u0041 ${city}" /* asked */ },
     "custom": {"b": 1, "a": 2}},
  ], // no more steps
  "tags": ["x"], "name": "Weather"
}
// end
"#;

#[test]
fn comments_stay_where_they_are() {
    let flow = find_format("flow").expect("a format");
    let definition = CaseDefinition::new(flow, "flow.jsonc", MESSY_FLOW.to_owned());
    assert!(definition.compile().plan.is_some(), "{:?}", definition.compile().diagnostics);
    let laid_out = check_layout(&definition).unwrap_or_else(|why| panic!("{why}"));
    let expected = r#"// The weather of a city.
{
  "name": "Weather",
  "steps": [
    /* inputs */
    {
      "type": "start",
      "config": {
        "variables": [
          {"name": "city", "value": 1.50}
        ]
      }
    }, // first
    {
      "type": "llmInstruction",
      "config": {
        "instruction": "A \u0041 ${city}", /* asked */
        "directOutput": true
      },
      "custom": {"b": 1, "a": 2}
    }
  ], // no more steps
  "tags": ["x"]
}
// end
"#;
    assert_eq!(laid_out, expected);
}

#[test]
fn line_ends_stay_and_a_byte_order_mark_goes() {
    let flow = find_format("flow").expect("a format");
    let text = "\u{feff}{\"steps\": [],\r\n\"name\": \"a\"}\r\n";
    let laid_out = format_source(flow, "a.json", text).expect("valid");
    assert_eq!(laid_out, "{\r\n  \"name\": \"a\",\r\n  \"steps\": []\r\n}\r\n");
    let refused = format_source(flow, "a.json", "{\"steps\": [}").expect_err("not JSON");
    assert_eq!(refused.len(), 1, "{refused:?}");
}

const MESSY_PAGE: &str = "\n---\ninput:\n  # Asked first.\n  topic: {type: text}\n\ndata:\n  names: [a, b]\ntitle: T\n---\nWrite about {topic}.  \nTwo blanks above.\n\n\n\n> A comment.\n\n<GenText   as=\"a\"\n  model='openai:gpt-4o'   />\n***\n<Loop as=\"all\" until={$.index >= names.length} max={5} provide={{ name: names[$.index], topic: topic, others: names, all: names }}>\n\n  Hi {name}.\n\n\n  - one\n  - two\n\n  <GenText as=\"g\" model=\"openai:gpt-4o\"/>\n\n</Loop>\n\n\n";

#[test]
fn markdown_is_laid_out_around_its_text() {
    let format = find_format("markdown").expect("a format");
    let definition = CaseDefinition::new(format, "main.mdx", MESSY_PAGE.trim_start().to_owned());
    let laid_out = check_layout(&definition).unwrap_or_else(|why| panic!("{why}"));
    let expected = "---\ntitle: T\ndata:\n  names: [a, b]\ninput:\n  # Asked first.\n  topic: {type: text}\n---\n\n\
                    Write about {topic}.  \nTwo blanks above.\n\n> A comment.\n\n\
                    <GenText as=\"a\" model='openai:gpt-4o' />\n\n***\n\n\
                    <Loop\n  as=\"all\"\n  until={$.index >= names.length}\n  max={5}\n  \
                    provide={{ name: names[$.index], topic: topic, others: names, all: names }}\n>\n  Hi {name}.\n\n  - one\n  - two\n\n  \
                    <GenText as=\"g\" model=\"openai:gpt-4o\" />\n</Loop>\n";
    assert_eq!(laid_out, expected);
}

/// The same workflow, indented in three ways.
#[test]
fn what_is_in_actions_has_one_indentation() {
    let page = |loop_indent: &str, inside: &str, deep: &str| {
        format!(
            "{loop_indent}<Loop as=\"all\" until={{$.index >= 2}} max={{2}}>\n\
             {inside}> A comment\n{deep}> of two lines.\n\n\
             {inside}Hello.\n\n\
             {inside}<Cond as=\"c\" if={{1 > 0}}>\n\n\
             {deep}Two lines,\n     of which one is indented.\n\n\
             {deep}<GenText\n as=\"g\"   model=\"openai:gpt-4o\"/>\n\
             {inside}<Else>\n{inside}# No\n{deep}</Else>\n{inside}{inside}</Cond>\n{deep}</Loop>\n"
        )
    };
    let format = find_format("markdown").expect("a format");
    let expected = "<Loop as=\"all\" until={$.index >= 2} max={2}>\n  > A comment\n  > of two lines.\n\n  Hello.\n\n  \
                    <Cond as=\"c\" if={1 > 0}>\nDEEPTwo lines,\n     of which one is indented.\n\n    \
                    <GenText as=\"g\" model=\"openai:gpt-4o\" />\n\n    <Else>\n      # No\n    </Else>\n  </Cond>\n</Loop>\n";
    for (loop_indent, inside, deep) in [("", "", ""), ("", "    ", "        "), (" ", "\t", "  "), ("", "  ", "    ")] {
        let definition = CaseDefinition::new(format, "main.mdx", page(loop_indent, inside, deep));
        assert!(definition.compile().plan.is_some(), "{:?}", definition.compile().diagnostics);
        let laid_out = check_layout(&definition).unwrap_or_else(|why| panic!("{why}"));
        // Text of several lines stays where it is.
        assert_eq!(laid_out, expected.replace("DEEP", deep));
    }
}

/// An action that would become a part of the list above it stays where it is.
#[test]
fn what_follows_a_list_does_not_move_into_it() {
    let format = find_format("markdown").expect("a format");
    let text =
        "<Loop as=\"all\" until={$.index >= 2} max={2}>\n- one\n- two\n\n<GenText as=\"g\" model=\"m\" />\n</Loop>\n";
    let definition = CaseDefinition::new(format, "main.mdx", text.to_owned());
    assert_eq!(check_layout(&definition).as_deref(), Ok(text));
}

/// A random JSON value, as text with random white space.
fn json_text() -> impl Strategy<Value = String> {
    let scalar = prop_oneof![
        Just("null".to_owned()),
        Just("-0.0".to_owned()),
        Just("1E+2".to_owned()),
        Just("12345678901234567890".to_owned()),
        "\"[a-zé /*,:{}]{0,8}\"",
        Just(r#""\u00e9\n\"//""#.to_owned()),
    ];
    scalar.prop_recursive(4, 24, 4, |inner| {
        let gap = prop_oneof![Just(""), Just(" "), Just("\n\t"), Just("\r\n")];
        let list = (prop::collection::vec(inner.clone(), 0..4), gap.clone())
            .prop_map(|(items, gap)| format!("[{gap}{}]", items.join(&format!(",{gap}"))));
        let entry = ("[a-c]{1,2}", inner).prop_map(|(key, value)| format!("\"{key}\":{value}"));
        let map = (prop::collection::vec(entry, 0..4), gap)
            .prop_map(|(items, gap)| format!("{{{}{gap}}}", items.join(&format!("{gap},{gap}"))));
        prop_oneof![list, map]
    })
}

fn flow_text() -> impl Strategy<Value = String> {
    let step = prop_oneof![
        ("[a-z ${}]{0,9}", json_text(), any::<bool>()).prop_map(|(text, free, direct)| format!(
            r#"{{"config":{{"directOutput":{direct},"instruction":"{text}","x":{free}}},"type":"llmInstruction"}}"#
        )),
        json_text().prop_map(|body| format!(
            r#"{{"config":{{"body":{body},"url":"http://a/","method":"POST"}} , "type":"apiCall"}}"#
        )),
        json_text().prop_map(|value| format!(
            r#"{{"type":"start","config":{{"variables":[{{"value":{value},"name":"a"}}]}}}}"#
        )),
    ];
    let comment = prop_oneof![Just(String::new()), Just("// é: \"{\n".to_owned()), Just("/* a\n b */".to_owned())];
    let steps = prop::collection::vec((step, comment.clone()), 0..4);
    (steps, comment, json_text()).prop_map(|(steps, comment, free)| {
        let steps: Vec<String> = steps.into_iter().map(|(step, comment)| format!("{comment}{step}{comment}")).collect();
        format!(r#"{{"steps":[{}],{comment}"extra":{free},"name":"n"{comment}}}{comment}"#, steps.join(","))
    })
}

/// Comments of a JSON text, without the white space in them.
fn count_comments(text: &str) -> usize {
    let text = text.replace("\r\n", "\n");
    text.matches("// é: \"{").count() + text.matches("/* a\n b */").count()
}

fn page_text() -> impl Strategy<Value = String> {
    let block = prop_oneof![
        "[a-z.{}]{0,3} [a-z*_`#>-]{0,9}  \n[a-z]{0,5}",
        Just("- a\n-  b\n\n  c".to_owned()),
        Just("> note\n> more".to_owned()),
        Just("> note\nlazy".to_owned()),
        Just("---".to_owned()),
        Just("***".to_owned()),
        Just("```\n\n\n<GenText />\n```".to_owned()),
        Just("<GenText  as=\"a1\"\n model=\"m:x\"/>".to_owned()),
        Just("<Cond as=\"c\"   if={ 1 >  0 }>\n\n text  \n\n\n> note\n\n- x\n</Cond>".to_owned()),
        Just("<Note  a=\"b\">\n\n\n  text\n</Note>".to_owned()),
        Just("{[1,\n\n\n2].join('')}".to_owned()),
    ];
    let gap = || prop_oneof![Just("\n"), Just("\n\n"), Just("\n\n\n"), Just("\n  \n\n")];
    let indent = || prop_oneof![3 => Just(""), 1 => Just(" "), 2 => Just("  "), 1 => Just("    "), 1 => Just("\t")];
    let join = |blocks: Vec<(&str, String, &str)>| -> String {
        blocks.into_iter().map(|(indent, block, gap)| format!("{indent}{block}{gap}")).collect()
    };
    let block = block.prop_recursive(3, 24, 4, move |inner| {
        let inside = prop::collection::vec((indent(), inner, gap()), 1..4).prop_map(join);
        let tag = prop_oneof![
            Just(("<Loop as=\"l\" until={ 1 > 0} max={2}>", "</Loop>")),
            Just(("<Cond as=\"k\" if={1 > 0}>", "</Cond>")),
            Just(("<Cond as=\"k\" if={1 > 0}>\nYes.\n<Else>", "</Else>\n</Cond>")),
        ];
        (tag, inside, indent()).prop_map(|((open, close), inside, indent)| format!("{open}\n{inside}{indent}{close}"))
    });
    prop::collection::vec((indent(), block, gap()), 1..7).prop_map(join)
}

fn check_random(format: Format, entry: &str, text: &str) -> Result<String, TestCaseError> {
    check_layout(&CaseDefinition::new(format, entry, text.to_owned())).map_err(TestCaseError::fail)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn random_flows_keep_their_plans_and_comments(text in flow_text()) {
        let laid_out = check_random(find_format("flow").expect("a format"), "flow.jsonc", &text)?;
        prop_assert!(laid_out.is_empty() || count_comments(&laid_out) == count_comments(&text), "{text}\n---\n{laid_out}");
    }

    #[test]
    fn random_pages_keep_their_plans(text in page_text()) {
        let laid_out = check_random(find_format("markdown").expect("a format"), "main.mdx", &text)?;
        prop_assert!(laid_out.is_empty() || laid_out.matches("note").count() == text.matches("note").count());
    }
}
