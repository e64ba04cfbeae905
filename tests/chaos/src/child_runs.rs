//! A run with its child runs, as their events show them.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::definitions::answer_question;

/// The events of runs, by the id of the run.
pub(crate) type Journals = BTreeMap<String, Vec<Value>>;

/// An event of a run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EventId {
    pub(crate) run: String,
    pub(crate) seq: u64,
}

/// A step of a run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StepPlace {
    pub(crate) run: String,
    pub(crate) path: String,
}

/// A step that waits for a person.
#[derive(Clone, Debug)]
pub(crate) struct OpenStep {
    /// The event since which it waits. It is one of the innermost run.
    pub(crate) event: Value,
    /// The step in its own run, and in each run around that, from the inside out. A command may be sent to any of them.
    pub(crate) places: Vec<StepPlace>,
}

impl OpenStep {
    pub(crate) fn event_id(&self) -> EventId {
        EventId { run: self.places[0].run.clone(), seq: self.event["seq"].as_u64().unwrap_or_default() }
    }

    /// The answer to the question that the step asks.
    pub(crate) fn answer(&self) -> String {
        answer_question(self.event.pointer("/data/question").and_then(Value::as_str).unwrap_or_default())
    }
}

/// The child runs that the steps of a run waited for.
pub(crate) fn list_child_runs(events: &[Value]) -> Vec<String> {
    let suspended = events.iter().filter(|event| event["event"] == "child_suspended");
    suspended.filter_map(|event| event.pointer("/data/run")?.as_str().map(str::to_owned)).collect()
}

/// The steps of `run` and of its child runs that wait since an event of kind `opening`, and that every run around them
/// lists.
pub(crate) fn find_open_steps(journals: &Journals, run: &str, opening: &str, closing: &str) -> Vec<OpenStep> {
    let mut found = Vec::new();
    for (inner, events) in journals {
        for event in find_open(events, opening, closing) {
            let path = text(&event, "path");
            let places = list_places(journals, inner, &path);
            let is_listed = |place: &StepPlace| place.run == *inner || is_listed(&journals[&place.run], &place.path);
            if places.last().is_some_and(|place| place.run == run) && places.iter().all(is_listed) {
                found.push(OpenStep { event, places });
            }
        }
    }
    found
}

/// A step in its own run and in each run around that, from the inside out.
pub(crate) fn list_places(journals: &Journals, run: &str, path: &str) -> Vec<StepPlace> {
    let mut places = vec![StepPlace { run: run.to_owned(), path: path.to_owned() }];
    while let Some(place) = places.last().and_then(|inner| find_place_around(journals, inner)) {
        places.push(place);
    }
    places
}

/// A step of a child run in the run around that.
fn find_place_around(journals: &Journals, inner: &StepPlace) -> Option<StepPlace> {
    journals.iter().find_map(|(run, events)| {
        let is_parent = |event: &&Value| {
            event["event"] == "child_suspended" && event.pointer("/data/run") == Some(&Value::from(inner.run.as_str()))
        };
        let step = events.iter().find(is_parent)?;
        Some(StepPlace { run: run.clone(), path: child_step_path(step, &inner.path) })
    })
}

/// The path that a step of a child run has in the run of `waiting`, an event of the step that waits for the child run.
fn child_step_path(waiting: &Value, inner: &str) -> String {
    let path = text(waiting, "path");
    match waiting["attempt"].as_u64() {
        None | Some(0 | 1) => format!("{path}/run~1{inner}"),
        Some(attempt) => format!("{path}#{attempt}/run~1{inner}"),
    }
}

/// Whether a run shows that the step of a child run waits.
fn is_listed(events: &[Value], path: &str) -> bool {
    find_open(events, "child_suspended", "child_resumed").iter().any(|event| {
        let open = event.pointer("/data/open").and_then(Value::as_array);
        open.into_iter().flatten().any(|step| child_step_path(event, &text(step, "path")) == path)
    })
}

/// The events of kind `opening` that no event of kind `closing` follows at the same place.
fn find_open(events: &[Value], opening: &str, closing: &str) -> Vec<Value> {
    let mut open: BTreeMap<String, Value> = BTreeMap::new();
    for event in events {
        let place = format!("{} {}", event["path"], event["attempt"]);
        match event["event"].as_str() {
            Some(name) if name == opening => drop(open.insert(place, event.clone())),
            Some(name) if name == closing => drop(open.remove(&place)),
            _ => {}
        }
    }
    open.into_values().collect()
}

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn waiting(path: &str, child: &str, open: &str) -> Value {
        let data = json!({"run": child, "status": "waiting", "open": [{"path": open}]});
        json!({"path": path, "attempt": 1, "event": "child_suspended", "data": data})
    }

    fn nested_journals() -> Journals {
        let asked = json!({"path": "/ask", "attempt": 1, "event": "asked"});
        Journals::from([
            ("outer".to_owned(), vec![waiting("/deep", "middle", "/approve/run~1/ask")]),
            ("middle".to_owned(), vec![waiting("/approve", "inner", "/ask")]),
            ("inner".to_owned(), vec![asked]),
        ])
    }

    #[test]
    fn an_open_step_has_a_place_in_every_run_around_it() {
        let open = find_open_steps(&nested_journals(), "outer", "asked", "answered");
        let places: Vec<&str> = open.iter().flat_map(|step| &step.places).map(|place| place.path.as_str()).collect();
        assert_eq!(places, ["/ask", "/approve/run~1/ask", "/deep/run~1/approve/run~1/ask"]);
    }

    #[test]
    fn a_step_that_a_run_around_it_does_not_list_is_not_open() {
        let mut journals = nested_journals();
        let resumed = json!({"path": "/deep", "attempt": 1, "event": "child_resumed", "data": {"run": "middle"}});
        journals.get_mut("outer").expect("there").push(resumed);
        assert!(find_open_steps(&journals, "outer", "asked", "answered").is_empty());
    }
}
