//! Checks the inputs that a node gives to its block.

use std::collections::HashSet;

use flowloom_core::code::Code;
use flowloom_core::diagnostic::Span;
use flowloom_core::expr::Data;

use super::blocks::BlockDefinition;
use crate::problems::Problems;

/// The inputs of a node.
pub(super) struct NodeInputs<'a> {
    /// The node.
    pub(super) node: &'a str,
    /// Where it names its block.
    pub(super) span: Span,
    pub(super) block: &'a BlockDefinition,
    pub(super) inputs: &'a [(String, Data, Span)],
}

impl NodeInputs<'_> {
    /// Reports inputs that are missing, unknown, or may not contain a secret.
    pub(super) fn check(&self, problems: &mut Problems) {
        let misspelt = self.report_missing(problems);
        self.warn_unknown(&misspelt, problems);
        self.report_secrets(problems);
    }

    fn given_names(&self) -> impl Iterator<Item = &str> {
        self.inputs.iter().map(|(name, _, _)| name.as_str())
    }

    /// Reports required inputs that are missing and have no default. Returns the names that seem to be misspelt ones of these.
    fn report_missing(&self, problems: &mut Problems) -> HashSet<String> {
        let mut misspelt = HashSet::new();
        if self.block.is_trigger() {
            return misspelt;
        }
        let given: HashSet<&str> = self.given_names().collect();
        for name in self.block.required_inputs().iter().filter(|name| !given.contains(name.as_str())) {
            let message =
                format_args!("the node {} gives no {name:?}, which the block {} requires", self.node, self.block.id);
            let meant = problems.find_similar(name, self.given_names()).map(str::to_owned);
            problems.add_error(Code::InputNotGiven, self.span, message).help = Some(match &meant {
                Some(meant) => format!("is {meant:?} meant to be it? rename it"),
                None => format!("add {name:?} to its inputs"),
            });
            misspelt.extend(meant);
        }
        misspelt
    }

    /// Warns about inputs that the block does not declare, which it would ignore. Those in `reported` are part of other
    /// problems.
    fn warn_unknown(&self, reported: &HashSet<String>, problems: &mut Problems) {
        let Some(declared) = self.block.all_inputs() else { return };
        let is_unknown = |name: &String| !declared.contains_key(name.as_str()) && !reported.contains(name);
        for (name, _, span) in self.inputs.iter().filter(|(name, _, _)| is_unknown(name)) {
            let message = format_args!("the block {} has no input {name:?}", self.block.id);
            let names: Vec<&str> = declared.keys().map(|name| &**name).collect();
            let meant = problems.find_similar(name, names.iter().copied());
            problems.add_warning(Code::UnknownKey, *span, message).help = Some(match meant {
                Some(meant) => format!("did you mean {meant:?}?"),
                None => format!("it has {}", names.join(", ")),
            });
        }
    }

    /// Reports secrets in inputs of blocks that cannot keep them: a model or a block of Python would see them.
    fn report_secrets(&self, problems: &mut Problems) {
        if self.block.function_id().is_some() {
            return;
        }
        for (input, data, span) in self.inputs {
            let Some(name) = data.first_secret() else { continue };
            let message =
                format!("the secret {name} cannot be in the input {input:?} of the block {:?}", self.block.id);
            problems.add_error(Code::SecretPlace, *span, message).help =
                Some("secrets can be in the inputs of blocks that call a function, such as http_request".to_owned());
        }
    }
}
