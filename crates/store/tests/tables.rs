//! Tables next to the journal, and how long their rows are kept: the same tests on SQLite and on Postgres.

#[macro_use]
mod support;

use flowloom_core::code::Code;
use flowloom_core::event::{Event, MemoryWrite, ParentStep};
use flowloom_core::path::Path;
use flowloom_core::status::Status;
use flowloom_runtime::journal::Journal;
use flowloom_store::{
    Actor, BlockQuery, ChangeResult, DefinitionChange, DefinitionKey, DefinitionKind, MAX_LISTED_INPUTS_BYTES,
    NewDefinition, NewNotification, Origin, PersonalWrites, PruneFilter, SHARED_USER, ScheduleKey, ScheduleRow, Store,
};

use support::{TestDatabase, append_records, created_event, finished_event, new_record, run_id};

on_both!(
    definitions_of_two_processes_have_versions_of_their_own,
    definitions_have_versions_and_change_together,
    what_is_used_is_not_taken_away,
    projects_have_definitions_and_schedules_of_their_own,
    notifications_are_there_once_and_read_by_their_user,
    a_list_of_notifications_has_the_start_of_long_texts,
    what_is_due_is_claimed_once,
    users_take_turns_with_their_due_schedules,
    a_page_of_schedules_has_no_large_inputs,
    a_schedule_is_passed_over_and_paused,
    old_runs_are_taken_away_with_what_only_they_had,
    two_processes_do_not_exceed_the_limit_of_a_memory,
    a_child_run_is_deleted_with_its_parent,
);

fn workflow_key(id: &str) -> DefinitionKey {
    DefinitionKey { user: "ann".into(), kind: DefinitionKind::Workflow, id: id.into() }
}

fn put_change(key: DefinitionKey, content: &str, uses: &[(DefinitionKind, &str)]) -> DefinitionChange {
    let uses = uses.iter().map(|(kind, id)| (*kind, (*id).to_owned())).collect();
    DefinitionChange::Put(NewDefinition {
        key,
        format: Some("flow".into()),
        content: content.into(),
        origin: Origin::Api,
        uses,
    })
}

async fn two_processes_do_not_exceed_the_limit_of_a_memory(place: &TestDatabase) {
    let stores = [place.open(), place.open()];
    let write = |number: usize| {
        let written = MemoryWrite { key: format!("key {number}"), value: Some("x".repeat(30).as_str().into()) };
        let written =
            PersonalWrites { user: "ann".into(), is_profile: false, writes: vec![written], limit_bytes: Some(100) };
        let store = stores[number % 2].clone();
        async move { store.write_memory_as(written, &Actor::command_line(), 1).await.map_err(|error| error.code()) }
    };
    let written = futures_util::future::join_all((0..12).map(write)).await;
    let refused = written.iter().filter(|written| **written == Err(Code::MemoryFull)).count();
    assert_eq!((refused, written.iter().filter(|written| written.is_ok()).count()), (10, 2), "{written:?}");
    assert_eq!(stores[0].read_memories("ann").await.expect("readable").len(), 2);
}

