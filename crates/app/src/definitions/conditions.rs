//! Conditions in the words of their definition, for drawings.

use flowloom_core::expr::Expr;
use flowloom_core::expr::js::Js;
use flowloom_core::render;
use flowloom_core::value::Value;

/// A condition as the definition states it.
pub fn render_condition(condition: &Expr) -> String {
    match condition {
        Expr::Constant(Value::Bool(true)) => "always".to_owned(),
        Expr::Constant(value) => render::to_json(value),
        Expr::Ref(reference) => reference.source.to_string(),
        Expr::Output => "output".to_owned(),
        Expr::Text(inner) => render_condition(inner),
        Expr::Field(inner, field) => match &**inner {
            Expr::Output => field.to_string(),
            inner => format!("{}.{field}", render_condition(inner)),
        },
        // By default, the output of the step before is searched.
        Expr::Contains(inner, needle) => match &**inner {
            Expr::Text(inner) if **inner == Expr::Output => format!("it contains {needle:?}"),
            Expr::Ref(reference) if &*reference.name == "input" => format!("it contains {needle:?}"),
            inner => format!("{} contains {needle:?}", render_condition(inner)),
        },
        Expr::Equals(left, right) => match &**right {
            Expr::Constant(Value::String(text)) => format!("{} = {text}", render_condition(left)),
            right => format!("{} = {}", render_condition(left), render_condition(right)),
        },
        Expr::Not(inner) => format!("not {}", render_condition(inner)),
        Expr::All(items) => items.iter().map(render_condition).collect::<Vec<_>>().join(" and "),
        Expr::Any(items) => items.iter().map(render_condition).collect::<Vec<_>>().join(" or "),
        Expr::Js(js) => match &**js {
            Js::Placed(_, place) => place.source.trim().to_owned(),
            Js::Name(name) => name.to_string(),
            _ => "expression".to_owned(),
        },
        Expr::Script(script) => script.source.trim().to_owned(),
    }
}
