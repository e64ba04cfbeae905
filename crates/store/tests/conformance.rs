//! Behaviour that every database must have: the same tests on SQLite and on Postgres.

#[macro_use]
mod support;

use flowloom_core::code::Code;
use flowloom_core::event::{Event, MemoryWrite, Resolution};
use flowloom_core::path::Path;
use flowloom_core::status::Status;
use flowloom_core::value::Value;
use flowloom_runtime::journal::{AppendResult, Journal, Lease, Signal, profile_namespace, thread_namespace};
use flowloom_store::{Durability, IdempotentStart, KeyRow, RunFilter, StartKey};

use support::{TestDatabase, append_records, created_event, finished_event, new_record, run_id};

on_both!(
    what_is_written_is_read_by_another_process,
    one_owner_at_a_time,
    runs_are_found_by_prefix,
    a_conversation_is_kept_in_the_transaction_of_the_runs_end,
    many_runs_share_commits,
    a_refused_job_does_not_take_others_with_it,
    a_run_of_a_dead_process_goes_to_one_other,
    signals_reach_another_process,
    a_key_starts_one_run,
    keys_are_found_until_they_are_revoked,
    what_is_remembered_comes_in_the_order_of_its_bytes,
    runs_are_filtered_and_counted,
    a_run_that_gets_no_further_is_hopeless,
    check_random_operations,
);

async fn what_is_written_is_read_by_another_process(place: &TestDatabase) {
    let store = place.open();
    let run = run_id(1);
    let lease = store.begin_run(run).expect("new");
    let large: Value = "é".repeat(10_000).into();
    let number = flowloom_core::json::parse_value("[1.0, 12345678901234567890, null]").expect("JSON");
    let records = vec![
        new_record(run, 1, created_event(&store)),
        new_record(run, 2, Event::RunStarted { epoch: 1 }),
        new_record(run, 3, finished_event(large.clone())),
        new_record(run, 4, finished_event(number)),
        new_record(run, 5, Event::StepUncertain),
    ];
    append_records(&*store, lease, records.clone()).await.expect("stored");
    let other = place.open();
    assert_eq!(other.read(run, 0).await.expect("readable"), records);
    assert_eq!(other.read(run, 4).await.expect("readable"), records[4..]);
    assert_eq!(&*other.read_bundle(flowloom_core::Hash::of_bytes(b"the bundle")).expect("kept"), "the bundle");
    assert_eq!(other.find_run("last").expect("a run").id, run);
}

async fn one_owner_at_a_time(place: &TestDatabase) {
    let (first, second) = (place.open(), place.open());
    let lease = first.begin_run(run_id(1)).expect("new");
    append_records(&*first, lease, vec![new_record(run_id(1), 1, created_event(&first))]).await.expect("stored");
    assert_eq!(second.claim_run(run_id(1)).await.expect_err("owned").code(), Code::RunOwned);
    assert_eq!(first.claim_run(run_id(1)).await.expect_err("owned").code(), Code::RunOwned);
    first.release_run(lease);
    let again = first.claim_run(run_id(1)).await.expect("released");
    assert_eq!(again.epoch, 2);
    let late = append_records(&*first, lease, vec![new_record(run_id(1), 2, Event::StepUncertain)]).await;
    assert_eq!(late.expect_err("an old lease").code(), Code::OwnershipLost);
    drop(first);
    assert_eq!(second.claim_run(run_id(1)).await.expect("its owner is gone").epoch, 3);
}

