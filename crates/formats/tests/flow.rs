//! References in the rows of a flow's requests.

use flowloom_formats::{Sources, compile};

#[test]
fn references_in_lists_are_replaced() {
    let flow = r#"{"name": "x", "description": "d", "steps": [
        {"type": "start", "config": {"variables": [{"name": "x", "value": "v"}]}},
        {"type": "apiCall", "config": {"url": "https://a.example", "method": "POST", "bodyType": "form",
            "headers": [{"key": "h", "value": ["${head}", {"k": "${key}"}, [1, null, "${inner}"]]}],
            "formData": [{"key": "k", "value": ["${field}", 1]}]}},
        {"type": "apiCall", "config": {"url": "https://a.example", "method": "POST", "bodyType": "text",
            "body": ["${body}"]}}]}"#;
    let files = [("x.json".to_owned(), flow.as_bytes().to_vec())];
    let sources = Sources { files: files.into(), source_bytes: 1 << 20, ..Sources::default() };
    let compiled = compile("x.json", &sources, None);
    let plan = format!("{:?}", compiled.plan.expect("a plan"));
    for name in ["head", "key", "inner", "field", "body"] {
        assert!(plan.contains(&format!("Ref(Ref {{ name: \"{name}\"")), "{name}: {plan}");
    }
}

#[test]
fn selectors_of_cheerio_are_accepted() {
    let selectors = [
        "input:disabled",
        "input:enabled",
        "input:required",
        "input:optional",
        "p:matches(.a, .b)",
        "li:nth(1)",
        "a:hover",
        "a:visited",
        "a:active",
        "p:not(:disabled)",
        "form:has(input:required)",
    ];
    for selector in selectors {
        let config =
            format!(r#"{{"url": "https://a.example", "captureAs": "querySelector", "querySelector": "{selector}"}}"#);
        let flow =
            format!(r#"{{"name": "x", "description": "d", "steps": [{{"type": "webScraping", "config": {config}}}]}}"#);
        let files = [("x.json".to_owned(), flow.into_bytes())];
        let sources = Sources { files: files.into(), source_bytes: 1 << 20, ..Sources::default() };
        let compiled = compile("x.json", &sources, None);
        assert!(compiled.plan.is_some(), "{selector}: {:?}", compiled.diagnostics);
    }
}
