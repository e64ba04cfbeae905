//! Exports a pipeline to another format, if that format can express all of it.
//!
//! All formats have prompts with text answers, and web pages. Pipelines that consist only of these can be exported as
//! flows, step lists and Markdown; for all others the unsupported parts are listed.

mod parts;
mod write;

use flowloom_core::plan::Format;
use flowloom_core::value::Value;
use flowloom_formats::{Sources, compile, flow, markdown, steps};

use parts::parts;

/// Maximum size of an exported definition that is compiled as a check, in bytes.
const MOST_BYTES: u64 = 8 << 20;

/// The formats to which a pipeline can be exported.
pub const TARGETS: [Format; 3] = [flow::FORMAT, steps::FORMAT, markdown::FORMAT];

/// A definition in another format.
#[derive(Clone, Debug, PartialEq)]
pub struct Written {
    /// The file name.
    pub file: String,
    /// The text.
    pub text: String,
}

/// Exports a pipeline to `format`, or lists the unsupported parts. `model` is named for prompts where the format
/// requires a model.
pub fn into(format: Format, pipeline: &Value, blocks: &[Value], model: &str) -> Result<Written, Vec<String>> {
    let parts = parts(pipeline, blocks)?;
    let text = |key: &str| pipeline.get(key).and_then(Value::as_str).unwrap_or_default();
    let about = write::About { id: text("id"), name: text("name"), description: text("user_prompt") };
    let (extension, text) = match format {
        flow::FORMAT => ("json", write::flow(&about, &parts)?),
        steps::FORMAT => ("json", write::steps(&about, &parts)?),
        markdown::FORMAT => ("mdx", write::markdown(&about, &parts, model)?),
        _ => {
            return Err(vec![format!("pipelines cannot be exported to {}", format.name())]);
        }
    };
    let file = format!("{}.{extension}", if format == markdown::FORMAT { "workflow" } else { format.name() });
    let sources = Sources {
        files: [(file.clone(), text.clone().into_bytes())].into(),
        source_bytes: MOST_BYTES,
        ..Sources::default()
    };
    let found = compile(&file, &sources, Some(format)).diagnostics;
    let errors: Vec<String> = found.into_iter().filter(|found| found.is_error()).map(|found| found.message).collect();
    if errors.is_empty() { Ok(Written { file, text }) } else { Err(errors) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flowloom_core::json::parse_value;

    fn value(text: &str) -> Value {
        parse_value(text).expect("JSON")
    }

    fn prompt(id: &str, output: &str) -> Value {
        value(&format!(
            r#"{{"id":"{id}","execution_type":"llm","prompt_template":"In one line, for {{reader}}:\n{{text}}",
            "output_schema":{{"type":"object","properties":{output}}}}}"#
        ))
    }

    const LINE: &str = r#"{"line":{"type":"string"}}"#;

    fn pipeline(more: &str) -> Value {
        // The first node of the file runs last.
        value(&format!(
            r#"{{"id":"pipeline_page","name":"A page","user_prompt":"Shorten a page","nodes":[
            {{"id":"n2","block_id":"shorten","inputs":{{"reader":"children","text":"{{{{n1.content}}}}"}}}},
            {{"id":"n1","block_id":"web_scrape","inputs":{{"url":"https://example.com/"}}}}{more}]}}"#
        ))
    }

    #[test]
    fn prompts_and_pages_have_a_place_everywhere() {
        let blocks = [prompt("shorten", LINE)];
        for format in [flow::FORMAT, steps::FORMAT] {
            let written =
                into(format, &pipeline(""), &blocks, "m").unwrap_or_else(|why| panic!("{}: {why:?}", format.name()));
            let page = written.text.find("https://example.com/").expect("the page");
            let asked = written.text.find("In one line, for children:").expect("the prompt");
            assert!(page < asked, "{}", written.text);
        }
        let alone = value(
            r#"{"id":"p","name":"P","nodes":[{"id":"a","block_id":"shorten","inputs":{"reader":"me","text":"> {no} <b>"}},
            {"id":"b","block_id":"shorten","inputs":{"reader":"you","text":"{{a.line}}"}}]}"#,
        );
        let written = into(markdown::FORMAT, &alone, &blocks, "p:m").expect("Markdown");
        assert_eq!(written.file, "workflow.mdx");
        assert!(written.text.contains("\\{no} \\<b>") && written.text.contains("\n{a}\n"), "{}", written.text);
    }

    #[test]
    fn what_has_no_place_is_named() {
        let refused = |format, more: &str, blocks: &[Value]| {
            into(format, &pipeline(more), blocks, "m").expect_err("no place").join("; ")
        };
        let two = prompt("shorten", r#"{"line":{"type":"string"},"score":{"type":"number"}}"#);
        assert!(refused(steps::FORMAT, "", &[two]).contains("line, score"));
        let code = value(r#"{"id":"code","execution_type":"python","source_code":"x"}"#);
        let node = r#",{"id":"n3","block_id":"code","inputs":{}},{"id":"n4","block_id":"notify_push","inputs":{"title":"{{memory.x}}"}}"#;
        let why = refused(flow::FORMAT, node, &[prompt("shorten", LINE), code]);
        assert!(why.contains("n3: the Python block code") && why.contains("n4: the function"), "{why}");
        let memory = r#",{"id":"n3","block_id":"shorten","inputs":{"reader":"{{memory.me}}","text":"x"}}"#;
        assert!(refused(steps::FORMAT, memory, &[prompt("shorten", LINE)]).contains("{{memory.me}}"));
        assert!(refused(markdown::FORMAT, "", &[prompt("shorten", LINE)]).contains("page"));
        assert!(refused(flowloom_formats::graph::FORMAT, "", &[prompt("shorten", LINE)]).contains("graph"));
    }

    proptest::proptest! {
        #[test]
        fn no_text_breaks_out_of_its_place(text in "[a-z {}$<>`#\\-\\n\\\\\"']{0,40}") {
            let blocks = [prompt("shorten", LINE)];
            let inputs = Value::map([("reader", Value::from("me")), ("text", text.as_str().into())]);
            let node = Value::map([("id", "a".into()), ("block_id", "shorten".into()), ("inputs", inputs)]);
            let pipeline = Value::map([("id", "p".into()), ("name", "P".into()), ("nodes", Value::list(vec![node]))]);
            for format in TARGETS {
                let _ = into(format, &pipeline, &blocks, "p:m");
            }
        }
    }
}
