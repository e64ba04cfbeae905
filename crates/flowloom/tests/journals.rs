//! Journals that each version writes: they are read, and replayed without a difference, by every later version.
//!
//! `tests/journals/v1/` has a file for each format and outcome. Its first line is the bundle and the expected status, and
//! each further line is a record. `make journals` writes the files with the definitions next to them.

mod support;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flowloom_core::event::{Event, Record};
use flowloom_core::state::RunState;
use flowloom_core::status::Status;
use flowloom_runtime::journal::{AppendResult, Batch, Journal};
use flowloom_store::{Durability, Store};
use serde::{Deserialize, Serialize};
use support::{TestServer, Workspace, exit_code, stderr_text};

/// The first line of a file.
#[derive(Deserialize, Serialize)]
struct Header {
    /// The bundle of the run.
    bundle: String,
    /// The status that the events add up to.
    status: String,
}

/// A stored run.
struct StoredJournal {
    header: Header,
    records: Vec<Arc<Record>>,
}

impl StoredJournal {
    fn parse(text: &str) -> StoredJournal {
        let mut lines = text.lines();
        let header = serde_json::from_str(lines.next().expect("a header")).expect("a header");
        let records = lines.map(|line| Arc::new(serde_json::from_str(line).expect("a record"))).collect();
        StoredJournal { header, records }
    }

    /// The newest run of a workspace.
    fn read_last(place: &Workspace) -> StoredJournal {
        let store = open_store(place);
        let run = store.find_run("last").expect("a run").id;
        let records = store.read_events(run, 0, u32::MAX).expect("readable");
        let Event::RunCreated(created) = &records[0].event else { panic!("{:?} is the first event", records[0]) };
        let bundle = store.read_bundle(created.bundle).expect("readable").to_string();
        StoredJournal { header: Header { bundle, status: status_of(&records).name().to_owned() }, records }
    }

    fn render(&self) -> String {
        let header = serde_json::to_string(&self.header).expect("JSON");
        let records = self.records.iter().map(|record| serde_json::to_string(record).expect("JSON"));
        std::iter::once(header).chain(records).map(|line| line + "\n").collect()
    }

    /// Stores the run as its own version did.
    async fn store_in(&self, store: &Store) {
        let Event::RunCreated(created) = &self.records[0].event else { panic!("{:?}", self.records[0]) };
        assert_eq!(store.hold_bundle(&self.header.bundle), created.bundle);
        let lease = store.begin_run(self.records[0].run).expect("new");
        match store.append_batch(lease, Batch::with_records(self.records.clone())) {
            AppendResult::Done(done) => done.expect("stored"),
            AppendResult::Later(later) => later.await.expect("stored"),
        };
    }
}

fn open_store(place: &Workspace) -> Arc<Store> {
    Store::open(&place.path("data"), Durability::Normal).expect("it opens")
}

fn status_of(records: &[Arc<Record>]) -> Status {
    RunState::from_records(records.iter().map(|record| &**record)).expect("legal").status
}

fn journals_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/journals")
}

fn files_in(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> =
        std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("readable").path()).collect();
    files.sort();
    files
}

