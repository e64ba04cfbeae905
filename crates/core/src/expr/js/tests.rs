//! JavaScript results, by example.

use super::*;
use crate::json::parse_value;

fn scope() -> Map {
    parse_value(r#"{"n":7,"name":"Kit","none":null,"list":[1,"b"],"o":{"a":{"b":2}},"t":true}"#)
        .expect("valid")
        .as_map()
        .cloned()
        .expect("an object")
}

fn name(name: &str) -> Js {
    Js::Name(name.into())
}

fn text(text: &str) -> Js {
    Js::Literal(text.into())
}

fn number(text: &str) -> Js {
    Js::Literal(parse_value(text).expect("a number"))
}

fn shown(js: &Js) -> String {
    match js.evaluate(&scope()) {
        Ok(None) => "undefined".into(),
        Ok(Some(value)) => js_text(&value),
        Err(error) => error.message,
    }
}

fn js_text(value: &Value) -> String {
    crate::render::text(value, crate::render::Style::JavaScript)
}

fn binary(operator: Binary, left: Js, right: Js) -> String {
    shown(&Js::Binary(operator, Box::new(left), Box::new(right)))
}

#[test]
fn operators() {
    let cases = [
        (binary(Binary::Add, number("1"), text("2")), "12"),
        (binary(Binary::Add, Js::List(vec![]), Js::Object(vec![])), "[object Object]"),
        (binary(Binary::Add, name("none"), number("1")), "1"),
        (binary(Binary::Multiply, text("3"), text("4")), "12"),
        (binary(Binary::Divide, number("0"), number("0")), "NaN"),
        (binary(Binary::Divide, number("-1"), number("0")), "-Infinity"),
        (binary(Binary::Remainder, number("-7"), number("3")), "-1"),
        (binary(Binary::Power, number("7"), number("2")), "49"),
        (binary(Binary::Equal, text("1"), number("1")), "true"),
        (binary(Binary::Equal, name("none"), Js::Undefined), "true"),
        (binary(Binary::Equal, name("none"), number("0")), "false"),
        (binary(Binary::Same, name("list"), name("list")), "true"),
        (binary(Binary::Same, Js::List(vec![]), Js::List(vec![])), "false"),
        (binary(Binary::Less, text("10"), text("9")), "true"),
        (binary(Binary::Less, text("10"), number("9")), "false"),
        (binary(Binary::Less, Js::Undefined, number("9")), "false"),
        (binary(Binary::ShiftRightZero, number("-1"), number("28")), "15"),
        (binary(Binary::BitOr, number("4294967298.9"), number("0")), "2"),
        (binary(Binary::Add, number("0.1"), number("0.2")), "0.30000000000000004"),
    ];
    for (index, (given, wanted)) in cases.into_iter().enumerate() {
        assert_eq!(given, wanted, "case {index}");
    }
}

#[test]
fn members() {
    let member = |object: Js, key: &str| Js::Member(Box::new(object), Box::new(text(key)), false);
    let cases = [
        (member(member(name("o"), "a"), "b"), "2"),
        (member(name("list"), "length"), "2"),
        (member(name("list"), "1"), "b"),
        (member(name("list"), "7"), "undefined"),
        (member(name("name"), "length"), "3"),
        (member(name("name"), "0"), "K"),
        (member(name("n"), "x"), "undefined"),
        (member(name("none"), "x"), "cannot read \"x\" of null"),
        (member(name("nobody"), "x"), "cannot read \"x\" of undefined"),
    ];
    for (js, wanted) in cases {
        assert_eq!(shown(&js), wanted, "{js:?}");
    }
    let short = Js::Member(Box::new(name("nobody")), Box::new(text("x")), true);
    let chain = Js::Chain(Box::new(Js::Member(Box::new(short), Box::new(text("y")), false)));
    assert_eq!(shown(&chain), "undefined");
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
    let broken = Js::Member(Box::new(name("nobody")), Box::new(text("x")), false);
    let place = Place { at: "main.md:3:7".into(), source: "nobody.x".into() };
    let placed = Js::Placed(Box::new(broken), Arc::new(place));
    let error = placed.evaluate(&scope()).expect_err("fails");
    assert_eq!(error.code, Code::ExpressionFailed);
    assert_eq!(error.message, "main.md:3:7: cannot read \"x\" of undefined in the expression {nobody.x}");
}