async fn runs_are_found_by_prefix(place: &TestDatabase) {
    let store = place.open();
    for n in [1, 2] {
        let lease = store.begin_run(run_id(n)).expect("new");
        let end = Event::RunFinished { status: Status::Succeeded, error: None, failed: None, thread: None };
        let records = vec![new_record(run_id(n), 1, created_event(&store)), new_record(run_id(n), 2, end)];
        append_records(&*store, lease, records).await.expect("stored");
    }
    let rows = store.list_runs(10).expect("a list");
    assert_eq!(rows.iter().map(|row| row.id).collect::<Vec<_>>(), [run_id(2), run_id(1)]);
    assert_eq!(store.find_run(&run_id(1).to_string()).expect("whole").status, "succeeded");
    assert_eq!(store.find_run("0000").expect_err("both").code(), Code::RunAmbiguous);
    assert_eq!(store.find_run("ffff").expect_err("none").code(), Code::RunNotFound);
}

async fn a_conversation_is_kept_in_the_transaction_of_the_runs_end(place: &TestDatabase) {
    let store = place.open();
    let lease = store.begin_run(run_id(1)).expect("new");
    append_records(&*store, lease, vec![new_record(run_id(1), 1, created_event(&store))]).await.expect("stored");
    let user = thread_namespace("ann");
    let end = |said: &str| {
        let said = Some(MemoryWrite { key: "desk".into(), value: Some(Value::list(vec![said.into()])) });
        Event::RunFinished { status: Status::Succeeded, error: None, failed: None, thread: said }
    };
    let stale = Lease { epoch: 9, ..lease };
    append_records(&*store, stale, vec![new_record(run_id(1), 2, end("lost"))]).await.expect_err("another owner's");
    // The second record of the batch exists already, so the whole batch is refused.
    let batch = vec![new_record(run_id(1), 2, end("half")), new_record(run_id(1), 1, Event::StepUncertain)];
    append_records(&*store, lease, batch).await.expect_err("refused as a whole");
    assert_eq!(store.read_memory(&user, "desk").await.expect("readable"), None);
    assert_eq!(store.find_run(&run_id(1).to_string()).expect("there").finished_at, None);
    append_records(&*store, lease, vec![new_record(run_id(1), 2, end("hello"))]).await.expect("stored");
    drop(store);
    let store = place.open();
    assert_eq!(store.read_memory(&user, "desk").await.expect("readable"), Some(Value::list(vec!["hello".into()])));
}

async fn many_runs_share_commits(place: &TestDatabase) {
    let store = place.open_at(place.postgres.as_ref().map(|it| it.url.as_str()), Durability::Full);
    let before = store.commit_count();
    let pending: Vec<_> = (0..200)
        .map(|n| {
            let lease = store.begin_run(run_id(n)).expect("new");
            store.append_records(lease, vec![new_record(run_id(n), 1, created_event(&store))])
        })
        .collect();
    for append in pending {
        match append {
            AppendResult::Done(result) => result.expect("stored"),
            AppendResult::Later(later) => later.await.expect("stored"),
        }
    }
    assert_eq!(store.list_runs(1000).expect("a list").len(), 200);
    assert!(store.commit_count() - before < 150, "{} commits", store.commit_count() - before);
}

async fn a_refused_job_does_not_take_others_with_it(place: &TestDatabase) {
    let store = place.open_at(place.postgres.as_ref().map(|it| it.url.as_str()), Durability::Full);
    let lease = store.begin_run(run_id(1)).expect("new");
    append_records(&*store, lease, vec![new_record(run_id(1), 1, created_event(&store))]).await.expect("stored");
    // Queued together, so that most of them share a commit. Every third exists already, or belongs to another worker.
    let appends: Vec<_> = (2..50)
        .map(|n| match n % 3 {
            0 => store.append_records(lease, vec![new_record(run_id(1), 1, Event::StepUncertain)]),
            1 => store.append_records(
                Lease { epoch: 7, ..lease },
                vec![new_record(run_id(1), 100 + n, Event::StepUncertain)],
            ),
            _ => store.append_records(lease, vec![new_record(run_id(1), n, Event::StepUncertain)]),
        })
        .collect();
    for (n, append) in (2..).zip(appends) {
        let done = match append {
            AppendResult::Done(done) => done,
            AppendResult::Later(later) => later.await,
        };
        assert_eq!(done.is_ok(), n % 3 == 2, "{n}: {done:?}");
    }
    let kept = store.read(run_id(1), 1).await.expect("readable");
    let expected: Vec<u64> = (2..50).filter(|n| n % 3 == 2).collect();
    assert_eq!(kept.iter().map(|record| record.seq).collect::<Vec<_>>(), expected);
}

