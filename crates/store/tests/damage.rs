//! Flipped bits in a database: the store returns the written data, or an error.

mod support;

use std::collections::BTreeMap;
use std::path::Path as FilePath;
use std::sync::Arc;

use flowloom_core::code::Code;
use flowloom_core::event::{Event, MemoryWrite, Record};
use flowloom_core::hash::Hash;
use flowloom_core::id::RunId;
use flowloom_core::path::Path;
use flowloom_core::plan::EffectClass;
use flowloom_core::status::Status;
use flowloom_core::trigger::RunTrigger;
use flowloom_runtime::journal::Journal;
use flowloom_store::{Damage, Durability, RunFilter, RunRow, Store, StoreError};

use support::{TestDatabase, append_records, created_event, created_with_bundle, finished_event, new_record, run_id};

/// Number of damaged copies of each file.
const SEEDS: u64 = 100;

/// Number of runs in the database.
const RUNS: u8 = 12;

/// The data that the store returns about one run.
#[derive(Clone, Debug, PartialEq)]
struct ReadRun {
    row: RunRow,
    records: Vec<Arc<Record>>,
    bundle: Arc<str>,
}

/// The bytes of the database file and of its log.
struct DatabaseFiles {
    database: Vec<u8>,
    log: Vec<u8>,
}

impl DatabaseFiles {
    fn read(folder: &FilePath) -> DatabaseFiles {
        let read = |name: &str| std::fs::read(folder.join(name)).unwrap_or_default();
        DatabaseFiles { database: read("flowloom.db"), log: read("flowloom.db-wal") }
    }

    fn write(&self, folder: &FilePath) {
        std::fs::write(folder.join("flowloom.db"), &self.database).expect("written");
        std::fs::write(folder.join("flowloom.db-wal"), &self.log).expect("written");
    }
}

/// Pseudo-random numbers.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}

/// Writes runs in different states. Half of them are in the log only.
async fn write_runs(folder: &FilePath) -> DatabaseFiles {
    for part in [0..RUNS / 2, RUNS / 2..RUNS] {
        let store = Store::open(folder, Durability::Normal).expect("it opens");
        for n in part.clone() {
            write_run(&store, n).await;
        }
        if part.end == RUNS {
            // The log is moved into the database when the last process closes it.
            return DatabaseFiles::read(folder);
        }
    }
    unreachable!("the last part returns")
}

async fn write_run(store: &Store, n: u8) {
    let run = run_id(n);
    let lease = store.begin_run(run).expect("new");
    let bundle = store.hold_bundle(&format!("bundle {} {}", n % 3, "x".repeat(700)));
    let mut records = vec![
        new_record(run, 1, created_in_background(bundle)),
        new_record(run, 2, Event::RunStarted { epoch: 1 }),
        new_record(run, 3, started_event()),
        new_record(run, 4, finished_event(format!("the output of run {n} {}", "é".repeat(300)).into())),
        at_second_step(new_record(run, 5, started_event())),
        at_second_step(new_record(run, 6, finished_event(format!("{} {n}", "large ".repeat(900)).into()))),
    ];
    let end = |status| Event::RunFinished { status, error: None, failed: None, thread: None };
    match n % 4 {
        0 => records.push(new_record(run, 7, end(Status::Succeeded))),
        1 => records.push(new_record(run, 7, end(Status::Failed))),
        2 => records.push(new_record(run, 7, Event::RunSuspended { status: Status::Waiting })),
        _ => {}
    }
    append_records(store, lease, records).await.expect("stored");
    let write = MemoryWrite { key: format!("key {n}"), value: Some(format!("memory {n}").into()) };
    store.write_memory("ann".to_owned(), vec![write]).await.expect("stored");
}

/// The first event of a run with everything that is not in its row.
fn created_in_background(bundle: Hash) -> Event {
    let Event::RunCreated(mut created) = created_with_bundle(bundle) else { panic!("another event") };
    created.trigger =
        Some(RunTrigger { kind: "openai".into(), id: Some("a".to_owned()), call: None, background: true });
    Event::RunCreated(created)
}

fn started_event() -> Event {
    let (target, hash) = ("https://example.com".into(), Hash::of_bytes(b"a request"));
    Event::StepStarted { kind: "http".into(), target, hash, class: EffectClass::AtLeastOnce }
}

fn at_second_step(record: Arc<Record>) -> Arc<Record> {
    Arc::new(Record { path: Path::parse("/b").expect("a path"), ..(*record).clone() })
}

