//! The names that expressions and texts read.

use std::sync::Arc;

use super::js::{Js, ListItem, Property};
use super::{Data, Expr, Template, TemplatePart};

/// Receives names.
pub type VisitName<'v> = dyn FnMut(&Arc<str>) + 'v;

impl Expr {
    /// Calls `visit` with every name that the expression reads.
    pub fn visit_names(&self, visit: &mut VisitName<'_>) {
        match self {
            Expr::Constant(_) | Expr::Output => {}
            Expr::Ref(reference) => visit(&reference.name),
            Expr::Contains(inner, _) | Expr::Not(inner) | Expr::Field(inner, _) | Expr::Text(inner) => {
                inner.visit_names(visit);
            }
            Expr::Equals(left, right) => [left, right].into_iter().for_each(|side| side.visit_names(visit)),
            Expr::All(items) | Expr::Any(items) => items.iter().for_each(|item| item.visit_names(visit)),
            Expr::Js(js) => js.visit_names(visit),
            Expr::Script(script) => script.names.iter().for_each(visit),
        }
    }
}

impl Template {
    /// Calls `visit` with every name that the text reads.
    pub fn visit_names(&self, visit: &mut VisitName<'_>) {
        for part in &self.parts {
            match part {
                TemplatePart::Text(_) | TemplatePart::Secret(_) => {}
                TemplatePart::Ref(reference) => visit(&reference.name),
                TemplatePart::Expr(expr) => expr.visit_names(visit),
            }
        }
    }
}

impl Data {
    /// Calls `visit` with every name that the value reads.
    pub fn visit_names(&self, visit: &mut VisitName<'_>) {
        self.visit(&mut |template| template.visit_names(visit));
    }
}

impl Js {
    /// Calls `visit` with every name that the expression reads.
    pub fn visit_names(&self, visit: &mut VisitName<'_>) {
        match self {
            Js::Literal(_) | Js::Undefined | Js::Special(_) => {}
            Js::Name(name) => visit(name),
            Js::Template(parts) => parts.iter().for_each(|part| part.visit_names(visit)),
            Js::List(items) => {
                for item in items {
                    let (ListItem::One(inner) | ListItem::Spread(inner)) = item;
                    inner.visit_names(visit);
                }
            }
            Js::Object(properties) => {
                for property in properties {
                    match property {
                        Property::Pair(key, value) => [key, value].into_iter().for_each(|side| side.visit_names(visit)),
                        Property::Spread(inner) => inner.visit_names(visit),
                    }
                }
            }
            Js::Member(left, right, _) | Js::Binary(_, left, right) | Js::Logic(_, left, right) => {
                [left, right].into_iter().for_each(|side| side.visit_names(visit));
            }
            Js::Chain(inner) | Js::Unary(_, inner) | Js::Placed(inner, _) => inner.visit_names(visit),
            Js::Choice(parts) => parts.iter().for_each(|part| part.visit_names(visit)),
            Js::Computed(computed) => computed.0.visit_names(visit),
        }
    }
}
