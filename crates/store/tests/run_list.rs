//! How runs are listed and found, on SQLite and on Postgres.

#[macro_use]
mod support;

use flowloom_core::code::Code;
use flowloom_core::event::{Event, RunProject};
use flowloom_core::status::Status;
use flowloom_core::value::Value;
use flowloom_runtime::journal::Journal as _;
use flowloom_store::{RunFilter, Store};

use support::{TestDatabase, append_records, created_event, new_record, run_id};

on_both!(
    runs_are_found_by_prefix,
    a_list_has_the_inputs_of_its_runs,
    each_project_has_runs_of_its_own,
    lists_and_counts_agree_about_interrupted_runs
);

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

async fn a_list_has_the_inputs_of_its_runs(place: &TestDatabase) {
    let store = place.open();
    let long = "x".repeat(10_000);
    for (n, text) in [(1, "storms \u{0} \"é"), (2, &*long), (3, &*"y".repeat(2 << 20))] {
        let lease = store.begin_run(run_id(n)).expect("new");
        let Event::RunCreated(mut created) = created_event(&store) else { panic!("a run is created") };
        created.inputs = Value::map([("topic", text.into())]);
        append_records(&*store, lease, vec![new_record(run_id(n), 1, Event::RunCreated(created))])
            .await
            .expect("stored");
    }
    let inputs = store.read_short_inputs(&[run_id(1), run_id(2), run_id(3), run_id(4)]).expect("readable");
    let topic = |n: u8| inputs.get(&run_id(n))?.get("topic")?.as_str();
    assert_eq!(topic(1), Some("storms \u{0} \"é"));
    let start = topic(2).expect("its beginning");
    assert!(start.len() > 1_000 && start.len() < long.len() && long.starts_with(start));
    assert_eq!((topic(3), inputs.len()), (None, 2));
}

async fn each_project_has_runs_of_its_own(place: &TestDatabase) {
    let store = place.open();
    for (n, project) in [(1, "shop"), (2, "blog"), (3, "")] {
        let lease = store.begin_run(run_id(n)).expect("new");
        let Event::RunCreated(mut created) = created_event(&store) else { panic!("a run is created") };
        created.project = Some(RunProject { name: project.into(), config: String::new() });
        append_records(&*store, lease, vec![new_record(run_id(n), 1, Event::RunCreated(created))])
            .await
            .expect("stored");
    }
    let list = |store: &Store| {
        let filter = RunFilter { limit: 9, ..RunFilter::default() };
        let rows = store.list_runs_matching(&filter).expect("a list");
        assert_eq!(store.count_runs(&filter).expect("a count"), rows.len() as u64);
        assert_eq!(store.list_intact_runs(&filter).expect("a list"), (rows.clone(), Vec::new()));
        rows.into_iter().map(|row| row.id).collect::<Vec<_>>()
    };
    let (shop, blog) = (place.open_for_project("shop"), place.open_for_project("blog"));
    assert_eq!((list(&shop), list(&blog), list(&store)), (vec![run_id(1)], vec![run_id(2)], vec![run_id(3)]));
    assert_eq!(shop.find_run("last").expect("a run").id, run_id(1));
    assert_eq!(shop.find_run(&run_id(2).to_string()).expect("any project").id, run_id(2));
}

/// A run whose worker is dead is interrupted for lists, for counts and for metrics alike.
async fn lists_and_counts_agree_about_interrupted_runs(place: &TestDatabase) {
    let dead = place.open();
    let lives = place.open();
    for (store, number) in [(&dead, 1), (&lives, 2)] {
        let lease = store.begin_run(run_id(number)).expect("new");
        let started = Event::RunStarted { epoch: 1 };
        let records = vec![new_record(run_id(number), 1, created_event(store)), new_record(run_id(number), 2, started)];
        append_records(&**store, lease, records).await.expect("stored");
    }
    drop(dead);
    let reader = place.open();
    let list = |status: &str| {
        let filter = RunFilter { status: Some(status.to_owned()), limit: 10, ..RunFilter::default() };
        let rows = reader.list_runs_matching(&filter).expect("readable");
        assert_eq!(reader.count_runs(&filter).expect("readable"), rows.len() as u64);
        rows.iter().map(|row| (row.id, row.current_status().to_owned())).collect::<Vec<_>>()
    };
    assert_eq!(list("interrupted"), [(run_id(1), "interrupted".to_owned())]);
    assert_eq!(list("running"), [(run_id(2), "running".to_owned())]);
    let counts = reader.count_by_status().expect("readable");
    assert_eq!(counts, [("interrupted".to_owned(), 1), ("running".to_owned(), 1)]);
}
