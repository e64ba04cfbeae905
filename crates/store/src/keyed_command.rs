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

    /// Fails with `KeyBound` if the same call was faster elsewhere: it has bound the key, or has started the reserved run.
    /// Otherwise no other call is faster until this transaction ends.
    pub(crate) fn check_unused(&self, db: &DbConnection) -> Result<(), StoreError> {
        check_not_started(db, &self.user, self.reserved)
    }

    /// Binds the key to the run, in the transaction that stores the command.
    pub(crate) fn bind_key(&self, db: &DbConnection) -> Result<(), StoreError> {
        let sql = "update idempotency_key set run = $1 where user_id = $2 and key = $3";
        db.execute_unchecked(sql, params![&self.run.to_string(), &self.user, &self.key])
    }
}

/// Locks the idempotency key of a user that is reserved for a run. Fails with `KeyBound` if the key is not reserved for it
/// any more, or if the run has started. Otherwise it does not start until this transaction ends.
pub(crate) fn check_not_started(db: &DbConnection, user: &str, reserved: RunId) -> Result<(), StoreError> {
    check_still_reserved(db, user, reserved)?;
    // A statement of its own sees a run that was stored while this transaction waited for the lock.
    let sql = "select number from run where id = $1";
    match db.query_first(sql, params![&reserved.to_string()], |row| row.get::<i64>(0))? {
        None => Ok(()),
        Some(_) => Err(StoreError::KeyBound),
    }
}

/// Locks the idempotency key of a user that is reserved for a run. Fails with `KeyBound` if there is none: the same call has
/// sent a command to another run, and the key is bound to that.
pub(crate) fn check_still_reserved(db: &DbConnection, user: &str, reserved: RunId) -> Result<(), StoreError> {
    let sql = "select key from idempotency_key where user_id = $1 and run = $2";
    let found = db.query_first_for_update(sql, params![user, &reserved.to_string()], |row| row.get::<String>(0))?;
    found.map(drop).ok_or(StoreError::KeyBound)
}