async fn projects_have_definitions_and_schedules_of_their_own(place: &TestDatabase) {
    let (a, b, unnamed) = (place.open_for_project("a"), place.open_for_project("b"), place.open());
    let block = |user: &str| DefinitionKey { user: user.into(), kind: DefinitionKind::Block, id: "helper".into() };
    let by = Actor::command_line();
    let changes = vec![
        put_change(block(SHARED_USER), r#"{"name": "Helper", "description": "Shortens a text"}"#, &[]),
        put_change(workflow_key("w"), "in a", &[(DefinitionKind::Block, "helper")]),
    ];
    assert_eq!(a.change_definitions(changes, &by, 1).await.expect("made"), [ChangeResult::Created; 2]);
    let content = |store: &Store| store.get_definition(&workflow_key("w")).expect("readable").map(|row| row.content);
    assert_eq!((content(&a).as_deref(), content(&b), content(&unnamed)), (Some("in a"), None, None));
    let stored = a.get_definition(&workflow_key("w")).expect("readable").expect("a row");
    assert_eq!(stored.key, workflow_key("w"), "the project is no part of the user");
    let made = b.change_definitions(vec![put_change(workflow_key("w"), "in b", &[])], &by, 2).await.expect("made");
    assert_eq!((made, content(&a).as_deref()), (vec![ChangeResult::Created], Some("in a")));
    let owners = |store: &Store| store.list_owners(DefinitionKind::Workflow, None).expect("readable");
    assert_eq!((owners(&a), owners(&unnamed)), (vec!["ann".to_owned()], Vec::new()));
    let found = |store: &Store| {
        let query = BlockQuery { user: "ann", words: "shortens", vector: None, limit: 5 };
        store.search_blocks(query).expect("readable").into_iter().map(|block| block.user).collect::<Vec<_>>()
    };
    assert_eq!((found(&a), found(&b)), (vec![SHARED_USER.to_owned()], Vec::new()));
    // A block of a is in use there only.
    let used = a.change_definitions(vec![DefinitionChange::Delete(block(SHARED_USER))], &by, 3).await;
    assert_eq!(used.expect_err("in use").code(), Code::StillUsed);
    let missing = b.change_definitions(vec![DefinitionChange::Delete(block(SHARED_USER))], &by, 3).await.expect("done");
    assert_eq!(missing, [ChangeResult::Missing]);

    let schedule = ScheduleRow {
        id: "daily".into(),
        user: "ann".into(),
        workflow: "w".into(),
        cron: "0 6 * * *".into(),
        timezone: "UTC".into(),
        inputs: "{}".into(),
        catches_up: false,
        allows_overlap: true,
        is_paused: false,
        created_at: 1,
        next_at: 1,
        last_at: None,
        last_run: None,
        is_pending: false,
        last_error: None,
        skipped: 0,
    };
    a.put_schedule(schedule.clone(), &Actor::command_line()).await.expect("stored");
    assert_eq!(due_schedules(&a, 5), std::slice::from_ref(&schedule));
    assert_eq!(due_schedules(&b, 5), []);
    let listed = [&a, &b].map(|store| store.list_schedules_after(None, None, 5).expect("readable"));
    assert_eq!(listed, [vec![schedule], Vec::new()]);
}

async fn definitions_have_versions_and_change_together(place: &TestDatabase) {
    let store = place.open();
    let change = async |change| store.change_definitions(vec![change], &Actor::command_line(), 1).await.expect("made");
    assert_eq!(change(put_change(workflow_key("b"), "old", &[])).await, [ChangeResult::Created]);
    assert_eq!(change(put_change(workflow_key("b"), "old", &[])).await, [ChangeResult::Unchanged]);
    assert_eq!(change(put_change(workflow_key("B"), "big", &[])).await, [ChangeResult::Created]);
    assert_eq!(change(put_change(workflow_key("b"), "new", &[])).await, [ChangeResult::Updated]);
    let ids = |user: &str| {
        let rows = store.list_definitions(user, DefinitionKind::Workflow).expect("readable");
        rows.into_iter().map(|row| (row.key.id, row.version, row.content)).collect::<Vec<_>>()
    };
    assert_eq!(ids("ann"), [("B".into(), 1, "big".into()), ("b".into(), 2, "new".to_owned())]);
    assert_eq!(ids("bob"), []);
    assert_eq!(change(DefinitionChange::Delete(workflow_key("b"))).await, [ChangeResult::Deleted]);
    assert_eq!(change(DefinitionChange::Delete(workflow_key("b"))).await, [ChangeResult::Missing]);
    assert_eq!(change(put_change(workflow_key("b"), "again", &[])).await, [ChangeResult::Created]);
    let versions = store.list_versions(&workflow_key("b")).expect("readable");
    assert_eq!(versions.iter().map(|row| &*row.content).collect::<Vec<_>>(), ["again", "new", "old"]);
}

async fn what_is_used_is_not_taken_away(place: &TestDatabase) {
    let store = place.open();
    let block = |user: &str| DefinitionKey { user: user.into(), kind: DefinitionKind::Block, id: "x".into() };
    let uses = [(DefinitionKind::Block, "x")];
    let all = vec![
        put_change(block(SHARED_USER), "{}", &[]),
        put_change(block("bob"), "{}", &[]),
        put_change(workflow_key("w"), "1", &uses),
    ];
    store.change_definitions(all, &Actor::command_line(), 1).await.expect("made");
    let refused = store
        .change_definitions(
            vec![DefinitionChange::Delete(block(SHARED_USER)), DefinitionChange::Delete(workflow_key("q"))],
            &Actor::command_line(),
            2,
        )
        .await;
    let refused = refused.expect_err("it is used");
    assert_eq!((refused.code(), &*refused.to_string()), (Code::StillUsed, "the block x is used by w"));
    assert!(store.get_definition(&block(SHARED_USER)).expect("readable").is_some());
    // A block of another user with the same id is not the one in use.
    store
        .change_definitions(vec![DefinitionChange::Delete(block("bob"))], &Actor::command_line(), 2)
        .await
        .expect("made");
    // It can be deleted together with the definition that uses it.
    let both = vec![DefinitionChange::Delete(block(SHARED_USER)), put_change(workflow_key("w"), "2", &[])];
    assert_eq!(
        store.change_definitions(both, &Actor::command_line(), 3).await.expect("made"),
        [ChangeResult::Deleted, ChangeResult::Updated]
    );
}

async fn notifications_are_there_once_and_read_by_their_user(place: &TestDatabase) {
    let store = place.open();
    let new = |key: &str| NewNotification {
        key: key.into(),
        user: "ann".into(),
        title: "t".into(),
        body: "b".into(),
        metadata: "{}".into(),
        at: 1,
    };
    for key in ["a", "a", "b"] {
        store.create_notification(new(key)).await.expect("made");
    }
    let rows = store.list_notifications(Some("ann"), 10).expect("readable");
    assert_eq!((rows.len(), store.list_notifications(Some("bob"), 10).expect("readable").len()), (2, 0));
    let id = rows[0].id;
    assert_eq!(store.mark_notification_read(Some("bob"), id, 2).await.expect_err("not theirs").code(), Code::NotThere);
    store.mark_notification_read(Some("ann"), id, 2).await.expect("read");
    let is_read: Vec<bool> =
        store.list_notifications(None, 10).expect("readable").iter().map(|row| row.is_read).collect();
    assert_eq!(is_read, [true, false]);
}

async fn a_list_of_notifications_has_the_start_of_long_texts(place: &TestDatabase) {
    let store = place.open();
    let text = "é".repeat(20_000);
    let metadata = format!("{{\"a\":\"{text}\"}}");
    let new = NewNotification {
        key: "k".into(),
        user: "ann".into(),
        title: "t".into(),
        body: text.clone(),
        metadata: metadata.clone(),
        at: 1,
    };
    store.create_notification(new).await.expect("made");
    let listed = store.list_notifications(Some("ann"), 10).expect("readable").remove(0);
    assert_eq!((listed.title.as_str(), listed.metadata.as_str()), ("t", "null"));
    assert_eq!(listed.body, format!("{}…", "é".repeat(16_384)));
    let whole = store.find_notification(Some("ann"), listed.id).expect("readable").expect("hers");
    assert_eq!((whole.body, whole.metadata), (text, metadata));
    assert_eq!(store.find_notification(Some("bob"), listed.id).expect("readable"), None);
}

async fn old_runs_are_taken_away_with_what_only_they_had(place: &TestDatabase) {
    let store = place.open();
    let large = |text: &str| finished_event(text.repeat(10_000).into());
    let end = |status| Event::RunFinished { status, error: None, failed: None, thread: None };
    // The first two share a large output; the third is unfinished.
    for (n, text, ended) in [(1, "a", Some(Status::Succeeded)), (2, "a", Some(Status::Failed)), (3, "b", None)] {
        let run = run_id(n);
        let lease = store.begin_run(run).expect("new");
        let mut records = vec![new_record(run, 1, created_event(&store)), new_record(run, 2, large(text))];
        records.extend(ended.map(|status| new_record(run, 3, end(status))));
        append_records(&*store, lease, records).await.expect("stored");
    }
    let write = MemoryWrite { key: "k".into(), value: Some(1.into()) };
    store.write_memory("ann".into(), vec![write]).await.expect("kept");
    let old = |status, before| PruneFilter { status, before };
    assert_eq!(store.count_prunable(old(Status::Succeeded, 1003)).expect("readable"), 0);
    assert_eq!(store.prune_runs(old(Status::Succeeded, 1004)).await.expect("done"), 1);
    assert_eq!(store.read(run_id(1), 0).await.expect_err("gone").code(), Code::RunNotFound);
    // An output that another run shares is still there.
    assert_eq!(store.read(run_id(2), 1).await.expect("readable")[0].event, large("a"));
    assert_eq!(store.prune_runs(old(Status::Failed, 1004)).await.expect("done"), 1);
    assert_eq!(store.list_runs(10).expect("readable").iter().map(|row| row.id).collect::<Vec<_>>(), [run_id(3)]);
    assert_eq!(store.read(run_id(3), 1).await.expect("readable")[0].event, large("b"));
    assert!(store.read_bundle(flowloom_core::Hash::of_bytes(b"the bundle")).is_ok());
    assert_eq!(store.read_memory("ann", "k").await.expect("readable"), Some(1.into()));
}

async fn a_child_run_is_deleted_with_its_parent(place: &TestDatabase) {
    let store = place.open();
    let end = |run, status| new_record(run, 2, Event::RunFinished { status, error: None, failed: None, thread: None });
    let (parent, child) = (run_id(2), run_id(1));
    let created = |run, around: Option<_>| {
        let Event::RunCreated(mut created) = created_event(&store) else { panic!("an event of another kind") };
        created.parent = around.map(|run| ParentStep { run, path: Path::parse("/sub").expect("a path"), epoch: None });
        new_record(run, 1, Event::RunCreated(created))
    };
    let leases = [parent, child].map(|run| store.begin_run(run).expect("new"));
    append_records(&*store, leases[0], vec![created(parent, None)]).await.expect("stored");
    let of_child = vec![created(child, Some(parent)), end(child, Status::Cancelled)];
    append_records(&*store, leases[1], of_child).await.expect("stored");
    append_records(&*store, leases[0], vec![end(parent, Status::Failed)]).await.expect("stored");
    let old = |status| PruneFilter { status, before: 1 << 60 };
    // A retry of the parent run looks for it.
    assert_eq!(store.prune_runs(old(Status::Cancelled)).await.expect("done"), 0);
    assert_eq!(store.prune_runs(old(Status::Failed)).await.expect("done"), 1);
    assert_eq!(store.list_runs(10).expect("readable"), []);
}

/// The schedules that are due at `now`, in the order in which they are started.
fn due_schedules(store: &Store, now: u64) -> Vec<ScheduleRow> {
    let keys = store.list_due_schedules(now).expect("readable");
    keys.iter().map(|key| store.find_schedule(&key.user, &key.id).expect("readable").expect("stored")).collect()
}

fn new_schedule() -> ScheduleRow {
    ScheduleRow {
        id: "s".into(),
        user: "ann".into(),
        workflow: "w".into(),
        cron: "* * * * *".into(),
        timezone: "UTC".into(),
        inputs: "{}".into(),
        catches_up: true,
        allows_overlap: false,
        is_paused: false,
        created_at: 1,
        next_at: 10,
        last_at: None,
        last_run: None,
        is_pending: false,
        last_error: None,
        skipped: 0,
    }
}

async fn users_take_turns_with_their_due_schedules(place: &TestDatabase) {
    let store = place.open();
    for (user, id, next_at) in [("ann", "a", 1), ("ann", "b", 2), ("ann", "c", 3), ("bob", "d", 4), ("ann", "e", 9)] {
        let row = ScheduleRow { user: user.into(), id: id.into(), next_at, ..new_schedule() };
        store.put_schedule(row, &Actor::command_line()).await.expect("kept");
    }
    let due = due_schedules(&store, 5);
    assert_eq!(due.iter().map(|row| row.id.as_str()).collect::<Vec<_>>(), ["a", "d", "b", "c"]);
    // A time that passed without a run is counted with the claim.
    let seen = ScheduleRow { skipped: 7, ..due[0].clone() };
    store.claim_schedule(&seen, 8, Some((run_id(1), 5))).await.expect("claimed");
    let claimed = store.find_schedule("ann", "a").expect("readable").expect("stored");
    assert_eq!((claimed.skipped, claimed.is_pending), (7, true));
    let due = due_schedules(&store, 5);
    assert_eq!(due.iter().map(|row| row.id.as_str()).collect::<Vec<_>>(), ["b", "d", "c", "a"], "it is pending");
}

async fn a_page_of_schedules_has_no_large_inputs(place: &TestDatabase) {
    let store = place.open();
    let large = format!("\"{}\"", "x".repeat(MAX_LISTED_INPUTS_BYTES));
    for (user, id, inputs) in [("ann", "a", "1"), ("bob", "a", large.as_str()), ("ann", "b", "3")] {
        let row = ScheduleRow { user: user.into(), id: id.into(), inputs: inputs.into(), ..new_schedule() };
        store.put_schedule(row, &Actor::command_line()).await.expect("kept");
    }
    let page = |user: Option<&str>, last: Option<&ScheduleKey>, limit: u32| {
        let rows = store.list_schedules_after(user, last, limit).expect("readable");
        rows.into_iter().map(|row| (row.user, row.id, row.inputs)).collect::<Vec<_>>()
    };
    let row = |user: &str, id: &str, inputs: &str| (user.to_owned(), id.to_owned(), inputs.to_owned());
    assert_eq!(page(None, None, 2), [row("ann", "a", "1"), row("bob", "a", "null")]);
    let last = ScheduleKey { user: "bob".into(), id: "a".into() };
    assert_eq!(page(None, Some(&last), 2), [row("ann", "b", "3")]);
    assert_eq!(page(Some("bob"), None, 9), [row("bob", "a", "null")]);
    assert_eq!(store.find_schedule("bob", "a").expect("readable").map(|row| row.inputs), Some(large));
    assert_eq!(store.find_schedule("bob", "b").expect("readable"), None);
}

async fn a_schedule_is_passed_over_and_paused(place: &TestDatabase) {
    let (store, other) = (place.open(), place.open());
    let row = new_schedule();
    store.put_schedule(row.clone(), &Actor::command_line()).await.expect("kept");
    let seen = &row;
    store.skip_due_time(seen, 40, "busy".into()).await.expect("skipped");
    let late = other.claim_schedule(seen, 40, Some((run_id(3), 30))).await;
    assert_eq!(late.expect_err("passed over").code(), Code::RunOwned);
    let seen = &due_schedules(&store, 40)[0];
    assert_eq!((seen.next_at, seen.last_error.as_deref()), (40, Some("busy")));
    store.pause_schedule("ann", "s", &Actor::command_line()).await.expect("paused");
    let paused = other.claim_schedule(seen, 50, Some((run_id(3), 40))).await;
    assert_eq!(paused.expect_err("paused").code(), Code::RunOwned);
    assert_eq!(due_schedules(&store, 40), []);
    store.put_schedule(row.clone(), &Actor::command_line()).await.expect("kept");
    assert!(store.list_schedules(Some("ann")).expect("readable")[0].is_paused, "stored again, it stays paused");
    store.resume_schedule("ann", "s", 60, &Actor::command_line()).await.expect("resumed");
    assert_eq!(due_schedules(&store, 59), []);
    assert_eq!(due_schedules(&store, 60).len(), 1);
    assert_eq!(
        store.pause_schedule("bob", "s", &Actor::command_line()).await.expect_err("not his").code(),
        Code::NotThere
    );
}

async fn what_is_due_is_claimed_once(place: &TestDatabase) {
    let (store, other) = (place.open(), place.open());
    let row = new_schedule();
    store.put_schedule(row.clone(), &Actor::command_line()).await.expect("kept");
    // Stored again, it is due when it was, unless its times change.
    store
        .put_schedule(ScheduleRow { cron: "1 * * * *".into(), ..row.clone() }, &Actor::command_line())
        .await
        .expect("kept");
    store.put_schedule(ScheduleRow { next_at: 10, ..row.clone() }, &Actor::command_line()).await.expect("kept");
    store
        .put_schedule(ScheduleRow { next_at: 15, inputs: "[]".into(), ..row.clone() }, &Actor::command_line())
        .await
        .expect("kept");
    store.put_schedule(ScheduleRow { next_at: 15, ..row.clone() }, &Actor::command_line()).await.expect("kept");
    assert_eq!(due_schedules(&store, 9), []);
    assert_eq!(due_schedules(&other, 10), std::slice::from_ref(&row));
    store.claim_schedule(&row, 20, Some((run_id(1), 10))).await.expect("claimed");
    let late = other.claim_schedule(&row, 20, Some((run_id(1), 10))).await;
    assert_eq!(late.expect_err("claimed").code(), Code::RunOwned);
    // The schedule stays due until its run is known to have started.
    let pending = due_schedules(&other, 11);
    let run = run_id(1).to_string();
    assert_eq!((pending[0].last_run.as_ref(), pending[0].last_at, pending[0].next_at), (Some(&run), Some(10), 20));
    other.settle_claim(&pending[0], None).await.expect("settled");
    assert_eq!(due_schedules(&store, 11), []);
    // A run that could not start is no run of the schedule.
    store.claim_schedule(&pending[0], 30, Some((run_id(2), 20))).await.expect("claimed");
    let pending = due_schedules(&other, 21);
    other.settle_claim(&pending[0], Some("no model".into())).await.expect("settled");
    let settled = store.list_schedules(Some("ann")).expect("readable");
    let ScheduleRow { last_run, last_error, skipped, .. } = &settled[0];
    assert_eq!((last_run, last_error.as_deref(), *skipped), (&None, Some("no model"), 1));

    store
        .change_definitions(vec![put_change(workflow_key("w"), "{}", &[])], &Actor::command_line(), 1)
        .await
        .expect("made");
    let gone = store
        .change_definitions(vec![DefinitionChange::Delete(workflow_key("w"))], &Actor::command_line(), 1)
        .await
        .expect_err("it is used");
    assert_eq!(&*gone.to_string(), "the workflow w is used by the schedule s");
    assert_eq!(
        store.delete_schedule("bob", "s", &Actor::command_line()).await.expect_err("not theirs").code(),
        Code::NotThere
    );
    store.delete_schedule("ann", "s", &Actor::command_line()).await.expect("deleted");
    store
        .change_definitions(vec![DefinitionChange::Delete(workflow_key("w"))], &Actor::command_line(), 1)
        .await
        .expect("made");
}
async fn definitions_of_two_processes_have_versions_of_their_own(place: &TestDatabase) {
    let (one, two, by) = (place.open(), place.open(), Actor::command_line());
    for n in 0..10 {
        let (first, second) = (format!("{n} one"), format!("{n} two"));
        let (first, second) = tokio::join!(
            one.change_definitions(vec![put_change(workflow_key("w"), &first, &[])], &by, 1),
            two.change_definitions(vec![put_change(workflow_key("w"), &second, &[])], &by, 2)
        );
        first.and(second).expect("both are made");
    }
    let versions = one.list_versions(&workflow_key("w")).expect("readable");
    assert_eq!(versions.iter().map(|row| row.version).collect::<Vec<_>>(), (1..=20).rev().collect::<Vec<_>>());
}