/// The files of every version.
fn journal_files() -> Vec<PathBuf> {
    let versions =
        files_in(&journals_folder()).into_iter().filter(|path| path.is_dir() && !path.ends_with("definitions"));
    versions.flat_map(|version| files_in(&version)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_stored_journal_is_read_and_replayed() {
    let place = Workspace::new("");
    // A scripted model needs its file, even though a replay asks no model.
    copy_definitions(&journals_folder().join("definitions"), &place.path(""), "127.0.0.1:9");
    let files = journal_files();
    assert!(!files.is_empty());
    for file in files {
        let stored = StoredJournal::parse(&std::fs::read_to_string(&file).expect("UTF-8"));
        assert_eq!(status_of(&stored.records).name(), stored.header.status, "{}", file.display());
        let store = open_store(&place);
        stored.store_in(&store).await;
        let run = stored.records[0].run;
        assert_eq!(store.read_events(run, 0, u32::MAX).expect("readable"), stored.records, "{}", file.display());
        drop(store);
        let replayed = place.run(&["replay", &run.to_string()]);
        assert_eq!(exit_code(&replayed), 0, "{}: {}", file.display(), stderr_text(&replayed));
    }
    let mut damages = Vec::new();
    open_store(&place).check_database(&mut |damage| damages.push(damage)).expect("readable");
    assert_eq!(damages, []);
}

/// The events that some kept journal must have, in addition to those of every run.
const KEPT_EVENTS: [&str; 17] = [
    "step_started",
    "step_finished",
    "step_failed",
    "step_skipped",
    "step_aborted",
    "step_uncertain",
    "step_resent",
    "resolved",
    "asked",
    "answered",
    "cancel_requested",
    "run_suspended",
    "run_reopened",
    "run_finished",
    "child_suspended",
    "child_resumed",
    "evaluated",
];

#[test]
fn every_status_and_event_is_kept() {
    let kept: Vec<StoredJournal> = journal_files()
        .iter()
        .map(|file| StoredJournal::parse(&std::fs::read_to_string(file).expect("UTF-8")))
        .collect();
    let events: BTreeSet<&str> =
        kept.iter().flat_map(|journal| &journal.records).map(|record| record.event.name()).collect();
    let missing: Vec<_> = KEPT_EVENTS.iter().filter(|name| !events.contains(*name)).collect();
    assert!(missing.is_empty(), "no journal has {missing:?}");
    for definition in &DEFINITIONS {
        for outcome in definition.outcomes {
            let file = journals_folder().join(format!("v1/{}-{}.jsonl", definition.name, outcome.file_name()));
            let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            assert!(StoredJournal::parse(&text).has_outcome(*outcome), "{}", file.display());
        }
    }
}

/// The outcome of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Outcome {
    Succeeded,
    Failed,
    /// The process ended during the first effect.
    Interrupted,
    Cancelled,
    /// The process ended during an effect that must not be repeated.
    Uncertain,
    /// A person decided to send that effect again.
    Resolved,
    /// The run was cancelled before its first effect was sent, and then retried.
    Retried,
    /// The run was cancelled while a request was in progress.
    Aborted,
    /// The run reached its time limit while a request was in progress.
    TimedOut,
    /// The budget does not suffice for the first answer of a model.
    BudgetExceeded,
    /// Three processes ended during the first effect.
    Quarantined,
    /// A person is asked.
    Waiting,
    Answered,
}

impl Outcome {
    /// The name in the names of files.
    fn file_name(self) -> String {
        let words = format!("{self:?}");
        let is_start = |at: usize, letter: char| at > 0 && letter.is_uppercase();
        let spaced = words.char_indices().map(|(at, letter)| {
            let gap = if is_start(at, letter) { "-" } else { "" };
            format!("{gap}{}", letter.to_ascii_lowercase())
        });
        spaced.collect()
    }
}

/// A definition, and how its runs are started.
struct Definition {
    name: &'static str,
    arguments: &'static [&'static str],
    /// The arguments of a run that fails.
    failing: &'static [&'static str],
    /// The first hit of the failpoint `effect_response_after` in an effect that must not be repeated; 0 without one.
    uncertain_hit: u32,
    outcomes: &'static [Outcome],
}

/// The outcomes of definitions that send a request that must not be repeated.
const OUTCOMES_WITH_POST: [Outcome; 11] = [
    Outcome::Succeeded,
    Outcome::Failed,
    Outcome::Interrupted,
    Outcome::Cancelled,
    Outcome::Retried,
    Outcome::Aborted,
    Outcome::TimedOut,
    Outcome::BudgetExceeded,
    Outcome::Quarantined,
    Outcome::Uncertain,
    Outcome::Resolved,
];

/// The outcomes of definitions that ask a person.
const OUTCOMES_WITH_QUESTION: [Outcome; 3] = [Outcome::Waiting, Outcome::Answered, Outcome::Cancelled];

/// The outcomes of definitions whose expressions the sandbox evaluates.
const OUTCOMES_WITH_EXPRESSIONS: [Outcome; 4] =
    [Outcome::Succeeded, Outcome::Failed, Outcome::Interrupted, Outcome::Retried];

