//! Conversions of every recorded case and every example: constructs reported as kept are kept, the result is valid, the
//! way back gives the same plan, and the table of the documentation is up to date.

mod kept;
mod random;
mod reports;
mod subjects;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use conformance::{CaseDefinition, Observation, describe_plan, observe_run};
use flowloom_convert::{Conversion, ConversionSource, Fate, Finding, convert_definition};
use flowloom_core::diagnostic::Span;
use flowloom_core::expr::{Data, TemplatePart};
use flowloom_core::plan::{Format, Leaf, Plan, Step, StepKind};
use flowloom_core::value::Value;
use flowloom_formats::StopFlag;
use flowloom_formats::{find_format, formats, is_found_definition, markdown};
use subjects::{
    Subject, all_subjects, has_missing_answer, has_plain_inputs, map_inputs, repository, specimens, subjects,
};

/// Set to write the table of `docs/convert.md`.
const UPDATE_VARIABLE: &str = "FLOWLOOM_UPDATE_TABLE";

/// The constant parts of what the model calls of a step say.
fn list_constant_texts(plan: &Plan, span: Span) -> Vec<String> {
    let mut texts = Vec::new();
    plan.root.visit(&mut |step| {
        let StepKind::Leaf(Leaf::Generate(generate)) = &step.kind else { return };
        let templates = generate.messages.iter().filter_map(|(_, data)| match data {
            Data::Text(template) if step.span == span => Some(template),
            _ => None,
        });
        let constant = |part: &TemplatePart| match part {
            TemplatePart::Text(text) => Some(text.to_string()),
            _ => None,
        };
        texts.extend(templates.flat_map(|template| &template.parts).filter_map(constant));
    });
    texts
}

/// A part of a step that is reported as kept is in the result, whatever is lost.
#[test]
fn the_parts_that_are_kept_are_in_the_result() {
    let (mut failed, mut checked) = (Vec::new(), 0);
    for subject in all_subjects() {
        for to in formats().filter(|to| *to != subject.plan.format) {
            let conversion = subject.convert(to);
            let Some(text) = &conversion.text else { continue };
            let Some(plan) = subject.converted(to, text).compile().plan else { continue };
            let described = format!("{plan:?}");
            for finding in conversion.findings.iter().filter(|finding| finding.construct == "text") {
                for part in list_constant_texts(&subject.plan, finding.span) {
                    checked += 1;
                    // Signs and white space can be written in other ways.
                    let mut words = part.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
                    if let Some(missing) = words.find(|word| !described.contains(word)) {
                        failed.push(format!("{} to {to}: {}: {missing}", subject.id, finding.message));
                    }
                }
            }
        }
    }
    assert!(checked > 0 && failed.is_empty(), "{checked} checked\n{}", failed.join("\n"));
}

#[test]
fn every_definition_is_one_where_it_is_found() {
    let is_found = |subject: &Subject| {
        let text = subject.definition.text();
        let functions: Vec<&str> = subject.definition.functions.iter().map(String::as_str).collect();
        match subject.plan.format {
            // A text without an action is a workflow only where nothing includes it.
            markdown::FORMAT => {
                let acts = subject.plan.root.kind.child_steps().iter().any(|step| has_leaf(step));
                !acts || markdown::has_action(text, &functions, &[])
            }
            _ => is_found_definition(&subject.definition.entry, text),
        }
    };
    let lost: Vec<String> =
        all_subjects().into_iter().filter(|subject| !is_found(subject)).map(|lost| lost.id).collect();
    assert!(lost.is_empty(), "{lost:?}");
}

fn has_leaf(step: &Step) -> bool {
    step.kind.is_leaf() || step.kind.child_steps().into_iter().any(has_leaf)
}

#[test]
fn every_result_is_valid() {
    let mut failed = Vec::new();
    for subject in all_subjects() {
        for to in formats() {
            let Some(text) = subject.convert(to).text else { continue };
            if to == subject.plan.format {
                continue;
            }
            let compiled = subject.converted(to, &text).compile();
            if compiled.plan.is_none() {
                failed.push(format!("{} to {to}: {:?}\n{text}", subject.id, compiled.diagnostics));
            }
        }
    }
    assert!(failed.is_empty(), "{} failed\n{}", failed.len(), failed.join("\n"));
}

