//! Schemas that are too much work, and schemas that look like it.

use serde_json::json;

use super::*;

fn check_schema_depth(schema: &Value) -> Result<(), SchemaTooComplex> {
    measure_schema(schema).map(drop)
}

fn check_schema_work(schema: &Value, value: &Value) -> Result<(), SchemaTooComplex> {
    measure_schema(schema)?.check_value(schema, value).map(drop)
}

/// A schema whose references branch `depth` times.
fn branching_schema(depth: usize) -> Value {
    let next = |at: usize| json!({"$ref": format!("#/$defs/d{}", at + 1)});
    let mut definitions: Map<String, Value> =
        (0..depth).map(|at| (format!("d{at}"), json!({"anyOf": [next(at), next(at)]}))).collect();
    definitions.insert(format!("d{depth}"), json!({"type": "number"}));
    json!({"$defs": definitions, "properties": {"a": {"$ref": "#/$defs/d0"}}})
}

#[test]
fn references_that_branch_are_too_much_work() {
    assert_eq!(check_schema_work(&branching_schema(10), &json!({"a": "x"})), Ok(()));
    assert_eq!(check_schema_work(&branching_schema(26), &json!({"a": "x"})), Err(SchemaTooComplex::Work));
    assert_eq!(check_schema_work(&branching_schema(400), &json!({"a": "x"})), Err(SchemaTooComplex::Work));
    assert_eq!(check_schema_work(&branching_schema(26), &json!({"b": "x"})), Ok(()));
}

#[test]
fn recursion_that_branches_with_the_value_is_too_much_work() {
    let twice = json!({"anyOf": [{"properties": {"a": {"$ref": "#"}}}, {"properties": {"a": {"$ref": "#"}}}]});
    let nested = |depth: usize| (0..depth).fold(json!(1), |inner, _| json!({"a": inner}));
    assert_eq!(check_schema_work(&twice, &nested(4)), Ok(()));
    assert_eq!(check_schema_work(&twice, &nested(40)), Err(SchemaTooComplex::Work));
}

#[test]
fn a_tree_of_any_size_is_fine() {
    let tree = json!({
        "$id": "http://example.com/tree",
        "$defs": {"children": {"items": {"$ref": "#"}}},
        "properties": {"name": {"type": "string"}, "children": {"$ref": "#/$defs/children"}},
        "patternProperties": {"^x-": {"$ref": "#"}},
        "additionalProperties": {"$ref": "tree"},
    });
    let wide = json!({"children": vec![json!({"name": "a", "children": [{"other": {"name": "b"}}]}); 5_000]});
    assert_eq!(check_schema_work(&tree, &wide), Ok(()));
    let deep = (0..100).fold(json!({"name": "a"}), |inner, _| json!({"children": [inner], "name": "a"}));
    assert_eq!(check_schema_work(&tree, &deep), Ok(()));
}

#[test]
fn what_never_ends_or_is_too_deep_is_found_before() {
    assert_eq!(check_schema_work(&json!({"$ref": "#"}), &json!(1)), Err(SchemaTooComplex::Work));
    let mut chain: Map<String, Value> =
        (0..5_000).map(|at| (format!("d{at}"), json!({"$ref": format!("#/$defs/d{}", at + 1)}))).collect();
    chain.insert("d5000".into(), json!({}));
    // The end of the chain is measured before its start.
    let all: Vec<Value> = (0..5_000).rev().step_by(500).map(|at| json!({"$ref": format!("#/$defs/d{at}")})).collect();
    let schema = json!({"allOf": all, "$defs": chain});
    assert_eq!(check_schema_depth(&schema), Err(SchemaTooComplex::Depth));
    assert_eq!(check_schema_work(&schema, &json!(1)), Err(SchemaTooComplex::Depth));
}

