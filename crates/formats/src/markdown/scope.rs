//! The names in scope of an expression.

use std::collections::HashMap;
use std::sync::Arc;

use flowloom_core::value::{Map, Value};

use super::expression::CheckedExpression;

/// The meaning of a name at run time.
#[derive(Clone, Debug)]
pub(super) enum Meaning {
    /// A variable.
    Variable,
    /// A helper of a loop.
    Helper,
    /// A helper with a constant value.
    Constant(Value),
    /// An expression that is inserted wherever the name is used, because its value cannot be in a variable.
    Inserted(Arc<CheckedExpression>),
}

impl Meaning {
    /// An empty helper object.
    pub(super) fn empty_helper() -> Meaning {
        Meaning::Constant(Map::new().into())
    }
}

/// The names of a scope. Cloning is cheap.
#[derive(Clone, Debug, Default)]
pub(super) struct ScopeNames {
    known: Arc<HashMap<String, Meaning>>,
    /// The names in the order of their declaration.
    order: Arc<Vec<String>>,
    /// Names that later actions will set.
    later: Arc<Vec<String>>,
    /// Names of the enclosing scopes.
    outside: Arc<Vec<String>>,
    /// The results inside of earlier blocks, with the expressions that read them here.
    inside: Arc<Vec<(String, String)>>,
    /// The action whose attributes are being compiled, and its helper.
    own: Option<(String, Meaning)>,
    is_nested: bool,
}

impl ScopeNames {
    /// The names of a block inside this scope.
    pub(super) fn inner_scope(&self) -> ScopeNames {
        let outside = Arc::new(self.order.iter().chain(&*self.outside).cloned().collect());
        ScopeNames { outside, is_nested: true, ..ScopeNames::default() }
    }

    /// Adds a name; `false` if it is taken.
    pub(super) fn add_name(&mut self, name: &str, meaning: Meaning) -> bool {
        if self.known.contains_key(name) {
            return false;
        }
        Arc::make_mut(&mut self.known).insert(name.to_owned(), meaning);
        Arc::make_mut(&mut self.order).push(name.to_owned());
        true
    }

    /// The same names with an action's own helper, which shadows outer ones.
    pub(super) fn with_own(&self, action: &str, meaning: Meaning) -> ScopeNames {
        ScopeNames { own: Some((format!("${action}"), meaning)), ..self.clone() }
    }

    /// Notes the names of later actions.
    pub(super) fn set_later(&mut self, names: Vec<String>) {
        self.later = Arc::new(names);
    }

    pub(super) fn find_meaning(&self, name: &str) -> Option<Meaning> {
        match &self.own {
            Some((own, meaning)) if name == "$" || name == own => Some(meaning.clone()),
            _ => self.known.get(name).cloned(),
        }
    }

    pub(super) fn all_names(&self) -> impl Iterator<Item = &str> {
        self.order.iter().map(String::as_str)
    }

    pub(super) fn is_later(&self, name: &str) -> bool {
        self.later.iter().any(|later| later == name)
    }

    pub(super) fn is_outside(&self, name: &str) -> bool {
        self.outside.iter().any(|outside| outside == name)
    }

    /// Notes the results inside of a block with the result `block`.
    pub(super) fn add_inside(&mut self, block: &str, results: Vec<String>, is_loop: bool) {
        let item = if is_loop { ".at(-1)" } else { "" };
        let reads = results.into_iter().map(|name| (name.clone(), format!("{block}{item}.{name}")));
        Arc::make_mut(&mut self.inside).extend(reads);
    }

    /// The expression that reads a result inside of an earlier block.
    pub(super) fn find_inside(&self, name: &str) -> Option<&str> {
        self.inside.iter().find(|(inside, _)| inside == name).map(|(_, read)| read.as_str())
    }

    pub(super) fn is_root(&self) -> bool {
        !self.is_nested
    }
}