#[test]
fn what_is_not_lost_is_the_same() {
    let mut failed = Vec::new();
    let mut compared = 0;
    for subject in all_subjects() {
        let inputs = &subject.definition.input;
        for to in formats().filter(|to| *to != subject.plan.format) {
            let conversion = subject.convert(to);
            let Some(text) = conversion.text.as_ref().filter(|_| !conversion.has_losses()) else { continue };
            let Some(plan) = subject.converted(to, text).compile().plan else { continue };
            if !has_plain_inputs(&subject.plan, inputs) || has_missing_answer(&subject.case) {
                let is_reported = conversion.findings.iter().any(|found| found.fate == Fate::Differently);
                assert!(is_reported, "{} to {to} says nothing of inputs and answers", subject.id);
                continue;
            }
            let run = |plan: &Plan, inputs: Value| observe_run(&subject.case, plan, inputs);
            let before = run(&subject.plan, inputs.clone());
            let after = run(&plan, map_inputs(&subject.plan, &plan, inputs));
            compared += 1;
            if before.is_none() || !is_same(&before, &after) {
                failed.push(format!("{} to {to}:\n{before:#?}\n{after:#?}\n{text}", subject.id));
            }
        }
    }
    assert!(failed.is_empty(), "{} of {compared} failed\n{}", failed.len(), failed.join("\n"));
    assert!(compared >= MIN_COMPARED, "only {compared} conversions without losses were compared");
}

/// A lower bound for the number of compared runs, so that the comparison does not become empty unnoticed.
const MIN_COMPARED: usize = 5;

/// Whether two runs did the same. The answer of a run that failed is not compared.
fn is_same(before: &Option<Observation>, after: &Option<Observation>) -> bool {
    let (Some(before), Some(after)) = (before, after) else { return before == after };
    let is_failed = before.status != flowloom_core::status::Status::Succeeded;
    before.status == after.status
        && before.model_calls == after.model_calls
        && before.requests == after.requests
        && (is_failed || before.answer == after.answer)
}

#[test]
fn the_way_back_gives_the_same_plan_if_everything_was_kept() {
    let mut failed = Vec::new();
    let mut compared = 0;
    for subject in all_subjects() {
        for to in formats().filter(|to| *to != subject.plan.format) {
            let there = subject.convert(to);
            let is_kept = |conversion: &Conversion| {
                conversion.text.is_some() && conversion.findings.iter().all(|finding| finding.is_restored)
            };
            if !is_kept(&there) {
                continue;
            }
            let text = there.text.clone().unwrap_or_default();
            let between = subject.converted(to, &text);
            let plan = between.compile().plan.expect("a valid result");
            let source =
                ConversionSource { file: "converted.json", text: &text, plan: &plan, stop: &StopFlag::default() };
            let back = convert_definition(&source, subject.plan.format, false);
            if !is_kept(&back) {
                continue;
            }
            compared += 1;
            let returned = subject.converted(subject.plan.format, &back.text.unwrap_or_default()).compile().plan;
            let (before, after) = (describe_plan(&subject.plan), returned.as_ref().map(describe_plan));
            if after.as_deref() != Some(&before) {
                failed.push(format!("{} over {to}:\n{before}\n{after:?}\n{text}", subject.id));
            }
        }
    }
    assert!(failed.is_empty(), "{} of {compared} failed\n{}", failed.len(), failed.join("\n"));
    assert!(compared > 0, "no way back was compared");
}

#[test]
fn workflows_as_tools_are_reported_as_lost() {
    let losses = |tools: &str| {
        let text = format!("{{\"systemPrompt\": \"Help.\"{tools}}}");
        let definition = CaseDefinition::new(find_format("agent").expect("a format"), "a.json", text);
        let plan = definition.compile().plan.expect("valid");
        let subject = Subject { id: "agent".into(), case: Value::Null, definition, plan };
        subject.convert(find_format("graph").expect("a format")).count(Fate::Lost)
    };
    assert_eq!([losses(""), losses(", \"tools\": [\"weather\", \"page\"]"), losses(", \"tools\": []")], [1, 2, 0]);
}

