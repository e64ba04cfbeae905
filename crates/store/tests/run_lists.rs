//! Lists of runs, by each filter: the same on SQLite and on Postgres.

#[macro_use]
mod support;

use flowloom_core::event::Event;
use flowloom_core::status::Status;
use flowloom_core::trigger::RunTrigger;
use flowloom_runtime::journal::Journal as _;
use flowloom_store::RunFilter;

use support::{TestDatabase, append_records, created_event, new_record, run_id};

on_both!(runs_are_filtered_and_counted,);

async fn runs_are_filtered_and_counted(place: &TestDatabase) {
    let store = place.open();
    let trigger = |kind: &'static str, id: Option<&str>| RunTrigger {
        kind: kind.into(),
        id: id.map(str::to_owned),
        call: None,
        background: false,
    };
    let of_schedule = |id| trigger("schedule", Some(id));
    let triggers = [None, Some(of_schedule("nightly")), Some(of_schedule("weekly")), Some(trigger("api", None))];
    for (n, trigger) in (1..).zip(triggers) {
        let lease = store.begin_run(run_id(n)).expect("new");
        let Event::RunCreated(mut created) = created_event(&store) else { panic!("another event") };
        created.trigger = trigger;
        let mut records = vec![
            new_record(run_id(n), 1, Event::RunCreated(created)),
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
    let since = |time| ids(RunFilter { since: Some(time), ..all.clone() });
    let created = store.get_run(run_id(3)).expect("readable").expect("there").created_at;
    assert!(since(created).contains(&run_id(3)) && since(u64::from(u32::MAX) << 20).is_empty());
    let started_by = |trigger| ids(RunFilter { trigger: Some(trigger), ..all.clone() });
    assert_eq!(started_by(of_schedule("nightly")), [run_id(2)]);
    assert_eq!(started_by(trigger("schedule", None)), [run_id(3), run_id(2)]);
    assert_eq!(started_by(trigger("webhook", None)), []);
    let row = store.get_run(run_id(4)).expect("readable").expect("there");
    assert_eq!(row.trigger, Some(trigger("api", None)));
    assert_eq!(ids(RunFilter { user: Some("bob".into()), ..all }), []);
    assert!(store.size_bytes().expect("readable") > 0);
    assert!(!store.describe_database().expect("readable").is_empty());
}
