//! Exports a pipeline to another format, if that format can express all of it.
//!
//! All formats have prompts with text answers, and web pages. Pipelines that consist only of these can be exported as
//! flows, step lists and Markdown; for all others the unsupported parts are listed.

mod read_steps;
mod write;

use flowloom_core::plan::Format;
use flowloom_core::value::Value;
use flowloom_formats::{Sources, compile, flow, markdown, steps};

use read_steps::read_steps;

/// Maximum size of an exported definition that is compiled as a check, in bytes.
const MAX_DEFINITION_BYTES: u64 = 8 << 20;

/// The formats to which a pipeline can be exported.
pub const EXPORT_FORMATS: [Format; 3] = [flow::FORMAT, steps::FORMAT, markdown::FORMAT];

/// A definition in another format.
#[derive(Clone, Debug, PartialEq)]
pub struct ExportedDefinition {
    /// The file name.
    pub file: String,
    /// The text.
    pub text: String,
}

/// Exports a pipeline to `format`, or lists the unsupported parts. `model` is named for prompts where the format
/// requires a model. Fails if a part is not supported, or if the exported definition does not compile; the error lists
/// the problems.
pub fn export_pipeline(
    format: Format,
    pipeline: &Value,
    blocks: &[Value],
    model: &str,
) -> Result<ExportedDefinition, Vec<String>> {
    let parts = read_steps(pipeline, blocks)?;
    let text = |key: &str| pipeline.get(key).and_then(Value::as_str).unwrap_or_default();
    let about = write::DefinitionInfo { id: text("id"), name: text("name"), description: text("user_prompt") };
    let (extension, text) = match format {
        flow::FORMAT => ("json", write::write_flow(&about, &parts)?),
        steps::FORMAT => ("json", write::write_steps(&about, &parts)?),
        markdown::FORMAT => ("mdx", write::write_markdown(&about, &parts, model)?),
        _ => {
            return Err(vec![format!("pipelines cannot be exported to {}", format.name())]);
        }
    };
    let file = format!("{}.{extension}", if format == markdown::FORMAT { "workflow" } else { format.name() });
    let sources = Sources {
        files: [(file.clone(), text.clone().into_bytes())].into(),
        source_bytes: MAX_DEFINITION_BYTES,
        ..Sources::default()
    };
    let found = compile(&file, &sources, Some(format)).diagnostics;
    let errors: Vec<String> = found.into_iter().filter(|found| found.is_error()).map(|found| found.message).collect();
    if errors.is_empty() { Ok(ExportedDefinition { file, text }) } else { Err(errors) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flowloom_core::json::parse_value;

    fn parse_json(text: &str) -> Value {
        parse_value(text).expect("JSON")
    }

    fn prompt_block(id: &str, output: &str) -> Value {
        parse_json(&format!(
            r#"{{"id":"{id}","execution_type":"llm","prompt_template":"In one line, for {{reader}}:\n{{text}}",
            "output_schema":{{"type":"object","properties":{output}}}}}"#
        ))
    }

    const LINE_FIELD: &str = r#"{"line":{"type":"string"}}"#;

    fn test_pipeline(more: &str) -> Value {
        // The first node of the file runs last.
        parse_json(&format!(
            r#"{{"id":"pipeline_page","name":"A page","user_prompt":"Shorten a page","nodes":[
            {{"id":"n2","block_id":"shorten","inputs":{{"reader":"children","text":"{{{{n1.content}}}}"}}}},
            {{"id":"n1","block_id":"web_scrape","inputs":{{"url":"https://example.com/"}}}}{more}]}}"#
        ))
    }

    #[test]
    fn prompts_and_pages_have_a_place_everywhere() {
        let blocks = [prompt_block("shorten", LINE_FIELD)];
        for format in [flow::FORMAT, steps::FORMAT] {
            let written = export_pipeline(format, &test_pipeline(""), &blocks, "m")
                .unwrap_or_else(|why| panic!("{}: {why:?}", format.name()));
            let page = written.text.find("https://example.com/").expect("the page");
            let asked = written.text.find("In one line, for children:").expect("the prompt");
            assert!(page < asked, "{}", written.text);
        }
        let alone = parse_json(
            r#"{"id":"p","name":"P","nodes":[{"id":"a","block_id":"shorten","inputs":{"reader":"me","text":"> {no} <b>"}},
            {"id":"b","block_id":"shorten","inputs":{"reader":"you","text":"{{a.line}}"}}]}"#,
        );
        let written = export_pipeline(markdown::FORMAT, &alone, &blocks, "p:m").expect("Markdown");
        assert_eq!(written.file, "workflow.mdx");
        assert!(written.text.contains("\\{no} \\<b>") && written.text.contains("\n{a}\n"), "{}", written.text);
    }

    #[test]
    fn what_has_no_place_is_named() {
        let refused = |format, more: &str, blocks: &[Value]| {
            export_pipeline(format, &test_pipeline(more), blocks, "m").expect_err("no place").join("; ")
        };
        let two = prompt_block("shorten", r#"{"line":{"type":"string"},"score":{"type":"number"}}"#);
        assert!(refused(steps::FORMAT, "", &[two]).contains("line, score"));
        let code = parse_json(r#"{"id":"code","execution_type":"python","source_code":"x"}"#);
        let node = r#",{"id":"n3","block_id":"code","inputs":{}},{"id":"n4","block_id":"notify_push","inputs":{"title":"{{memory.x}}"}}"#;
        let why = refused(flow::FORMAT, node, &[prompt_block("shorten", LINE_FIELD), code]);
        assert!(why.contains("n3: the Python block code") && why.contains("n4: the function"), "{why}");
        let memory = r#",{"id":"n3","block_id":"shorten","inputs":{"reader":"{{memory.me}}","text":"x"}}"#;
        assert!(refused(steps::FORMAT, memory, &[prompt_block("shorten", LINE_FIELD)]).contains("{{memory.me}}"));
        assert!(refused(markdown::FORMAT, "", &[prompt_block("shorten", LINE_FIELD)]).contains("page"));
        assert!(refused(flowloom_formats::graph::FORMAT, "", &[prompt_block("shorten", LINE_FIELD)]).contains("graph"));
    }

    proptest::proptest! {
        #[test]
        fn no_text_breaks_out_of_its_place(text in "[a-z {}$<>`#\\-\\n\\\\\"']{0,40}") {
            let blocks = [prompt_block("shorten", LINE_FIELD)];
            let inputs = Value::map([("reader", Value::from("me")), ("text", text.as_str().into())]);
            let node = Value::map([("id", "a".into()), ("block_id", "shorten".into()), ("inputs", inputs)]);
            let pipeline = Value::map([("id", "p".into()), ("name", "P".into()), ("nodes", Value::list(vec![node]))]);
            for format in EXPORT_FORMATS {
                let _ = export_pipeline(format, &pipeline, &blocks, "p:m");
            }
        }
    }
}
