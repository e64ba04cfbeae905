//! A scripted model for creating one pipeline: a block that writes a text in capitals.

use serde_json::{Value, json};

use super::Workspace;

const TEXT_SCHEMA: &str =
    r#"{"type": "object", "properties": {"text": {"type": "string", "description": "A text."}}, "required": ["text"]}"#;

/// The answers of the model. The first source it writes returns the wrong field.
fn scripted_answers() -> Value {
    let text: Value = serde_json::from_str(TEXT_SCHEMA).expect("JSON");
    let needs = json!({"required_blocks": [{"suggested_id": "shout", "description": "Writes a text in capitals", "execution_type": "python",
        "depends_on": [], "input_schema": text, "output_schema": text}]});
    let block = |source: &str| {
        json!({"id": "shout", "name": "Shout", "description": "Writes a text in capitals", "category": "process",
        "execution_type": "python", "input_schema": text, "output_schema": text, "use_when": "a text must be loud", "tags": ["text"],
        "source_code": source, "examples": [{"inputs": {"text": "ab"}, "outputs": {"text": "AB"}}]})
    };
    let wrong = block("async def execute(inputs, context):\n    return {'loud': inputs['text'].upper()}\n");
    let right = block("async def execute(inputs, context):\n    return {'text': inputs['text'].upper()}\n");
    let pipeline = json!({"id": "pipeline_shout", "name": "Shouts", "nodes": [{"id": "n1", "block_id": "shout", "inputs": {"text": "hello"}}]});
    let printed = |value: Value| value.to_string();
    json!({"match": [
        {"contains": "does not fit output_schema", "answer": printed(right)},
        {"contains": "Write this block.", "answer": printed(wrong)},
        {"contains": "data: the blocks", "answer": printed(pipeline)},
        {"contains": "You turn a conversation", "answer": "Shout hello at everyone"},
        {"contains": "At whom?", "answer": printed(json!({"ready": true, "refined_intent": "Shout hello at everyone"}))},
        {"contains": "Say something", "answer": printed(json!({"ready": false}))},
        {"contains": "You decide whether", "answer": printed(json!({"ready": false, "question": "At whom?"}))},
        {"contains": "Shout hello at nobody", "answer": "{\"required_blocks\": []}"},
        {"contains": "Shout", "answer": printed(needs)},
    ]})
}

/// A workspace in which the goal "Shout hello" can be achieved.
pub(crate) fn create_workspace() -> Workspace {
    let place = Workspace::new("default_model = \"scripted:said.json\"\n[embeddings]\nmodel = \"none\"\n");
    place.write("said.json", &scripted_answers().to_string());
    place
}

/// A workspace whose model splits each goal into three blocks, and writes endless loops.
pub(crate) fn create_looping_workspace(settings: &str) -> Workspace {
    let place =
        Workspace::new(&format!("default_model = \"scripted:said.json\"\n[embeddings]\nmodel = \"none\"\n{settings}"));
    place.write("said.json", include_str!("../../../../bench/data/endless-blocks.script.json"));
    place
}
