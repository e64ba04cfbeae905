//! [`KeyedCommand`]: a command of a call with an idempotency key. The command and the use of the key are one transaction.

use flowloom_core::hash::Hash;
use flowloom_core::id::RunId;

use crate::db::{DbConnection, params};
use crate::error::StoreError;

/// A call under an idempotency key that sends a command to a run, instead of starting the run for which its key is reserved.
#[derive(Clone, Debug)]
pub struct KeyedCommand {
    /// The user who made the call.
    pub user: String,
    /// The value of the header.
    pub key: String,
    /// The run for which the key is reserved.
    pub reserved: RunId,
    /// The run to which the key is bound from now on.
    pub run: RunId,
}

impl KeyedCommand {
    /// The id of the command of the call that `user` makes with `key`. Each repetition of the call sends the same command.
    pub fn command_id(user: &str, key: &str) -> String {
        format!("call-{}", Hash::of_bytes(format!("{user}\0{key}").as_bytes()))
    }

    /// Fails with `KeyBound` if the same call was faster elsewhere. Otherwise no other call is until this transaction ends.
    pub(crate) fn check_reserved(&self, db: &DbConnection) -> Result<(), StoreError> {
        let sql = "select run from idempotency_key where user_id = $1 and key = $2";
        let run = db.query_first_for_update(sql, params![&self.user, &self.key], |row| row.get::<String>(0))?;
        match run.is_some_and(|run| run == self.reserved.to_string()) {
            true => Ok(()),
            false => Err(StoreError::KeyBound),
        }
    }

    /// Binds the key to the run, in the transaction that stores the command.
    pub(crate) fn bind_key(&self, db: &DbConnection) -> Result<(), StoreError> {
        let sql = "update idempotency_key set run = $1 where user_id = $2 and key = $3";
        db.execute_unchecked(sql, params![&self.run.to_string(), &self.user, &self.key])
    }
}
