//! Whether runs of a definition can start.

use flowloom_core::value::Value;

use super::catalog::CatalogEntry;
use super::error::DefinitionError;
use crate::error::AppError;
use crate::runs::inputs::{check_conversation_inputs, check_message};

impl CatalogEntry {
    /// Fails unless runs with these inputs can start. Without the check, a schedule would fail only when it is due,
    /// unattended.
    pub fn check_start(&self, inputs: &Value) -> Result<(), AppError> {
        let prepared = self.prepared.as_ref().ok_or_else(|| self.invalid_error())?;
        self.check_names(inputs)?;
        prepared.plan.check_inputs(inputs).map_or(Ok(()), Err)?;
        Ok(check_message(&prepared.plan, inputs)?)
    }

    /// Fails if an input of a caller would be ignored: it has no name, or none that the conversation reads.
    pub fn check_names(&self, inputs: &Value) -> Result<(), AppError> {
        let Some(prepared) = &self.prepared else { return Ok(()) };
        if let Some(failure) = prepared.plan.inputs.check_names(inputs) {
            return Err(failure.into());
        }
        // A message that is missing is the more important problem.
        let named = inputs.as_map().filter(|_| check_message(&prepared.plan, inputs).is_ok());
        Ok(named.map_or(Ok(()), |named| check_conversation_inputs(&prepared.plan, named))?)
    }

    /// The inputs of a run that is given none.
    pub fn no_inputs(&self) -> Value {
        self.prepared.as_ref().map_or(Value::Null, |prepared| prepared.plan.inputs.none_given())
    }

    /// The error that the definition has errors.
    pub(crate) fn invalid_error(&self) -> DefinitionError {
        DefinitionError::Invalid { id: self.id.clone(), problems: self.problems.clone() }
    }
}