#[test]
fn references_by_id_and_anchor_are_followed() {
    let namesakes = json!({"$ref": "#x", "$defs": vec![json!({"$anchor": "x"}); 9]});
    assert_eq!(check_schema_depth(&namesakes), Err(SchemaTooComplex::Reference));
    let references =
        [("$anchor", "#twice"), ("$id", "twice"), ("$id", "http://example.com/twice"), ("title", "#/%24defs/%78")];
    for (key, reference) in references {
        let next = json!({"$ref": reference});
        let inner = json!({key: "twice", "anyOf": [{"properties": {"a": next}}, {"properties": {"a": next}}]});
        let schema = json!({"$defs": {"x": inner}, "$ref": reference});
        let nested = (0..40).fold(json!(1), |inner, _| json!({"a": inner}));
        assert_eq!(check_schema_work(&schema, &nested), Err(SchemaTooComplex::Work), "{key} {reference}");
    }
}
#[test]
fn names_of_fields_and_what_was_not_evaluated_are_work_too() {
    let mut names = branching_schema(26);
    names["propertyNames"] = json!({"$ref": "#/$defs/d0"});
    names["properties"] = json!({});
    assert_eq!(check_schema_work(&names, &json!({"a": 1})), Err(SchemaTooComplex::Work));
    for keyword in ["unevaluatedProperties", "unevaluatedItems"] {
        let nested = (0..30).fold(json!({"type": "object"}), |inner, _| json!({"anyOf": [inner], keyword: false}));
        assert_eq!(check_schema_work(&nested, &json!({"a": 1})), Err(SchemaTooComplex::Work), "{keyword}");
        let few = (0..5).fold(json!({"type": "object"}), |inner, _| json!({"anyOf": [inner], keyword: false}));
        assert_eq!(check_schema_work(&few, &json!({"a": 1})), Ok(()), "{keyword}");
    }
}

#[test]
fn references_within_a_resource_are_followed_and_unknown_ones_refused() {
    for reference in ["#", ""] {
        let next = json!({"properties": {"a": {"$ref": reference}}});
        let inner = json!({"$id": "http://example.com/inner", "anyOf": [next, next]});
        let schema = json!({"$defs": {"x": inner}, "$ref": "#/$defs/x"});
        let nested = (0..40).fold(json!(1), |inner, _| json!({"a": inner}));
        assert_eq!(check_schema_work(&schema, &nested), Err(SchemaTooComplex::Work), "{reference}");
    }
    for reference in ["y/..", "#/$defs/none", "http://other.example/"] {
        let schema = json!({"$id": "http://example.com/", "properties": {"a": {"$ref": reference}}});
        assert_eq!(check_schema_depth(&schema), Err(SchemaTooComplex::Reference), "{reference}");
    }
    let data = json!({"properties": {"a": {"const": {"$ref": "nothing"}}}, "examples": [{"$ref": "nothing"}]});
    assert_eq!(check_schema_depth(&data), Ok(()));
    let known = json!({"properties": {"a": {"$ref": "http://json-schema.org/draft-07/schema#"}}});
    assert_eq!(check_schema_depth(&known), Ok(()));
}

#[test]
fn ordinary_schemas_are_not_refused() {
    let bundle = json!({"$defs": {
        "a": {"$id": "http://example.com/a", "$ref": "#/$defs/x", "$defs": {"x": {"$ref": "#/$defs/y"}, "y": {"type": "number"}}},
        "b": {"$id": "http://example.com/b", "$ref": "#/$defs/y", "$defs": {"y": {"$ref": "#/$defs/x"}, "x": {"type": "number"}}},
    }, "anyOf": [{"$ref": "http://example.com/a"}, {"$ref": "http://example.com/b"}]});
    assert_eq!(check_schema_work(&bundle, &json!(1)), Ok(()));
    let tree = json!({
        "$id": "http://example.com/strict-tree", "$dynamicAnchor": "node", "$ref": "tree", "unevaluatedProperties": false,
        "$defs": {"tree": {"$id": "http://example.com/tree", "$dynamicAnchor": "node",
            "properties": {"data": true, "children": {"items": {"$dynamicRef": "#node"}}}}},
    });
    let deep = (0..24).fold(json!({"data": 1}), |inner, _| json!({"children": [inner], "data": 1}));
    assert_eq!(check_schema_work(&tree, &deep), Ok(()));
    let list = json!({"$defs": {"node": {"properties": {"next": {"$ref": "#/$defs/node"}, "all": {"items": {"type": "number"}}}}}, "$ref": "#/$defs/node"});
    assert_eq!(check_schema_work(&list, &json!({"all": vec![1; MAX_PAIRS + 1]})), Ok(()));
}
