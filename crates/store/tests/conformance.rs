//! Behaviour that every database must have: the same tests on SQLite and on Postgres.

#[macro_use]
mod support;

use std::time::Duration;

use flowloom_core::code::Code;
use flowloom_core::error::StepFailure;
use flowloom_core::event::{Event, MemoryWrite};
use flowloom_core::path::Path;
use flowloom_core::status::Status;
use flowloom_core::value::Value;
use flowloom_runtime::command::{CommandAction, CommandOutcome, DecidedCommand, RunCommand};
use flowloom_runtime::journal::{AppendResult, Batch, Journal, Lease, LeaseState, profile_namespace, thread_namespace};
use flowloom_store::{Actor, Durability, IdempotentStart, KeyRotation, KeyRow, StartKey, Store};

use support::{TestDatabase, append_batch, append_records, created_event, finished_event, new_record, run_id};

on_both!(
    what_is_written_is_read_by_another_process,
    one_owner_at_a_time,
    a_run_that_waits_is_not_overdue,
    a_conversation_is_kept_in_the_transaction_of_the_runs_end,
    many_runs_share_commits,
    a_refused_job_does_not_take_others_with_it,
    a_run_of_a_dead_process_goes_to_one_other,
    a_command_reaches_the_worker_and_the_decision_its_sender,
    a_run_with_a_pending_command_is_not_released,
    a_command_to_one_run_leaves_the_others_alone,
    one_of_a_hundred_answers_is_applied,
    a_key_starts_one_run,
    keys_are_found_until_they_are_revoked,
    a_rotated_key_has_two_secrets_for_a_time,
    what_is_remembered_comes_in_the_order_of_its_bytes,
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

async fn a_run_that_waits_is_not_overdue(place: &TestDatabase) {
    let store = place.open();
    let lease = store.begin_run(run_id(1)).expect("new");
    let started =
        vec![new_record(run_id(1), 1, created_event(&store)), new_record(run_id(1), 2, Event::RunStarted { epoch: 1 })];
    append_records(&*store, lease, started).await.expect("stored");
    assert!(store.oldest_unfinished_at().expect("readable").is_some());
    let waits = new_record(run_id(1), 3, Event::RunSuspended { status: Status::Waiting });
    append_records(&*store, lease, vec![waits]).await.expect("stored");
    assert_eq!(store.oldest_unfinished_at().expect("readable"), None);
}

async fn a_conversation_is_kept_in_the_transaction_of_the_runs_end(place: &TestDatabase) {
    let store = place.open();
    let lease = store.begin_run(run_id(1)).expect("new");
    append_records(&*store, lease, vec![new_record(run_id(1), 1, created_event(&store))]).await.expect("stored");
    let user = thread_namespace("ann");
    let end = |text: &str| {
        let text = Some(MemoryWrite { key: "desk".into(), value: Some(Value::list(vec![text.into()])) });
        Event::RunFinished { status: Status::Succeeded, error: None, failed: None, thread: text }
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
            store.append_batch(lease, Batch::with_records(vec![new_record(run_id(n), 1, created_event(&store))]))
        })
        .collect();
    for append in pending {
        match append {
            AppendResult::Done(result) => result.expect("stored"),
            AppendResult::Later(later) => later.await.expect("stored"),
        };
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
            0 => store.append_batch(lease, Batch::with_records(vec![new_record(run_id(1), 1, Event::StepUncertain)])),
            1 => store.append_batch(
                Lease { epoch: 7, ..lease },
                Batch::with_records(vec![new_record(run_id(1), 100 + n, Event::StepUncertain)]),
            ),
            _ => store.append_batch(
                lease,
                Batch::with_records(vec![new_record(run_id(1), 2 + (n - 2) / 3, Event::StepUncertain)]),
            ),
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
    assert_eq!(kept.iter().map(|record| record.seq).collect::<Vec<_>>(), (2..18).collect::<Vec<_>>());
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

fn answer(id: &str, value: &str) -> RunCommand {
    let action = CommandAction::Answer { path: Path::parse("/a").expect("a path"), value: value.into() };
    RunCommand { id: id.to_owned(), sender: "bob".to_owned(), action }
}

/// A decision with the event that the command causes.
fn decided(seq: u64, id: &str, outcome: CommandOutcome) -> Batch {
    let answered = Event::Answered { value: "yes".into(), by: "bob".into() };
    let decided = vec![DecidedCommand { id: id.to_owned(), outcome }];
    Batch { decided, ..Batch::with_records(vec![new_record(run_id(1), seq, answered)]) }
}

async fn a_command_reaches_the_worker_and_the_decision_its_sender(place: &TestDatabase) {
    let (worker, sender) = (place.open(), place.open());
    let lease = worker.begin_run(run_id(1)).expect("new");
    append_records(&*worker, lease, vec![new_record(run_id(1), 1, created_event(&worker))]).await.expect("stored");
    let posted = sender.post_command(run_id(1), answer("k", "yes"), 7).await.expect("stored");
    assert_eq!((posted.has_worker, &posted.record.outcome), (true, &None));
    assert_eq!(worker.next_commands(run_id(1)).await, [answer("k", "yes")]);
    let (decision, appended) = tokio::join!(
        sender.wait_for_decision(run_id(1), &posted.record, Duration::from_secs(60)),
        append_batch(&*worker, lease, decided(2, "k", CommandOutcome::Applied)),
    );
    assert_eq!(appended.expect("stored"), LeaseState::Held);
    assert_eq!(decision.expect("readable"), Some(CommandOutcome::Applied));
    // Sent again, it is the same command; with another content it is refused.
    let again = sender.post_command(run_id(1), answer("k", "yes"), 8).await.expect("known");
    assert_eq!(again.record.outcome, Some(CommandOutcome::Applied));
    let other = sender.post_command(run_id(1), answer("k", "no"), 9).await.expect_err("another command");
    assert_eq!(other.code(), Code::KeyReused);
    assert_eq!(worker.pending_commands(run_id(1)).await.expect("readable"), []);
}

async fn a_run_with_a_pending_command_is_not_released(place: &TestDatabase) {
    let (worker, sender) = (place.open(), place.open());
    let lease = worker.begin_run(run_id(1)).expect("new");
    append_records(&*worker, lease, vec![new_record(run_id(1), 1, created_event(&worker))]).await.expect("stored");
    let release = || Batch { releases_lease: true, ..Batch::default() };
    sender.post_command(run_id(1), answer("k", "yes"), 7).await.expect("stored");
    assert_eq!(append_batch(&*worker, lease, release()).await.expect("stored"), LeaseState::Held);
    let batch = Batch { releases_lease: true, ..decided(2, "k", CommandOutcome::Applied) };
    assert_eq!(append_batch(&*worker, lease, batch).await.expect("stored"), LeaseState::Released);
    // Without a worker, the sender makes sure that one drives the run; a server does if the sender dies.
    let posted = sender.post_command(run_id(1), answer("l", "no"), 8).await.expect("stored");
    assert!(!posted.has_worker);
    let abandoned =
        |store: &Store| store.abandoned_runs(9).expect("readable").iter().map(|run| run.id).collect::<Vec<_>>();
    assert_eq!(abandoned(&worker), [run_id(1)]);
    let lease = sender.claim_run(run_id(1)).await.expect("nobody drives it");
    assert_eq!(abandoned(&worker), []);
    assert_eq!(sender.pending_commands(run_id(1)).await.expect("readable"), [answer("l", "no")]);
    // The end of the run rejects the remaining commands.
    let end = Event::RunFinished { status: Status::Succeeded, error: None, failed: None, thread: None };
    let ended = append_batch(&*sender, lease, Batch::with_records(vec![new_record(run_id(1), 3, end)])).await;
    assert_eq!(ended.expect("stored"), LeaseState::Released);
    let code = |outcome| match outcome {
        Some(CommandOutcome::Rejected(error)) => Some(error.code),
        _ => None,
    };
    let left = worker.find_command(run_id(1), "l").expect("readable").expect("there");
    assert_eq!(code(left.outcome), Some(Code::NothingToDo));
    let late = worker.post_command(run_id(1), answer("m", "late"), 9).await.expect("decided");
    assert_eq!(code(late.record.outcome), Some(Code::NothingToDo));
}

/// Batches of many runs share a commit. A command to one of them, of which this process has not heard, changes nothing
/// for the others.
async fn a_command_to_one_run_leaves_the_others_alone(place: &TestDatabase) {
    const RUN_COUNT: u8 = 20;
    let (worker, sender) = (place.open(), place.open());
    let mut leases = Vec::new();
    for run in (1..=RUN_COUNT).map(run_id) {
        let lease = worker.begin_run(run).expect("new");
        append_records(&*worker, lease, vec![new_record(run, 1, created_event(&worker))]).await.expect("stored");
        leases.push(lease);
    }
    sender.post_command(run_id(1), answer("k", "yes"), 7).await.expect("stored");
    let suspended = |lease: &Lease| {
        let record = new_record(lease.run, 2, Event::RunSuspended { status: Status::Waiting });
        append_batch(&*worker, *lease, Batch { releases_lease: true, ..Batch::with_records(vec![record]) })
    };
    for (lease, appended) in leases.iter().zip(futures_util::future::join_all(leases.iter().map(suspended)).await) {
        let has_command = lease.run == run_id(1);
        let expected = if has_command { LeaseState::Held } else { LeaseState::Released };
        assert_eq!(appended.expect("stored"), expected, "{}", lease.run);
        let row = sender.get_run(lease.run).expect("readable").expect("there");
        assert_eq!((row.status.as_str(), row.is_driven), (Status::Waiting.name(), has_command), "{}", lease.run);
        assert_eq!(sender.read(lease.run, 0).await.expect("readable").len(), 2);
    }
}

async fn one_of_a_hundred_answers_is_applied(place: &TestDatabase) {
    let (worker, sender) = (place.open(), place.open());
    let lease = worker.begin_run(run_id(1)).expect("new");
    append_records(&*worker, lease, vec![new_record(run_id(1), 1, created_event(&worker))]).await.expect("stored");
    let posts = (0..100).map(|n| {
        let store = if n % 2 == 0 { &worker } else { &sender };
        async move { store.post_command(run_id(1), answer(&n.to_string(), "yes"), n).await }
    });
    for posted in futures_util::future::join_all(posts).await {
        assert_eq!(posted.expect("stored").record.outcome, None);
    }
    let pending = worker.pending_commands(run_id(1)).await.expect("readable");
    assert_eq!(pending.len(), 100);
    let late = CommandOutcome::Rejected(StepFailure::new(Code::NothingToDo, "answered already"));
    let outcome = |index| if index == 0 { CommandOutcome::Applied } else { late.clone() };
    let decided =
        pending.iter().enumerate().map(|(n, command)| DecidedCommand { id: command.id.clone(), outcome: outcome(n) });
    let batch = Batch { decided: decided.collect(), releases_lease: true, ..Batch::default() };
    assert_eq!(append_batch(&*worker, lease, batch).await.expect("stored"), LeaseState::Released);
    assert_eq!(sender.pending_commands(run_id(1)).await.expect("readable"), []);
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
        ..KeyRow::default()
    };
    let (one, two) = (key(1, None), key(2, Some("ann")));
    store.put_key(two.clone(), &Actor::command_line()).await.expect("kept");
    store.put_key(one.clone(), &Actor::command_line()).await.expect("kept");
    assert_eq!(store.list_keys().expect("readable"), [one, two.clone()]);
    assert_eq!(store.get_key("hash 2").expect("readable"), Some(two));
    store.revoke_key("k2", &Actor::command_line(), 9).await.expect("revoked");
    assert_eq!(store.get_key("hash 2").expect("readable"), None);
    assert_eq!(store.list_keys().expect("readable")[1].revoked_at, Some(9));
    assert_eq!(store.revoke_key("k2", &Actor::command_line(), 10).await.expect_err("it is").code(), Code::KeyUnknown);
}

async fn a_rotated_key_has_two_secrets_for_a_time(place: &TestDatabase) {
    let store = place.open();
    let key =
        KeyRow { id: "k".into(), hash: "one".into(), name: "ci".into(), scopes: "run".into(), ..KeyRow::default() };
    store.put_key(KeyRow { expires_at: Some(100), ..key }, &Actor::command_line()).await.expect("kept");
    let rotation = |hash: &str, expires_at| KeyRotation { hash: hash.into(), old_until: 50, expires_at };
    store.rotate_key("k", rotation("two", None), &Actor::command_line(), 1).await.expect("rotated");
    let accepts = |hash: &str, now| store.get_key(hash).expect("readable").is_some_and(|key| key.accepts(hash, now));
    assert_eq!([accepts("one", 49), accepts("one", 50)], [true, false]);
    assert_eq!([accepts("two", 50), accepts("two", 99), accepts("two", 100)], [true, true, false]);
    store.rotate_key("k", rotation("three", Some(200)), &Actor::command_line(), 1).await.expect("rotated");
    assert_eq!([accepts("one", 1), accepts("two", 1), accepts("three", 199)], [false, true, true]);
    assert_eq!(store.find_key("ci").expect("known").id, "k");
    store.record_key_use("k", 70);
    store.record_key_use("k", 60);
    store.revoke_key("k", &Actor::command_line(), 9).await.expect("revoked");
    assert_eq!([accepts("two", 1), accepts("three", 1)], [false, false]);
    assert_eq!(store.list_keys().expect("readable")[0].last_used_at, Some(70));
    assert_eq!(store.find_key("ci").expect_err("it is revoked").code(), Code::KeyUnknown);
    let revoked = store.rotate_key("k", rotation("four", None), &Actor::command_line(), 1).await;
    assert_eq!(revoked.expect_err("it is revoked").code(), Code::KeyUnknown);
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
    for n in 0..2 {
        let orphans = watching.abandoned_runs(9).expect("readable");
        let found: Vec<_> = orphans.iter().map(|orphan| (orphan.deaths, orphan.is_hopeless())).collect();
        assert_eq!(found, [(n + 1, false)]);
        let next = place.open();
        let lease = next.claim_run(run_id(1)).await.expect("nobody's");
        append_records(&*next, lease, vec![start(3 + n, lease.epoch)]).await.expect("stored");
    }
    assert!(watching.abandoned_runs(9).expect("readable")[0].is_hopeless());
    assert!(watching.quarantine_run(run_id(1), 7).await.expect("left alone"));
    assert_eq!(watching.abandoned_runs(9).expect("readable"), []);
    assert_eq!(watching.count_by_status().expect("readable"), [("quarantined".to_owned(), 1)]);
    // A person resumes it, and it makes progress.
    let lease = watching.claim_run(run_id(1)).await.expect("nobody's");
    append_records(&*watching, lease, vec![start(6, lease.epoch), new_record(run_id(1), 7, Event::StepUncertain)])
        .await
        .expect("stored");
    assert_eq!(watching.abandoned_runs(9).expect("readable"), [], "it is driven here");
    // An outage breaks it off. It keeps its lease, so that it is found, and no worker has died.
    watching.abandon_run(lease);
    assert_eq!(watching.abandoned_runs(9).expect("readable")[0].deaths, 0);
    let is_quarantined = watching.quarantine_run(run_id(1), 8).await.expect("left alone");
    assert!(!is_quarantined, "it has made progress since it was found to be hopeless");
    let lease = watching.claim_run(run_id(1)).await.expect("nobody's");
    watching.release_run(lease);
    drop(watching);
    assert_eq!(place.open().abandoned_runs(9).expect("readable")[0].deaths, 0, "it was released");
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