const DEFINITIONS: [Definition; 10] = [
    Definition {
        name: "steps",
        arguments: &["steps.json", "--input", "tea.txt"],
        failing: &["steps.json", "--input", "tea.txt", "--model", "scripted:failing.json"],
        uncertain_hit: 2,
        outcomes: &OUTCOMES_WITH_POST,
    },
    Definition {
        name: "steps-question",
        arguments: &["question.json", "--input", "tea.txt"],
        failing: &[],
        uncertain_hit: 0,
        outcomes: &OUTCOMES_WITH_QUESTION,
    },
    Definition {
        name: "steps-child",
        arguments: &["child.json", "--input", "tea.txt"],
        failing: &[],
        uncertain_hit: 0,
        outcomes: &OUTCOMES_WITH_QUESTION,
    },
    Definition {
        name: "flow",
        arguments: &["flow.json", "-i", "tag=tea"],
        failing: &["flow.json", "-i", "tag=fail"],
        uncertain_hit: 1,
        outcomes: &OUTCOMES_WITH_POST,
    },
    Definition {
        name: "markdown",
        arguments: &["markdown.mdx", "-i", "tag=tea"],
        failing: &["markdown.mdx", "-i", "tag=fail"],
        uncertain_hit: 1,
        outcomes: &OUTCOMES_WITH_POST,
    },
    Definition {
        name: "markdown-expressions",
        arguments: &["expressions.mdx", "-i", "tag=tea"],
        failing: &["expressions.mdx", "-i", "tag=fail"],
        uncertain_hit: 0,
        outcomes: &OUTCOMES_WITH_EXPRESSIONS,
    },
    Definition {
        name: "pipeline",
        arguments: &["pipeline.json"],
        failing: &["pipeline.json", "--model", "scripted:failing.json"],
        uncertain_hit: PIPELINE_HIT,
        outcomes: &OUTCOMES_WITH_POST,
    },
    Definition {
        name: "graph",
        arguments: &["graph.json", "-i", "message=tea", "--model", "scripted:calls.json"],
        failing: &["graph.json", "-i", "message=fail", "--model", "scripted:calls.json"],
        uncertain_hit: 2,
        outcomes: &OUTCOMES_WITH_POST,
    },
    Definition {
        name: "agent",
        arguments: &["agent.json", "-i", "message=tea", "--model", "scripted:calls.json"],
        failing: &["agent.json", "-i", "message=fail", "--model", "scripted:calls.json"],
        uncertain_hit: 2,
        outcomes: &OUTCOMES_WITH_POST,
    },
    Definition {
        name: "agent-approval",
        arguments: &["approval.json", "-i", "message=tea", "--model", "scripted:calls.json"],
        failing: &[],
        uncertain_hit: 0,
        outcomes: &OUTCOMES_WITH_QUESTION,
    },
];

/// The pipeline reads the profile and the memory first.
const PIPELINE_HIT: u32 = 3;

impl Definition {
    /// Runs the definition to an outcome, and returns its journal.
    fn write_journal(&self, outcome: Outcome, server: &TestServer) -> StoredJournal {
        let place = Workspace::new("");
        copy_definitions(&journals_folder().join("definitions"), &place.path(""), &server.address);
        place.write("tea.txt", "tea");
        if matches!(outcome, Outcome::Aborted | Outcome::TimedOut) {
            self.stop_slow_run(outcome, &place);
            return StoredJournal::read_last(&place);
        }
        let failpoint = match outcome {
            Outcome::Interrupted | Outcome::Quarantined => Some("effect_response_after:1".to_owned()),
            Outcome::Cancelled | Outcome::Retried if self.outcomes != OUTCOMES_WITH_QUESTION => {
                Some("effect_dispatch_before:1".to_owned())
            }
            Outcome::Uncertain | Outcome::Resolved => Some(format!("effect_response_after:{}", self.uncertain_hit)),
            _ => None,
        };
        let arguments = if outcome == Outcome::Failed { self.failing } else { self.arguments };
        let budget: &[&str] = if outcome == Outcome::BudgetExceeded { &["--budget", "tokens=1"] } else { &[] };
        let mut run = place.build_command(&[&["run"], arguments, budget].concat());
        run.envs(failpoint.map(|failpoint| ("FLOWLOOM_FAILPOINT", failpoint)));
        run.output().expect("it runs");
        match outcome {
            Outcome::Cancelled => drop(place.run(&["cancel", "last"])),
            Outcome::Retried => {
                place.run(&["cancel", "last"]);
                place.run(&["retry", "last"]);
                // A request that must not be repeated was about to be sent.
                if StoredJournal::read_last(&place).header.status == Status::Uncertain.name() {
                    resend_uncertain(&place);
                }
            }
            Outcome::Quarantined => quarantine_last(&place),
            Outcome::Uncertain => drop(place.run(&["resume", "last"])),
            Outcome::Resolved => {
                place.run(&["resume", "last"]);
                resend_uncertain(&place);
            }
            Outcome::Answered => drop(place.run(&["answer", "last", "true"])),
            _ => {}
        }
        StoredJournal::read_last(&place)
    }
}

