//! Behaviour that every journal must have: the same tests on the journal in memory, on SQLite and on Postgres.

mod support;

use std::sync::Arc;

use flowloom_core::code::Code;
use flowloom_core::event::{Event, MemoryWrite, Record};
use flowloom_core::hash::Hash;
use flowloom_core::status::Status;
use flowloom_core::value::Value;
use flowloom_runtime::journal::{Journal, Lease, thread_namespace};
use flowloom_runtime::memory::MemoryJournal;

use support::{TestDatabase, append_records, created_with_bundle, finished_event, new_record, run_id};

/// Runs each of these tests on every journal.
macro_rules! on_all {
    ($($name:ident),* $(,)?) => {
        mod in_memory {
            $(#[tokio::test]
            async fn $name() {
                super::$name(&super::MemoryJournal::new()).await;
            })*
        }
        mod on_sqlite {
            $(#[tokio::test]
            async fn $name() {
                super::$name(&*super::TestDatabase::on_sqlite().open()).await;
            })*
        }
        mod on_postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                if let Some(place) = super::TestDatabase::on_postgres() {
                    super::$name(&*place.open()).await;
                }
            })*
        }
    };
}

on_all!(
    records_are_read_as_they_were_written,
    memory_is_written_with_its_event_and_belongs_to_its_owner,
    a_conversation_is_kept_with_the_runs_end,
    an_old_lease_writes_nothing,
    a_run_that_is_not_there_is_not_claimed,
);

fn created_record() -> Arc<Record> {
    new_record(run_id(1), 1, created_with_bundle(Hash::of_bytes(b"the bundle")))
}

async fn begin_run(journal: &dyn Journal) -> Lease {
    let lease = journal.begin_run(run_id(1)).expect("new");
    append_records(
        journal,
        lease,
        vec![created_record(), new_record(run_id(1), 2, Event::RunStarted { epoch: lease.epoch })],
    )
    .await
    .expect("stored");
    lease
}

async fn records_are_read_as_they_were_written(journal: &dyn Journal) {
    let lease = begin_run(journal).await;
    let values = [Value::Null, "é\u{1F600}\"\n\u{1}".into(), "x".repeat(10_000).into(), Value::list(vec![7.into()])];
    let records: Vec<_> =
        (3..).zip(values).map(|(seq, value)| new_record(run_id(1), seq, finished_event(value))).collect();
    append_records(journal, lease, records[..1].to_vec()).await.expect("stored");
    append_records(journal, lease, records[1..].to_vec()).await.expect("stored");
    assert_eq!(journal.read(run_id(1), 2).await.expect("readable"), records);
    assert_eq!(journal.read(run_id(1), 5).await.expect("readable"), records[3..]);
    assert_eq!(journal.read(run_id(1), 0).await.expect("readable")[0], created_record());
}

async fn memory_is_written_with_its_event_and_belongs_to_its_owner(journal: &dyn Journal) {
    let lease = begin_run(journal).await;
    let write = |key: &str, value| MemoryWrite { key: key.into(), value };
    let step = |seq, memory| {
        new_record(
            run_id(1),
            seq,
            Event::StepFinished { output: None, usage: None, memory, reused: false, response: None },
        )
    };
    let first = step(3, vec![write("k", Some(7.into())), write("l", Some("x".into()))]);
    append_records(journal, lease, vec![first]).await.expect("stored");
    append_records(journal, lease, vec![step(4, vec![write("k", Some(8.into())), write("l", None)])])
        .await
        .expect("stored");
    assert_eq!(journal.read_memory("ann", "k").await.expect("readable"), Some(8.into()));
    assert_eq!(journal.read_memory("ann", "l").await.expect("readable"), None);
    assert_eq!(journal.read_memories("ann").await.expect("readable").len(), 1);
    assert_eq!(journal.read_memory("bob", "k").await.expect("readable"), None);
    assert!(journal.read_memories("bob").await.expect("readable").is_empty());
}

async fn a_conversation_is_kept_with_the_runs_end(journal: &dyn Journal) {
    let lease = begin_run(journal).await;
    let user = thread_namespace("ann");
    let message_write = Some(MemoryWrite { key: "desk".into(), value: Some(Value::list(vec!["hello".into()])) });
    let end = new_record(
        run_id(1),
        3,
        Event::RunFinished { status: Status::Succeeded, error: None, failed: None, thread: message_write },
    );
    append_records(journal, Lease { epoch: 9, ..lease }, vec![end.clone()]).await.expect_err("another owner's");
    assert_eq!(journal.read_memory(&user, "desk").await.expect("readable"), None);
    append_records(journal, lease, vec![end]).await.expect("stored");
    assert_eq!(journal.read_memory(&user, "desk").await.expect("readable"), Some(Value::list(vec!["hello".into()])));
    assert_eq!(journal.read_memory("ann", "desk").await.expect("readable"), None);
}

async fn an_old_lease_writes_nothing(journal: &dyn Journal) {
    let lease = begin_run(journal).await;
    journal.release_run(lease);
    let again = journal.claim_run(run_id(1)).await.expect("released");
    assert_eq!((lease.epoch, again.epoch), (1, 2));
    let late = append_records(journal, lease, vec![new_record(run_id(1), 3, Event::StepUncertain)]).await;
    assert_eq!(late.expect_err("an old lease").code(), Code::OwnershipLost);
    append_records(journal, again, vec![new_record(run_id(1), 3, Event::StepUncertain)]).await.expect("stored");
    assert_eq!(journal.read(run_id(1), 0).await.expect("readable").len(), 3);
}

async fn a_run_that_is_not_there_is_not_claimed(journal: &dyn Journal) {
    assert_eq!(journal.claim_run(run_id(1)).await.expect_err("unknown").code(), Code::RunNotFound);
}
