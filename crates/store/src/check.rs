//! Checks stored data: the list of runs, and the whole database for `flowloom doctor --read-data`. The database is read in
//! pages, so runs and servers that use it continue, and the memory in use does not grow with the database.

use std::collections::HashSet;

use flowloom_core::event::{Event, Record, RunCreated};
use flowloom_core::hash::Hash;
use flowloom_core::id::RunId;
use flowloom_core::state::RunState;
use flowloom_core::status::Status;
use flowloom_core::trigger::RunTrigger;
use flowloom_runtime::JournalError;

use crate::damage::Damage;
use crate::db::{CheckedPages, params};
use crate::error::{Corruption, StoreError};
use crate::event_effects::status_after;
use crate::journal::parse_memory;
use crate::run_row::{RUN_COLUMNS, RunRow, StoredRunRow};
use crate::store::Store;

/// Rows read at a time.
const PAGE_ROWS: u32 = 1000;

/// The rows that [`Store::check_database`] read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckedRows {
    /// Number of runs whose rows are readable.
    pub runs: u64,
    /// Number of their events.
    pub events: u64,
}

impl Store {
    /// Compares every row with its checksum, and each run with its events. Reports damage. Fails if the
    /// database cannot be read; damage is reported instead.
    pub fn check_database(&self, report: &mut dyn FnMut(Damage)) -> Result<CheckedRows, StoreError> {
        let mut check = DatabaseCheck::new(self, report);
        check.check_pages(CheckedPages::All)?;
        check.check_runs()?;
        check.check_memory()?;
        Ok(check.checked)
    }

    /// Compares the rows of all runs with their checksums, without reading events. Returns the damage. Fails if
    /// the database cannot be read; damage is returned instead.
    pub fn check_run_list(&self) -> Result<Vec<Damage>, StoreError> {
        let mut found = Vec::new();
        let mut report = |damage| found.push(damage);
        let mut check = DatabaseCheck::new(self, &mut report);
        check.check_pages(CheckedPages::Runs)?;
        check.for_each_run(|_, _| Ok(()))?;
        Ok(found)
    }

    /// The first problem with the pages of the list of runs.
    pub(crate) fn check_run_pages(&self) -> Result<Option<String>, StoreError> {
        let mut found = None;
        let mut report = |damage: Damage| found = found.take().or(Some(damage.problem));
        DatabaseCheck::new(self, &mut report).check_pages(CheckedPages::Runs)?;
        Ok(found)
    }

    fn read_run_page(&self, after: i64) -> Result<Vec<NumberedRow>, StoreError> {
        let sql = format!("select {RUN_COLUMNS} from run where number > $1 order by number limit $2");
        self.read_long_with(|db| {
            db.query_rows(&sql, params![after, PAGE_ROWS], |row| {
                Ok(NumberedRow { number: row.get(14)?, read: StoredRunRow::read(row) })
            })
        })
    }
}

/// A row of the list of runs, which may be damaged.
struct NumberedRow {
    number: i64,
    read: Result<StoredRunRow, StoreError>,
}

/// A check in progress.
struct DatabaseCheck<'a> {
    store: &'a Store,
    report: &'a mut dyn FnMut(Damage),
    checked: CheckedRows,
    /// The bundles that were read.
    bundles: HashSet<Hash>,
}