fn read_run(store: &Store, id: RunId) -> Result<Option<ReadRun>, StoreError> {
    let Some(row) = store.get_run(id)? else { return Ok(None) };
    let records = store.read_events(id, 0, u32::MAX)?;
    let bundle = match records.first().map(|record| &record.event) {
        Some(Event::RunCreated(created)) => store.read_bundle(created.bundle)?,
        _ => "".into(),
    };
    Ok(Some(ReadRun { row: RunRow { is_driven: false, ..row }, records, bundle }))
}

fn is_prefix(read: &ReadRun, written: &ReadRun) -> bool {
    written.records.starts_with(&read.records) && read.bundle == written.bundle && read.row.id == written.row.id
}

/// Reads everything from a damaged copy. Returns how many of the runs are reported as damaged or missing.
fn check_copy(folder: &FilePath, written: &BTreeMap<RunId, ReadRun>, what: &str) -> usize {
    let Ok(store) = Store::open(folder, Durability::Normal) else { return written.len() };
    let mut lost = 0;
    for (id, run) in written {
        match read_run(&store, *id) {
            Ok(Some(read)) if read == *run => {}
            // The tail of the record of a run in progress cannot be missed.
            Ok(Some(read)) if run.row.status == "running" && is_prefix(&read, run) => lost += 1,
            Ok(Some(read)) => panic!("{what}: {read:#?}\n is not {run:#?}"),
            Ok(None) | Err(_) => lost += 1,
        }
    }
    if let Ok((rows, damaged)) = store.list_intact_runs(&RunFilter { limit: u32::from(RUNS), ..RunFilter::default() }) {
        for row in &rows {
            assert_eq!(RunRow { is_driven: false, ..row.clone() }, written[&row.id].row, "{what}");
        }
        assert!(rows.len() == written.len() || !damaged.is_empty(), "{what}: runs are missing from the list");
    }
    lost
}

fn read_all(store: &Store) -> BTreeMap<RunId, ReadRun> {
    let ids = (0..RUNS).map(run_id);
    ids.filter_map(|id| Some((id, read_run(store, id).expect("readable")?))).collect()
}

/// A copy of the files with one flipped bit.
fn flip_bit(bytes: &[u8], numbers: &mut Numbers) -> (Vec<u8>, usize) {
    let mut copy = bytes.to_vec();
    let place = numbers.next(copy.len());
    copy[place] ^= 1 << numbers.next(8);
    (copy, place)
}

fn seeds() -> u64 {
    std::env::var("FLOWLOOM_DAMAGE_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(SEEDS)
}

#[tokio::test]
async fn a_flipped_bit_in_the_database_is_never_shown_as_data() {
    let folder = tempfile::tempdir().expect("a folder");
    write_runs(folder.path()).await;
    let connection = rusqlite::Connection::open(folder.path().join("flowloom.db")).expect("it opens");
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).expect("moved");
    let written = read_all(&Store::open(folder.path(), Durability::Normal).expect("it opens"));
    let files = DatabaseFiles::read(folder.path());
    assert_eq!((files.log.len(), written.len()), (0, usize::from(RUNS)));
    let mut lost = 0;
    for seed in 0..seeds() {
        let (database, place) = flip_bit(&files.database, &mut Numbers(seed));
        let copy = tempfile::tempdir().expect("a folder");
        DatabaseFiles { database, log: Vec::new() }.write(copy.path());
        lost += check_copy(copy.path(), &written, &format!("seed {seed}, byte {place}"));
    }
    assert!(lost > 0, "no seed damaged anything");
}

#[tokio::test]
async fn a_flipped_bit_in_the_log_undoes_whole_commits() {
    let folder = tempfile::tempdir().expect("a folder");
    let files = write_runs(folder.path()).await;
    assert!(!files.log.is_empty());
    let copy = tempfile::tempdir().expect("a folder");
    files.write(copy.path());
    let written = read_all(&Store::open(copy.path(), Durability::Normal).expect("it opens"));
    assert_eq!(written.len(), usize::from(RUNS));
    for seed in 0..seeds() {
        let (log, place) = flip_bit(&files.log, &mut Numbers(seed));
        let copy = tempfile::tempdir().expect("a folder");
        DatabaseFiles { database: files.database.clone(), log }.write(copy.path());
        let Ok(store) = Store::open(copy.path(), Durability::Normal) else { continue };
        // SQLite drops the damaged commit and the later ones, as after a power failure. The rest is unchanged.
        for (id, run) in &written {
            if let Ok(Some(read)) = read_run(&store, *id) {
                assert_eq!(read, *run, "seed {seed}, byte {place}");
            }
        }
    }
}