impl Definition {
    /// Runs the definition with a server that does not answer, and cancels the run or lets it reach its time limit.
    fn stop_slow_run(&self, outcome: Outcome, place: &Workspace) {
        let server = TestServer::start();
        let definitions = journals_folder().join("definitions");
        copy_definitions(&definitions, &place.path(""), &server.address);
        rewrite_files(&place.path(""), "/post", "/slow");
        let limit: &[&str] = if outcome == Outcome::TimedOut { &["--budget", "time=3s"] } else { &[] };
        let run = place.start(&[&["run"], self.arguments, limit].concat());
        server.wait_for_requests("/slow", 1);
        if outcome == Outcome::Aborted {
            place.run(&["cancel", "last"]);
        }
        run.wait_with_output().expect("it ends");
    }
}

fn resend_uncertain(place: &Workspace) {
    let path = StoredJournal::read_last(place).uncertain_path();
    place.run(&["resolve", "last", &path, "--resend"]);
}

/// Does with the newest run what a server does after its third process has died.
fn quarantine_last(place: &Workspace) {
    let store = open_store(place);
    let run = store.find_run("last").expect("a run");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(store.quarantine_run(run.id, run.created_at + 1000)).expect("nobody drives it");
}

/// Replaces a text in the definitions.
fn rewrite_files(folder: &Path, from: &str, to: &str) {
    for path in files_in(folder) {
        if path.is_dir() && !path.ends_with("data") {
            rewrite_files(&path, from, to);
        } else if let Ok(text) = std::fs::read_to_string(&path) {
            std::fs::write(&path, text.replace(from, to)).expect("written");
        }
    }
}

impl StoredJournal {
    fn uncertain_path(&self) -> String {
        let uncertain = self.records.iter().find(|record| matches!(record.event, Event::StepUncertain));
        uncertain.expect("an uncertain step").path.to_string()
    }

    fn has_outcome(&self, outcome: Outcome) -> bool {
        let is_made = |of: fn(&Event) -> bool| self.records.iter().any(|record| of(&record.event));
        let status = match outcome {
            Outcome::Succeeded => Status::Succeeded,
            Outcome::Resolved if is_made(|event| matches!(event, Event::Resolved { .. })) => Status::Succeeded,
            // The answer to a child run is in its own journal.
            Outcome::Answered
                if is_made(|event| matches!(event, Event::Answered { .. } | Event::ChildResumed { .. })) =>
            {
                Status::Succeeded
            }
            Outcome::Failed => Status::Failed,
            Outcome::Interrupted => Status::Running,
            Outcome::Cancelled => Status::Cancelled,
            Outcome::Retried if is_made(|event| matches!(event, Event::RunReopened { .. })) => Status::Succeeded,
            Outcome::Aborted if is_made(|event| matches!(event, Event::StepAborted { .. })) => Status::Cancelled,
            Outcome::TimedOut => Status::TimedOut,
            Outcome::BudgetExceeded => Status::BudgetExceeded,
            Outcome::Quarantined => Status::Quarantined,
            Outcome::Uncertain => Status::Uncertain,
            Outcome::Waiting => Status::Waiting,
            Outcome::Resolved | Outcome::Answered | Outcome::Retried | Outcome::Aborted => return false,
        };
        self.header.status == status.name()
    }
}

/// Copies the definitions, in which `@SERVER@` is replaced by the address of the server.
fn copy_definitions(from: &Path, to: &Path, server: &str) {
    for path in files_in(from) {
        let target = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            std::fs::create_dir_all(&target).expect("created");
            copy_definitions(&path, &target, server);
        } else {
            let text = std::fs::read_to_string(&path).expect("UTF-8");
            std::fs::write(&target, text.replace("@SERVER@", server)).expect("written");
        }
    }
}

#[test]
#[ignore = "writes tests/journals/v1: make journals"]
fn write_journals() {
    let server = TestServer::start();
    let folder = journals_folder().join("v1");
    std::fs::create_dir_all(&folder).expect("created");
    let mut wrong = Vec::new();
    for definition in &DEFINITIONS {
        for outcome in definition.outcomes {
            let file = folder.join(format!("{}-{}.jsonl", definition.name, outcome.file_name()));
            if file.exists() {
                continue;
            }
            let journal = definition.write_journal(*outcome, &server);
            if journal.has_outcome(*outcome) {
                std::fs::write(&file, journal.render()).expect("written");
            } else {
                wrong.push(format!("{} is {}", file.display(), journal.header.status));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
