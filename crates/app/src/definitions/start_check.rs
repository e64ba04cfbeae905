//! Whether runs of a definition can start.

use flowloom_core::value::Value;

use super::catalog::CatalogEntry;
use super::error::DefinitionError;
use crate::error::AppError;
use crate::runs::inputs::check_message;

impl CatalogEntry {
    /// Fails unless runs with these inputs can start. A schedule would find out only when it is due, when nobody looks.
    pub fn check_start(&self, inputs: &Value) -> Result<(), AppError> {
        let prepared = self.prepared.as_ref().ok_or_else(|| self.invalid_error())?;
        prepared.plan.check_inputs(inputs).map_or(Ok(()), Err)?;
        Ok(check_message(&prepared.plan, inputs)?)
    }

    /// The error that the definition has errors.
    pub(crate) fn invalid_error(&self) -> DefinitionError {
        DefinitionError::Invalid { id: self.id.clone(), problems: self.problems.clone() }
    }
}