async fn a_run_of_a_dead_process_goes_to_one_other(place: &TestDatabase) {
    let (dead, one, two) = (place.open(), place.open(), place.open());
    let lease = dead.begin_run(run_id(1)).expect("new");
    append_records(&*dead, lease, vec![new_record(run_id(1), 1, created_event(&dead))]).await.expect("stored");
    assert!(one.get_run(run_id(1)).expect("readable").expect("there").is_driven);
    drop(dead);
    assert!(!one.get_run(run_id(1)).expect("readable").expect("there").is_driven);
    let (first, second) = tokio::join!(one.claim_run(run_id(1)), two.claim_run(run_id(1)));
    let winners = [&first, &second].iter().filter(|claim| claim.is_ok()).count();
    assert_eq!(winners, 1, "{first:?} {second:?}");
    let late = append_records(&*one, lease, vec![new_record(run_id(1), 2, Event::StepUncertain)]).await;
    assert_eq!(late.expect_err("the dead one's lease").code(), Code::OwnershipLost);
}

async fn signals_reach_another_process(place: &TestDatabase) {
    let (owner, other) = (place.open(), place.open());
    let lease = owner.begin_run(run_id(1)).expect("new");
    append_records(&*owner, lease, vec![new_record(run_id(1), 1, created_event(&owner))]).await.expect("stored");
    let mailbox = owner.next_signals(run_id(1)).expect("wishes can come");
    let path = Path::parse("/a").expect("a path");
    let signal = Signal::Resolve { path: path.clone(), how: Resolution::Resend, by: "bob".into() };
    other.send_signal(run_id(1), signal.clone()).await.expect("left");
    assert_eq!(mailbox.await, [signal]);
    // An applied signal is deleted.
    let obeyed = Event::Resolved { how: Resolution::Resend, by: "bob".into() };
    append_records(&*owner, lease, vec![new_record(run_id(1), 2, obeyed)]).await.expect("stored");
    owner.release_run(lease);
    let again = place.open();
    let cancel = Signal::Cancel { by: "eve".into() };
    let mailbox = again.next_signals(run_id(1)).expect("wishes can come");
    other.send_signal(run_id(1), cancel.clone()).await.expect("left");
    assert_eq!(mailbox.await, [cancel]);
}

async fn a_key_starts_one_run(place: &TestDatabase) {
    let (one, two) = (place.open(), place.open());
    let key = |user| StartKey { user, key: "k" };
    let first = one.reserve_start(key("ann"), "body", run_id(1), 1).await.expect("taken");
    let (run, other) = (IdempotentStart::Run(run_id(1)), IdempotentStart::Conflict);
    assert_eq!(first, run);
    assert_eq!(two.reserve_start(key("ann"), "body", run_id(2), 2).await.expect("known"), run);
    assert_eq!(two.reserve_start(key("ann"), "else", run_id(3), 3).await.expect("known"), other);
    assert_eq!(
        two.reserve_start(key("bob"), "body", run_id(4), 4).await.expect("taken"),
        IdempotentStart::Run(run_id(4))
    );
}

