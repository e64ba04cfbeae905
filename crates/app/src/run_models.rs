//! The models of a run. A child run shares them with the run that starts it if its definition may use the same ones:
//! connections stay open, and a script of answers continues.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flowloom_runtime::effects::Model;

use crate::definitions::bundle::Bundle;

/// Models, with what a definition may choose from them.
pub(crate) struct RunModels {
    /// Differs from that of all other models of the process.
    pub(crate) number: u64,
    pub(crate) model: Arc<dyn Model>,
    default: Option<String>,
    aliases: Vec<(String, String)>,
    is_operators: bool,
}

impl RunModels {
    /// The models `model`, which were built for a bundle.
    pub(crate) fn new(model: Arc<dyn Model>, bundle: &Bundle) -> RunModels {
        static LAST_NUMBER: AtomicU64 = AtomicU64::new(0);
        RunModels {
            number: LAST_NUMBER.fetch_add(1, Ordering::Relaxed),
            model,
            default: bundle.model.clone(),
            aliases: bundle.aliases.clone(),
            is_operators: bundle.tenant.is_none(),
        }
    }

    /// Whether they are the models that a definition may use. Only the operator's own may name a file.
    pub(crate) fn fits_bundle(&self, bundle: &Bundle) -> bool {
        self.is_operators == bundle.tenant.is_none() && self.default == bundle.model && self.aliases == bundle.aliases
    }
}
