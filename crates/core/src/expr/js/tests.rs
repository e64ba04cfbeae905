//! JavaScript results, by example.

use super::*;
use crate::json::parse_value;

fn test_scope() -> Map {
    parse_value(r#"{"n":7,"name":"Kit","none":null,"list":[1,"b"],"o":{"a":{"b":2}},"t":true}"#)
        .expect("valid")
        .as_map()
        .cloned()
        .expect("an object")
}

fn name_reference(name: &str) -> Js {
    Js::Name(name.into())
}

fn text_literal(text: &str) -> Js {
    Js::Literal(text.into())
}

fn number_literal(text: &str) -> Js {
    Js::Literal(parse_value(text).expect("a number"))
}

fn evaluate_to_text(js: &Js) -> String {
    match js.evaluate(&test_scope()) {
        Ok(None) => "undefined".into(),
        Ok(Some(value)) => js_text(&value),
        Err(error) => error.message,
    }
}

fn js_text(value: &Value) -> String {
    crate::render::render_text(value, crate::render::TextStyle::JavaScript)
}

fn evaluate_binary(operator: Binary, left: Js, right: Js) -> String {
    evaluate_to_text(&Js::Binary(operator, Box::new(left), Box::new(right)))
}

#[test]
fn operators() {
    let cases = [
        (evaluate_binary(Binary::Add, number_literal("1"), text_literal("2")), "12"),
        (evaluate_binary(Binary::Add, Js::List(vec![]), Js::Object(vec![])), "[object Object]"),
        (evaluate_binary(Binary::Add, name_reference("none"), number_literal("1")), "1"),
        (evaluate_binary(Binary::Multiply, text_literal("3"), text_literal("4")), "12"),
        (evaluate_binary(Binary::Divide, number_literal("0"), number_literal("0")), "NaN"),
        (evaluate_binary(Binary::Divide, number_literal("-1"), number_literal("0")), "-Infinity"),
        (evaluate_binary(Binary::Remainder, number_literal("-7"), number_literal("3")), "-1"),
        (evaluate_binary(Binary::Power, number_literal("7"), number_literal("2")), "49"),
        (evaluate_binary(Binary::Equal, text_literal("1"), number_literal("1")), "true"),
        (evaluate_binary(Binary::Equal, name_reference("none"), Js::Undefined), "true"),
        (evaluate_binary(Binary::Equal, name_reference("none"), number_literal("0")), "false"),
        (evaluate_binary(Binary::Same, name_reference("list"), name_reference("list")), "true"),
        (evaluate_binary(Binary::Same, Js::List(vec![]), Js::List(vec![])), "false"),
        (evaluate_binary(Binary::Less, text_literal("10"), text_literal("9")), "true"),
        (evaluate_binary(Binary::Less, text_literal("10"), number_literal("9")), "false"),
        (evaluate_binary(Binary::Less, Js::Undefined, number_literal("9")), "false"),
        (evaluate_binary(Binary::ShiftRightZero, number_literal("-1"), number_literal("28")), "15"),
        (evaluate_binary(Binary::BitOr, number_literal("4294967298.9"), number_literal("0")), "2"),
        (evaluate_binary(Binary::Add, number_literal("0.1"), number_literal("0.2")), "0.30000000000000004"),
    ];
    for (index, (given, wanted)) in cases.into_iter().enumerate() {
        assert_eq!(given, wanted, "case {index}");
    }
}

#[test]
fn members() {
    let member = |object: Js, key: &str| Js::Member(Box::new(object), Box::new(text_literal(key)), false);
    let cases = [
        (member(member(name_reference("o"), "a"), "b"), "2"),
        (member(name_reference("list"), "length"), "2"),
        (member(name_reference("list"), "1"), "b"),
        (member(name_reference("list"), "7"), "undefined"),
        (member(name_reference("name"), "length"), "3"),
        (member(name_reference("name"), "0"), "K"),
        (member(name_reference("n"), "x"), "undefined"),
        (member(name_reference("none"), "x"), "cannot read \"x\" of null"),
        (member(name_reference("nobody"), "x"), "cannot read \"x\" of undefined"),
    ];
    for (js, wanted) in cases {
        assert_eq!(evaluate_to_text(&js), wanted, "{js:?}");
    }
    let short = Js::Member(Box::new(name_reference("nobody")), Box::new(text_literal("x")), true);
    let chain = Js::Chain(Box::new(Js::Member(Box::new(short), Box::new(text_literal("y")), false)));
    assert_eq!(evaluate_to_text(&chain), "undefined");
}

#[test]
fn texts_as_numbers() {
    let cases = [
        ("", 0.0),
        (" 12 ", 12.0),
        ("0x1F", 31.0),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("5.", 5.0),
        ("-Infinity", f64::NEG_INFINITY),
    ];
    for (from, to) in cases {
        assert_eq!(to_number(&Datum::Value(from.into())), to, "{from:?}");
    }
    for from in ["inf", "nan", "1_0", "a", "1 2", "0x", "--1", "infinity"] {
        assert!(to_number(&Datum::Value(from.into())).is_nan(), "{from:?}");
    }
}

#[test]
fn a_failure_says_where() {
    let broken = Js::Member(Box::new(name_reference("nobody")), Box::new(text_literal("x")), false);
    let place = ExpressionPlace { at: "main.md:3:7".into(), source: "nobody.x".into() };
    let placed = Js::Placed(Box::new(broken), Arc::new(place));
    let error = placed.evaluate(&test_scope()).expect_err("fails");
    assert_eq!(error.code, Code::ExpressionFailed);
    assert_eq!(error.message, "main.md:3:7: cannot read \"x\" of undefined in the expression {nobody.x}");
}