async fn keys_are_found_until_they_are_revoked(place: &TestDatabase) {
    let store = place.open();
    let key = |n: u64, user: Option<&str>| KeyRow {
        id: format!("k{n}"),
        hash: format!("hash {n}"),
        name: "test".into(),
        scopes: "run,read".into(),
        user: user.map(str::to_owned),
        created_at: n,
        revoked_at: None,
    };
    let (one, two) = (key(1, None), key(2, Some("ann")));
    store.put_key(two.clone()).await.expect("kept");
    store.put_key(one.clone()).await.expect("kept");
    assert_eq!(store.list_keys().expect("readable"), [one, two.clone()]);
    assert_eq!(store.get_key("hash 2").expect("readable"), Some(two));
    store.revoke_key("k2", 9).await.expect("revoked");
    assert_eq!(store.get_key("hash 2").expect("readable"), None);
    assert_eq!(store.list_keys().expect("readable")[1].revoked_at, Some(9));
    assert_eq!(store.revoke_key("k2", 10).await.expect_err("it is").code(), Code::KeyUnknown);
}

async fn what_is_remembered_comes_in_the_order_of_its_bytes(place: &TestDatabase) {
    let store = place.open();
    let write = |key: &str, value| MemoryWrite { key: key.into(), value };
    let user = profile_namespace("ann");
    let writes =
        vec![write("é", Some(1.into())), write("Z", Some(2.into())), write("a", Some(3.into())), write("b", None)];
    store.write_memory(user.clone(), writes).await.expect("kept");
    let kept = store.read_memories(&user).await.expect("readable");
    assert_eq!(
        kept.keys().map(|key| key.to_string()).collect::<Vec<_>>(),
        ["Z", "a", "é"],
        "in the order of their bytes"
    );
    store.write_memory(user.clone(), vec![write("a", None)]).await.expect("forgotten");
    assert_eq!(store.read_memory(&user, "a").await.expect("readable"), None);
}

async fn runs_are_filtered_and_counted(place: &TestDatabase) {
    let store = place.open();
    for n in 1..=4 {
        let lease = store.begin_run(run_id(n)).expect("new");
        let mut records = vec![
            new_record(run_id(n), 1, created_event(&store)),
            new_record(run_id(n), 2, Event::RunStarted { epoch: 1 }),
        ];
        if n > 2 {
            let end = Event::RunFinished { status: Status::Failed, error: None, failed: None, thread: None };
            records.push(new_record(run_id(n), 3, end));
        }
        append_records(&*store, lease, records).await.expect("stored");
    }
    assert_eq!(store.count_by_status().expect("readable"), [("failed".to_owned(), 2), ("running".to_owned(), 2)]);
    let ids = |filter: RunFilter| -> Vec<_> {
        store.list_runs_matching(&filter).expect("readable").into_iter().map(|row| row.id).collect()
    };
    let all = RunFilter { limit: 10, ..RunFilter::default() };
    assert_eq!(ids(RunFilter { status: Some("failed".into()), ..all.clone() }), [run_id(4), run_id(3)]);
    assert_eq!(ids(RunFilter { before: Some(run_id(3)), limit: 1, ..all.clone() }), [run_id(2)]);
    assert_eq!(ids(RunFilter { user: Some("ann".into()), name: Some("test".into()), ..all.clone() }).len(), 4);
    assert_eq!(ids(RunFilter { user: Some("bob".into()), ..all }), []);
    assert!(store.size_bytes().expect("readable") > 0);
    assert!(!store.describe_database().expect("readable").is_empty());
}

