//! Random definitions that lose nothing in a conversion do the same.

use conformance::{CaseDefinition, observe_run};
use flowloom_core::plan::Format;
use flowloom_core::value::{Map, Value};
use flowloom_formats::{find_format, markdown};
use proptest::prelude::*;

use crate::is_same;
use crate::subjects::{Subject, map_inputs};

/// Whether a conversion without losses does the same; an error names the difference.
fn check_conversion(subject: &Subject, to: Format) -> Result<(), String> {
    let conversion = subject.convert(to);
    let Some(text) = &conversion.text else { return Ok(()) };
    let converted = subject.converted(to, text).compile();
    let Some(plan) = converted.plan else { return Err(format!("refused: {:?}\n{text}", converted.diagnostics)) };
    if conversion.has_losses() {
        return Ok(());
    }
    let inputs = &subject.definition.input;
    let before = observe_run(&subject.case, &subject.plan, inputs.clone());
    let after = observe_run(&subject.case, &plan, map_inputs(&subject.plan, &plan, inputs));
    if is_same(&before, &after) { Ok(()) } else { Err(format!("{before:#?}\n{after:#?}\n{text}")) }
}

fn random_subject(format: &str, definition: &Value, input: Value) -> Subject {
    let format = find_format(format).expect("a format");
    let text = flowloom_core::render::to_json(definition);
    let definition = CaseDefinition { input, ..CaseDefinition::new(format, "random.json", text) };
    let plan = definition.compile().plan.unwrap_or_else(|| panic!("{:?}", definition.compile().diagnostics));
    Subject { id: "random".into(), case: Map::new().into(), definition, plan }
}

/// Texts full of signs that mean something in one of the notations.
fn odd_text() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        "[a-c .,]{1,6}",
        r##"[ \n{}$<>`#*_\\\-=|\[\]():!&'"~+1]{1,5}"##,
        Just("REF(a)".to_owned()),
        Just("REF(b)".to_owned()),
        Just("REF(input)".to_owned()),
        Just("REF(iteration)".to_owned()),
        Just("REF(s1)".to_owned()),
        Just("REF(city)".to_owned()),
    ];
    let odd = prop::collection::vec(part, 1..7).prop_map(|parts| parts.concat());
    prop_oneof![odd, plain_text()]
}

/// Texts that no notation reads in another way.
fn plain_text() -> impl Strategy<Value = String> {
    let names = prop::sample::select(vec!["a", "b", "input", "iteration", "s1", "city"]);
    let part = prop_oneof!["[a-c]{0,2}", names.prop_map(|name| format!("REF({name})"))];
    prop::collection::vec(part, 1..3).prop_map(|parts| parts.join(" "))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_flows_do_the_same(
        texts in prop::collection::vec(odd_text(), 1..4),
        declared in prop::collection::vec((0..4usize, any::<bool>()), 0..4),
    ) {
        let step = |(index, text): (usize, &String)| {
            let text = text.replace("REF(", "${").replace(')', "}");
            let name = ["a", "b", "input"][index];
            let config = Value::map([("instruction", Value::from(text)), ("resultVariable", name.into())]);
            Value::map([("type", Value::from("llmInstruction")), ("config", config)])
        };
        let names: Vec<&str> = declared.iter().map(|(index, _)| ["a", "input", "iteration", "city"][*index]).collect();
        let row = |(name, (_, has_value)): (&&str, &(usize, bool))| {
            Value::map([("name", Value::from(*name)), ("value", if *has_value { "d" } else { "" }.into())])
        };
        let rows = Value::list(names.iter().zip(&declared).map(row).collect());
        let start = Value::map([("type", Value::from("start")), ("config", Value::map([("variables", rows)]))]);
        let steps = Value::list([start].into_iter().chain(texts.iter().enumerate().map(step)).collect());
        let inputs = names.iter().map(|name| ((*name).into(), Value::from("lamps"))).collect::<Map>();
        let flow = Value::map([("name", Value::from("n")), ("description", "d".into()), ("steps", steps)]);
        let subject = random_subject("flow", &flow, inputs.into());
        for to in ["steps", "markdown", "pipeline"] {
            let checked = check_conversion(&subject, find_format(to).expect("a format"));
            prop_assert!(checked.is_ok(), "{to}: {}", checked.unwrap_err());
        }
    }

    #[test]
    fn random_step_lists_do_the_same(rows in prop::collection::vec((odd_text(), 0..4u8, 0..7usize), 1..6)) {
        let step = |(index, (text, mode, named)): (usize, &(String, u8, usize))| {
            let text = text.replace("REF(", "{{").replace(')', "}}");
            let mode = ["sequential", "fanout", "conditional", "loop"][usize::from(*mode)];
            let mut step = Map::from_iter([
                ("name".into(), Value::from(format!("s{index}"))),
                ("functionId".into(), "agent::chat".into()),
                ("promptTemplate".into(), text.into()),
                ("mode".into(), mode.into()),
                ("errorMode".into(), "fail".into()),
            ]);
            match mode {
                "conditional" => drop(step.insert("condition".into(), "a".into())),
                "loop" => {
                    step.insert("until".into(), "LLM(LLM".into());
                    step.insert("maxIterations".into(), 3.into());
                }
                _ => {}
            }
            if let Some(name) = ["a", "b", "input", "iteration", "s1"].get(*named) {
                step.insert("outputVar".into(), (*name).into());
            }
            Value::from(step)
        };
        let steps = Value::list(rows.iter().enumerate().map(step).collect());
        let list = Value::map([("name", Value::from("n")), ("description", "d".into()), ("steps", steps)]);
        let subject = random_subject("steps", &list, "lamps".into());
        for to in ["flow", "markdown", "pipeline"] {
            let checked = check_conversion(&subject, find_format(to).expect("a format"));
            prop_assert!(checked.is_ok(), "{to}: {}", checked.unwrap_err());
        }
    }

    #[test]
    fn random_markdown_does_the_same(
        phases in prop::collection::vec((odd_text(), any::<bool>(), 0..4usize), 1..5),
        has_system in any::<bool>(),
    ) {
        let mut text = format!("---\ntitle: n\n{}input:\n  city: {{type: text}}\n---\n", if has_system { "" } else { "system: none\n" });
        for (index, (prompt, is_literal, named)) in phases.iter().enumerate() {
            let name = ["a", "b", "city2", "input"][(index + named) % 4];
            let prompt = match is_literal {
                true => {
                    let escaped = prompt.replace('\\', "\\\\").replace('`', "\\`").replace("${", "\\${");
                    format!("{{`{}`}}", escaped.replace("REF(", "${").replace(')', "}"))
                }
                false => prompt.replace(['{', '}', '<', '`', '\\'], "").replace("REF(", "{").replace(')', "}"),
            };
            text.push_str(&format!("\n---\n\n{prompt}\n\n<GenText as=\"{name}\" model=\"\" options={{{{ temperature: null }}}} />\n"));
        }
        let made = CaseDefinition::new(markdown::FORMAT, "random.mdx", text);
        let inputs = Value::map([("city", Value::from("lamps"))]);
        let definition = CaseDefinition { input: inputs, ..made };
        // Most names are not set yet, and some signs are mistakes.
        let Some(plan) = definition.compile().plan else { return Ok(()) };
        let subject = Subject { id: "random".into(), case: Map::new().into(), definition, plan };
        for to in ["flow", "steps", "pipeline"] {
            let checked = check_conversion(&subject, find_format(to).expect("a format"));
            prop_assert!(checked.is_ok(), "{to}: {}\n{}", checked.unwrap_err(), subject.definition.text());
        }
    }
}