impl<'a> DatabaseCheck<'a> {
    fn new(store: &'a Store, report: &'a mut dyn FnMut(Damage)) -> DatabaseCheck<'a> {
        DatabaseCheck { store, report, checked: CheckedRows::default(), bundles: HashSet::new() }
    }

    /// The value of a read; `None` if it found damage, which is reported, or a run that was deleted meanwhile.
    fn sort_out<T>(&mut self, run: Option<RunId>, read: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
        match read {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.is_damage() => {
                let problem = match &error {
                    StoreError::Corrupt(corruption) => corruption.to_string(),
                    error => error.to_string(),
                };
                match run {
                    Some(run) => self.report_run(run, &problem),
                    None => (self.report)(Damage { run: error.damaged_run(), problem }),
                }
                Ok(None)
            }
            Err(StoreError::Journal(JournalError::RunNotFound(_))) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn report_run(&mut self, run: RunId, problem: &str) {
        (self.report)(Damage { run: Some(run), problem: format!("run {run}: {problem}") });
    }

    fn check_pages(&mut self, pages: CheckedPages) -> Result<(), StoreError> {
        let problems = self.store.read_long_with(|db| db.list_damaged_pages(pages));
        for problem in self.sort_out(None, problems)?.unwrap_or_default() {
            (self.report)(Damage { run: None, problem });
        }
        Ok(())
    }

    fn check_runs(&mut self) -> Result<(), StoreError> {
        self.for_each_run(|check, stored| {
            check.checked.runs += 1;
            check.check_run(&stored)
        })
    }

    fn for_each_run(
        &mut self,
        mut visit: impl FnMut(&mut Self, StoredRunRow) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut last = 0;
        loop {
            let page = self.store.read_run_page(last);
            let page = self.sort_out(None, page)?.unwrap_or_default();
            let Some(NumberedRow { number, .. }) = page.last() else { return Ok(()) };
            last = *number;
            for NumberedRow { read, .. } in page {
                if let Some(stored) = self.sort_out(None, read)? {
                    visit(self, stored)?;
                }
            }
        }
    }

    fn check_run(&mut self, stored: &StoredRunRow) -> Result<(), StoreError> {
        let run = stored.row.id;
        let mut fold = RunFold::default();
        loop {
            let read = self.store.read_events(run, fold.state.seq, PAGE_ROWS);
            let Some(records) = self.sort_out(Some(run), read)? else { return Ok(()) };
            for record in &records {
                if let Err(problem) = fold.add(record, stored) {
                    self.report_run(run, &problem);
                    return Ok(());
                }
            }
            self.checked.events += records.len() as u64;
            if records.len() < PAGE_ROWS as usize {
                break;
            }
        }
        if let Some(created) = &fold.state.created
            && self.bundles.insert(created.bundle)
        {
            let read = self.store.read_bundle(created.bundle);
            self.sort_out(Some(run), read)?;
        }
        match fold.contradiction(stored) {
            Some(problem) if !self.has_changed(stored)? => self.report_run(run, &problem),
            _ => {}
        }
        Ok(())
    }

    /// Whether a run got further, or was deleted, after its row was read.
    fn has_changed(&self, stored: &StoredRunRow) -> Result<bool, StoreError> {
        let sql = "select status_seq from run where id = $1";
        let id = stored.row.id.to_string();
        let seq: Option<u64> =
            self.store.read_long_with(|db| db.query_first(sql, params![&id], |row| row.get_count(0)))?;
        Ok(seq != Some(stored.status_seq))
    }

    fn check_memory(&mut self) -> Result<(), StoreError> {
        let (mut namespace, mut key) = (String::new(), String::new());
        loop {
            let sql = "select namespace, key, value, checksum from memory where (namespace, key) > ($1, $2) \
                       order by namespace, key limit $3";
            let page = self.store.read_long_with(|db| {
                db.query_rows(sql, params![&namespace, &key, PAGE_ROWS], |row| {
                    let (namespace, key): (String, String) = (row.get(0)?, row.get(1)?);
                    let parsed = parse_memory(&namespace, &key, &row.get::<String>(2)?, row.get(3)?);
                    Ok((namespace, key, parsed))
                })
            });
            let page = self.sort_out(None, page)?.unwrap_or_default();
            let Some((last_namespace, last_key, _)) = page.last() else { return Ok(()) };
            (namespace, key) = (last_namespace.clone(), last_key.clone());
            for (_, _, parsed) in page {
                self.sort_out(None, parsed)?;
            }
        }
    }
}

/// The state accumulated from the events of a run.
#[derive(Default)]
struct RunFold {
    state: RunState,
    /// The last status that an event set, and the position of this event.
    status: Option<(Status, u64)>,
    /// The status at the time of the run's row.
    status_of_row: Option<Status>,
}

impl RunFold {
    /// Adds an event; the problem if it cannot follow the ones before it, or contradicts the run's row.
    fn add(&mut self, record: &Record, stored: &StoredRunRow) -> Result<(), String> {
        if let Event::RunCreated(created) = &record.event
            && !is_created_by(stored, record.at, created)
        {
            return Err("its row differs from its run_created event".to_owned());
        }
        self.state.apply(record).map_err(|illegal| illegal.to_string())?;
        let status = match &record.event {
            Event::RunCreated(_) => Some(Status::Queued),
            event => status_after(event),
        };
        if let Some(status) = status {
            self.status = Some((status, record.seq));
            if record.seq <= stored.status_seq {
                self.status_of_row = Some(status);
            }
        }
        Ok(())
    }

    /// How the row contradicts the events.
    fn contradiction(&self, stored: &StoredRunRow) -> Option<String> {
        let RunRow { status, finished_at, .. } = &stored.row;
        let expected = self.status_of_row.map(Status::name)?;
        if status != expected {
            return Some(format!("its row says {status}, but its events say {expected}"));
        }
        match self.status {
            Some((later, seq)) if seq > stored.status_seq => {
                Some(format!("its row says {status}, but event {seq} says {}", later.name()))
            }
            _ if *finished_at != self.state.finished_at => Some("its row has another end than its events".to_owned()),
            _ => None,
        }
    }
}

fn is_created_by(stored: &StoredRunRow, at: u64, created: &RunCreated) -> bool {
    let StoredRunRow { row, bundle, .. } = stored;
    // Old versions did not store the workflow and the thread in the row.
    let is_same = |row: &Option<String>, event: &Option<String>| row.is_none() || row == event;
    row.created_at == at
        && row.format == created.format.name()
        && row.name == created.name
        && row.user == created.user
        && *bundle == created.bundle.to_string()
        && is_same(&row.workflow, &created.workflow)
        && is_same(&row.thread_key, &created.thread_key)
        && row.project == created.project
        && row.forked_from == created.fork.as_ref().map(|fork| fork.run)
        && (row.trigger.is_none() || row.trigger == created.trigger.as_ref().map(RunTrigger::listed_part))
}

impl StoreError {
    /// The run whose row is damaged, if it is that.
    fn damaged_run(&self) -> Option<RunId> {
        match self {
            StoreError::Corrupt(Corruption::Run(run) | Corruption::RunStatus(run)) => Some(*run),
            _ => None,
        }
    }
}
