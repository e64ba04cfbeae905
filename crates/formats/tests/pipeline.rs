//! Blocks in files of their own.

use flowloom_core::code::Code;
use flowloom_formats::{Compiled, Sources, compile};

const BLOCKS: &str = r#"[
  {"id": "whole", "execution_type": "llm", "prompt_template": "Hello"},
  {"id": "broken", "execution_type": "python"}
]"#;

fn compile_with(block: &str, blocks: &str) -> Compiled {
    let pipeline =
        format!(r#"{{"id": "p", "name": "P", "nodes": [{{"id": "n1", "block_id": "{block}", "inputs": {{}}}}]}}"#);
    let files = [("p.json", pipeline.as_str()), ("blocks/all.json", blocks)];
    let files = files.map(|(path, text)| (path.to_owned(), text.as_bytes().to_vec()));
    compile("p.json", &Sources { files: files.into(), source_bytes: 1 << 20, ..Sources::default() }, None)
}

#[test]
fn block_that_is_not_used_is_not_reported() {
    let compiled = compile_with("whole", BLOCKS);
    assert!(compiled.plan.is_some() && compiled.diagnostics.is_empty(), "{:?}", compiled.diagnostics);
    assert!(compile_with("web_scrape", "{oops").diagnostics.iter().all(|found| found.code != Code::JsonSyntax));
}

#[test]
fn block_that_is_used_is_reported_at_its_place() {
    let compiled = compile_with("broken", BLOCKS);
    let [problem] = &compiled.diagnostics[..] else { panic!("{:?}", compiled.diagnostics) };
    assert_eq!((problem.code, problem.file.as_str()), (Code::BlockIncomplete, "blocks/all.json"));
    assert_eq!(problem.span.start, BLOCKS.find(r#""broken""#).unwrap());
}

#[test]
fn unreadable_file_is_reported_if_a_block_is_missing() {
    let compiled = compile_with("nowhere", "{oops");
    let places: Vec<_> = compiled.diagnostics.iter().map(|found| (found.code, found.file.as_str())).collect();
    assert_eq!(places, [(Code::UnknownBlockId, "p.json"), (Code::JsonSyntax, "blocks/all.json")]);
}

#[test]
fn a_list_of_types_in_the_place_of_a_schema_is_reported_with_the_schema() {
    let block = r#"{"id": "b", "execution_type": "llm", "prompt_template": "Hi", "output_schema": {"v": "integer"}}"#;
    let compiled = compile_with("b", block);
    let [warning] = &compiled.diagnostics[..] else { panic!("{:?}", compiled.diagnostics) };
    assert_eq!((warning.code, warning.is_error()), (Code::BadSchema, false));
    assert_eq!(&block[warning.span.start..][..warning.span.length], r#"{"v": "integer"}"#);
    let meant = r#"write {"type":"object","properties":{"v":{"type":"integer"}}}"#;
    assert_eq!(warning.help.as_deref(), Some(meant));
}