async fn a_run_that_gets_no_further_is_hopeless(place: &TestDatabase) {
    let first = place.open();
    let lease = first.begin_run(run_id(1)).expect("new");
    let start = |seq, epoch| new_record(run_id(1), seq, Event::RunStarted { epoch });
    append_records(&*first, lease, vec![new_record(run_id(1), 1, created_event(&first)), start(2, 1)])
        .await
        .expect("stored");
    let watching = place.open();
    assert_eq!(watching.abandoned_runs(9).expect("readable"), [], "its owner lives");
    drop(first);
    for n in 0..3 {
        let orphans = watching.abandoned_runs(9).expect("readable");
        assert_eq!(orphans.iter().map(|orphan| orphan.is_hopeless).collect::<Vec<_>>(), [false], "{n}");
        let next = place.open();
        let lease = next.claim_run(run_id(1)).await.expect("nobody's");
        append_records(&*next, lease, vec![start(3 + n, lease.epoch)]).await.expect("stored");
    }
    assert!(watching.abandoned_runs(9).expect("readable")[0].is_hopeless);
    watching.quarantine_run(run_id(1), 7).await.expect("left alone");
    assert_eq!(watching.abandoned_runs(9).expect("readable"), []);
    assert_eq!(watching.count_by_status().expect("readable"), [("quarantined".to_owned(), 1)]);
    // A person resumes it, and it makes progress.
    let lease = watching.claim_run(run_id(1)).await.expect("nobody's");
    append_records(&*watching, lease, vec![start(7, lease.epoch), new_record(run_id(1), 8, Event::StepUncertain)])
        .await
        .expect("stored");
    assert_eq!(watching.abandoned_runs(9).expect("readable"), [], "it is driven here");
    watching.release_run(lease);
    drop(watching);
    assert!(!place.open().abandoned_runs(9).expect("readable")[0].is_hopeless);
}

/// The state of a run that the test expects.
#[derive(Clone, Copy, Default)]
struct ExpectedRun {
    epoch: u64,
    lease_owner: Option<usize>,
    events: u64,
}

async fn check_random_operations(place: &TestDatabase) {
    let stores = [place.open(), place.open(), place.open()];
    let mut runs = [ExpectedRun::default(); 3];
    let mut leases = Vec::new();
    let mut random = 7_u64;
    let mut pick = |count: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % count
    };
    for (n, run) in (1..).zip(&mut runs) {
        let lease = stores[0].begin_run(run_id(n)).expect("new");
        append_records(&*stores[0], lease, vec![new_record(run_id(n), 1, created_event(&stores[0]))])
            .await
            .expect("stored");
        *run = ExpectedRun { epoch: 1, lease_owner: Some(0), events: 1 };
        leases.push((0, lease));
    }
    for _ in 0..150 {
        let (store, n) = (pick(3), pick(3));
        let run = &mut runs[n];
        match pick(4) {
            0 => {
                let claimed = stores[store].claim_run(run_id(n as u8 + 1)).await;
                assert_eq!(claimed.is_ok(), run.lease_owner.is_none(), "{claimed:?}");
                if let Ok(lease) = claimed {
                    *run = ExpectedRun { epoch: run.epoch + 1, lease_owner: Some(store), ..*run };
                    assert_eq!(lease.epoch, run.epoch);
                    leases.push((store, lease));
                }
            }
            1 => {
                let held = leases.iter().rev().find(|(user, lease)| *user == store && lease.run == run_id(n as u8 + 1));
                let Some((_, lease)) = held.filter(|_| run.lease_owner == Some(store)) else { continue };
                stores[store].release_run(*lease);
                // Completion is not awaited; a later write is stored after this one.
                stores[store].write_memory("ann".into(), Vec::new()).await.expect("stored");
                run.lease_owner = None;
            }
            _ => {
                // Any lease ever issued. The last one of its run is valid while it is held.
                let (user, lease) = leases[pick(leases.len())];
                let run = runs.iter_mut().zip(1..).find(|(_, n)| run_id(*n) == lease.run).expect("one of them").0;
                let is_good = run.lease_owner == Some(user) && run.epoch == lease.epoch;
                let next = new_record(lease.run, run.events + 1, Event::StepUncertain);
                let done = append_records(&*stores[user], lease, vec![next]).await;
                assert_eq!(
                    done.as_ref().map_err(|error| error.code()),
                    is_good.then_some(&()).ok_or(Code::OwnershipLost)
                );
                run.events += u64::from(is_good);
            }
        }
    }
    for (n, run) in (1..).zip(&runs) {
        let kept: Vec<u64> =
            stores[1].read(run_id(n), 0).await.expect("readable").iter().map(|record| record.seq).collect();
        assert_eq!(kept, (1..=run.events).collect::<Vec<_>>());
    }
}
