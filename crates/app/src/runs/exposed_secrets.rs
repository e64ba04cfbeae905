//! Secrets that a chosen value could carry away. The output of a step flows through its run and through the runs around it.
//! A person other than the operator who chooses it could send a secret without hosts to a host of their own.

use flowloom_core::code::Code;
use flowloom_core::error::StepFailure;
use flowloom_core::event::{Event, RunCreated};
use flowloom_core::id::RunId;
use flowloom_runtime::command::CommandAction;
use flowloom_store::{Corruption, StoreError};

use crate::config::Config;
use crate::definitions::secret_check::is_bound;
use crate::engine_factory::{CompiledBundle, EngineFactory};
use crate::error::AppError;

impl EngineFactory {
    /// Fails with `SecretDenied` if a command of a caller with a key gives a step an output that could carry a secret
    /// away.
    pub(crate) fn check_chosen_output(&self, receiver: RunId, action: &CommandAction) -> Result<(), AppError> {
        if !action.chooses_output() {
            return Ok(());
        }
        self.refuse_exposed_secret(receiver, "an output of your choice")
    }

    /// Fails with `SecretDenied` if what the definition of a user returns to a step of `run` could carry a secret away.
    pub(crate) fn check_definition_of_user(&self, run: RunId, user: &str) -> Result<(), AppError> {
        self.refuse_exposed_secret(run, &format!("what a workflow of the user {user} returns"))
    }

    fn refuse_exposed_secret(&self, run: RunId, chosen: &str) -> Result<(), AppError> {
        let Some(name) = self.find_exposed_secret(run)? else { return Ok(()) };
        let message = format!(
            "{chosen} could send the secret {name} anywhere, because it is bound to no host; the operator can set `hosts` of \
             [secrets.{name}]"
        );
        Err(StepFailure::new(Code::SecretDenied, message).into())
    }

    /// A secret without hosts that a run, or a run around it, can send; `None` if there is none.
    fn find_exposed_secret(&self, run: RunId) -> Result<Option<String>, AppError> {
        let mut next = Some(run);
        while let Some(run) = next {
            let created = self.read_created(run)?;
            let ready = self.load_bundle(created.bundle).map_err(|error| error.of_run(run))?;
            if let Some(name) = find_unbound_secret(&self.config, &ready) {
                return Ok(Some(name.to_owned()));
            }
            next = created.parent.map(|parent| parent.run);
        }
        Ok(None)
    }

    fn read_created(&self, run: RunId) -> Result<Box<RunCreated>, AppError> {
        match self.store.read_events(run, 0, 1)?.into_iter().next().map(|record| record.event.clone()) {
            Some(Event::RunCreated(created)) => Ok(created),
            _ => Err(StoreError::Corrupt(Corruption::NotCreated(run)).into()),
        }
    }
}

/// A secret without hosts that runs of a bundle can send. Only the operator's own definitions can use one.
fn find_unbound_secret<'a>(config: &Config, ready: &'a CompiledBundle) -> Option<&'a str> {
    if ready.bundle.tenant.is_some() || ready.bundle.is_steered {
        return None;
    }
    ready.reachable_secrets().iter().map(String::as_str).find(|name| !is_bound(config, name))
}