/// Losses that conversions report: the definition, the format, the construct at the place, and a part of the message.
const LOSSES: [(&str, &str, &str, &str); 34] = [
    ("late-defaults.flow.json", "markdown", "start", "the variable greeting: only inputs have defaults here"),
    ("late-defaults.flow.json", "steps", "llmInstruction", "${greeting}: what sets it is lost"),
    ("requests.flow.json", "steps", "webScraping", "read by tool::web_fetch"),
    ("requests.flow.json", "steps", "apiCall", "sent by tool::http_request"),
    ("requests.flow.json", "pipeline", "apiCall", "a block passes these arguments"),
    ("requests.flow.json", "markdown", "apiCall", "the input weather takes the place of its output"),
    ("requests.flow.json", "graph", "webScraping", "a model is told to make it"),
    ("requests.flow.json", "graph", "llmInstruction", "${page}: instructions hold no values"),
    ("requests.flow.json", "agent", "llmInstruction", "a part of the instructions of one agent"),
    ("functions.steps.json", "flow", "read", "an empty one is an error"),
    ("functions.steps.json", "flow", "send", "gives only the body of the reply"),
    ("functions.steps.json", "flow", "find", "a flow calls no functions"),
    ("functions.steps.json", "pipeline", "find", "that find may fail"),
    ("functions.steps.json", "markdown", "find", "the input found takes the place of its output"),
    ("links.steps.json", "pipeline", "tell", "{{document}}: a node reads fields of an output"),
    ("links.steps.json", "pipeline", "tell", "{{input}}: a node reads fields of an output"),
    ("blocks.markdown.mdx", "flow", "Loop", "so they run once"),
    ("blocks.markdown.mdx", "flow", "Cond", "the steps of all its branches run"),
    ("blocks.markdown.mdx", "steps", "GenText as=\"better\"", "{place}: what sets it is lost"),
    ("blocks.markdown.mdx", "steps", "GenText as=\"last\"", "{draft}: what sets it is lost"),
    ("blocks.markdown.mdx", "agent", "GenText as=\"check\"", "the options of check"),
    ("desk.graph.json", "flow", "n1", "the routing of First contact"),
    ("desk.graph.json", "flow", "n2", "the tool order_status of Orders"),
    ("desk.graph.json", "markdown", "n2", "the beginning of its prompt"),
    ("desk.graph.json", "agent", "n4", "the person in the conversation"),
    ("built-in.pipeline.json", "steps", "page", "a call of tool::web_fetch"),
    ("built-in.pipeline.json", "steps", "few", "the block few"),
    ("empty-prompt.flow.json", "steps", "resultVariable\": \"b", "sends the input in its place"),
    ("empty-prompt.markdown.mdx", "steps", "as=\"a", "sends the input in its place"),
    ("replies.steps.json", "flow", "tell", "{{r.body.text}} may not be a string"),
    ("replies.steps.json", "flow", "code", "{{r.status}}: of this output, only the field body is there"),
    ("declared-twice.flow.json", "steps", "\"value\": \"a\"", "the default \"q\" of city"),
    ("set-input.flow.json", "pipeline", "Two", "the names of the result of"),
    ("set-input.flow.json", "pipeline", "Three", "${city}: what sets it is lost"),
];

#[test]
fn what_is_lost_is_reported_at_its_place() {
    let subjects = specimens();
    for (id, to, construct, message) in LOSSES {
        let subject = subjects.iter().find(|subject| subject.id == id).expect("a definition");
        let conversion = subject.convert(find_format(to).expect("a format"));
        assert!(conversion.text.is_some(), "{id} to {to} is refused");
        let lost = || conversion.findings.iter().filter(|finding| finding.fate == Fate::Lost);
        let line =
            |finding: &Finding| subject.definition.text()[finding.span.start..].lines().next().unwrap_or_default();
        let is_there = lost().any(|finding| finding.message.contains(message) && line(finding).contains(construct));
        let all: Vec<String> = lost().map(|finding| format!("{}: {}", line(finding), finding.message)).collect();
        assert!(is_there, "{id} to {to}: nothing says {message:?} at {construct}:\n{}", all.join("\n"));
    }
}

/// The table: for each pair of formats, how many constructs are kept, expressed differently and lost.
fn build_table() -> String {
    let names: Vec<Format> = formats().collect();
    let mut counts: BTreeMap<(String, String), [usize; 3]> = BTreeMap::new();
    for subject in subjects() {
        for to in &names {
            let conversion = subject.convert(*to);
            let all = counts.entry((subject.plan.format.to_string(), to.to_string())).or_default();
            for (count, fate) in all.iter_mut().zip([Fate::Kept, Fate::Differently, Fate::Lost]) {
                *count += conversion.count(fate);
            }
        }
    }
    let mut table = String::from("| from \\ to |");
    names.iter().for_each(|name| write!(table, " {name} |").expect("a string"));
    table.push_str("\n|---|");
    names.iter().for_each(|_| table.push_str("---|"));
    for from in &names {
        write!(table, "\n| **{from}** |").expect("a string");
        for to in &names {
            let [kept, differently, lost] =
                counts.get(&(from.to_string(), to.to_string())).copied().unwrap_or_default();
            write!(table, " {kept} / {differently} / {lost} |").expect("a string");
        }
    }
    table
}

#[test]
fn the_table_of_the_documentation_is_up_to_date() {
    let page = repository().join("docs/convert.md");
    let text = std::fs::read_to_string(&page).expect("the page");
    let (start, end) = ("<!-- table: make conversions -->\n", "\n<!-- end of the table -->");
    let (before, rest) = text.split_once(start).expect("the start of the table");
    let (_, after) = rest.split_once(end).expect("the end of the table");
    let current = format!("{before}{start}\n{}\n{end}{after}", build_table());
    if std::env::var_os(UPDATE_VARIABLE).is_some() {
        std::fs::write(&page, &current).expect("written");
        return;
    }
    assert_eq!(text, current, "write the table with: make conversions");
}
