//! Calls that start something, by the key their caller gave them: sent twice, they start it once.

use flowloom_core::error::StepError;
use flowloom_core::id::RunId;
use rusqlite::{OptionalExtension, params};

use crate::Store;
use crate::failure::failed;

/// What became of the key of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Started {
    /// The run that the same call starts, or has started.
    Run(RunId),
    /// The key was used for another call.
    Other,
}

impl Store {
    /// Takes `key` of `holder` for the call whose hash is `request`, which starts `run`, unless it was taken before.
    pub async fn start_once(
        &self,
        (holder, key): (&str, &str),
        request: &str,
        run: RunId,
        at: u64,
    ) -> Result<Started, StepError> {
        let (holder, key, request) = (holder.to_owned(), key.to_owned(), request.to_owned());
        let taken = (holder.clone(), key.clone());
        let wanted = request.clone();
        let insert = move |connection: &rusqlite::Connection| {
            let sql = "insert or ignore into started values (?, ?, ?, ?, ?)";
            connection.execute(sql, params![holder, key, request, run.to_string(), at as i64])?;
            Ok(Ok(()))
        };
        self.writer.submit(Box::new(insert)).await?;
        let reader = self.reader();
        let sql = "select request, run from started where holder = ? and key = ?";
        let mut statement = reader.prepare_cached(sql).map_err(failed)?;
        let found = statement
            .query_row(params![taken.0, taken.1], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)));
        Ok(match found.optional().map_err(failed)? {
            Some((request, run)) if request == wanted => RunId::parse(&run).map_or(Started::Other, Started::Run),
            _ => Started::Other,
        })
    }
}