fn report_of(store: &Store) -> Vec<Damage> {
    let mut found = Vec::new();
    store.check_database(&mut |damage| found.push(damage)).expect("readable");
    found
}

/// Changes that no program of ours makes, each with a part of the problem that is reported.
const CHANGES: [(&str, &str); 11] = [
    (
        "update event set data = replace(data, 'output of', 'outcome of') where data like '%output of run 1 %'",
        "event 4 of",
    ),
    ("update event set at = at + 1 where id % 4294967296 = 2 and id < 2 * 4294967296", "event 2 of"),
    ("delete from event where id % 4294967296 = 7", "event 7 of"),
    ("delete from event where id % 4294967296 = 2 and id < 2 * 4294967296", "event 2 of"),
    ("update event set id = id + 100 where id % 4294967296 = 7", "event 7 of"),
    ("update blob set content = replace(content, 'large large', 'small large')", "its output is damaged"),
    ("delete from blob", "its output is missing"),
    ("update bundle set content = replace(content, 'bundle', 'bungle')", "its content has another hash"),
    ("delete from bundle", "is missing from the database"),
    ("update run set status = 'failed' where status = 'succeeded'", "the checksum of its status is wrong"),
    ("update run set user_id = 'bob'", "the checksum of its row is wrong"),
];

async fn check_changes(place: &TestDatabase, run_sql: impl Fn(&str)) {
    let store = place.open();
    for n in 0..4 {
        write_run(&store, n).await;
    }
    assert_eq!(report_of(&store), []);
    run_sql(
        "create table kept_event as select * from event; create table kept_run as select * from run; \
             create table kept_blob as select * from blob; create table kept_bundle as select * from bundle",
    );
    for (change, problem) in CHANGES {
        run_sql(change);
        let found = report_of(&store);
        assert!(found.iter().any(|damage| damage.problem.contains(problem)), "{change}: {found:?}");
        for table in ["event", "blob", "bundle"] {
            run_sql(&format!("delete from {table}; insert into {table} select * from kept_{table}"));
        }
        run_sql("update run set status = (select status from kept_run where kept_run.id = run.id), user_id = 'ann'");
        assert_eq!(report_of(&store), [], "after {change}");
    }
    run_sql("update memory set value = '\"other\"' where key = 'key 1'");
    let memory = store.read_memory("ann", "key 1").await.expect_err("damaged");
    assert_eq!(memory.code(), Code::StoreCorrupt);
    assert!(report_of(&store)[0].problem.contains("\"key 1\""));
}

#[tokio::test]
async fn every_damage_to_a_sqlite_database_is_reported() {
    let place = TestDatabase::on_sqlite();
    let open = || rusqlite::Connection::open(place.database_file()).expect("it opens");
    check_changes(&place, |sql| open().execute_batch(sql).expect("changed")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_damage_to_a_postgres_database_is_reported() {
    let Some(place) = TestDatabase::on_postgres() else { return };
    let database = place.postgres.as_ref().expect("a database");
    check_changes(&place, |sql| database.run_sql(sql)).await;
}

#[tokio::test]
async fn a_row_that_contradicts_its_events_is_reported() {
    let place = TestDatabase::on_sqlite();
    let store = place.open();
    write_run(&store, 3).await;
    let lease_of_another = store.begin_run(run_id(9)).expect("new");
    append_records(&*store, lease_of_another, vec![new_record(run_id(9), 1, created_event(&store))])
        .await
        .expect("stored");
    // The status of another time, with the checksum that it had.
    let connection = rusqlite::Connection::open(place.database_file()).expect("it opens");
    let columns = "status, status_seq, status_checksum";
    let old = format!("create table kept as select id, {columns} from run");
    connection.execute_batch(&old).expect("kept");
    append_records(&*store, lease_of_another, vec![new_record(run_id(9), 2, Event::RunStarted { epoch: 1 })])
        .await
        .expect("stored");
    let restore = format!("update run set ({columns}) = (select {columns} from kept where kept.id = run.id)");
    connection.execute_batch(&restore).expect("restored");
    let found = report_of(&store);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].problem.contains("its row says queued, but event 2 says running"), "{found:?}");
}
