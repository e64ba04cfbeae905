//! The state of the server: the open documents, the results of analysis, and the analyses in progress.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_lsp::ClientSocket;
use flowloom_formats::StopFlag;
use lsp_types::notification::PublishDiagnostics;
use lsp_types::{Diagnostic, PublishDiagnosticsParams, Url};
use tokio::sync::Semaphore;

use super::actions::DiagnosticWriter;
use super::check::{CheckJob, Checked};
use super::client::ClientAbilities;
use super::documents::Documents;
use super::pages::ErrorPages;
use super::runs::LastRuns;
use super::workspace::Folders;
use super::{ConversationEnd, LoadConfig};
use crate::analysis::lines::ColumnUnit;

/// How often the server looks whether runs have ended.
const RUN_INTERVAL: Duration = Duration::from_secs(1);

/// The state of the server.
pub(super) struct State {
    pub(super) client: ClientSocket,
    pub(super) documents: Documents,
    pub(super) unit: ColumnUnit,
    pub(super) abilities: ClientAbilities,
    pub(super) folders: Folders,
    /// How the conversation ends, once the editor has requested it.
    pub(super) end: Arc<OnceLock<ConversationEnd>>,
    /// Places for requests that are answered at the same time, one for each processor.
    pub(super) places: Arc<Semaphore>,
    load_config: LoadConfig,
    pages: Arc<ErrorPages>,
    runs: Arc<LastRuns>,
    /// The running check of each document.
    running: BTreeMap<Url, RunningCheck>,
    /// The last result of each document.
    results: Arc<BTreeMap<Url, Arc<Checked>>>,
    /// The diagnostics that the check of each document found, by the document that they belong to.
    found: BTreeMap<Url, BTreeMap<Url, Vec<Diagnostic>>>,
}

/// A check that has not ended.
struct RunningCheck {
    stop: StopFlag,
    /// Whether its result will be out of date, so that the document must be checked again.
    is_outdated: bool,
}

/// A check has ended.
pub(super) struct CheckEnded {
    pub(super) uri: Url,
    pub(super) checked: Checked,
    pub(super) diagnostics: BTreeMap<Url, Vec<Diagnostic>>,
}

/// It is time to look whether runs have ended.
pub(super) struct LookForRuns;

/// The state from which requests are answered, as it was when the request arrived.
#[derive(Clone)]
pub(super) struct Snapshot {
    pub(super) documents: Documents,
    pub(super) results: Arc<BTreeMap<Url, Arc<Checked>>>,
    pub(super) unit: ColumnUnit,
    pub(super) abilities: ClientAbilities,
    pub(super) folders: Folders,
    pub(super) pages: Arc<ErrorPages>,
    pub(super) runs: Arc<LastRuns>,
    load_config: LoadConfig,
}

impl State {
    pub(super) fn new(client: ClientSocket, load_config: LoadConfig, end: Arc<OnceLock<ConversationEnd>>) -> State {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        State {
            client,
            documents: Documents::default(),
            unit: ColumnUnit::default(),
            abilities: ClientAbilities::default(),
            folders: Folders::default(),
            end,
            places: Arc::new(Semaphore::new(processors)),
            load_config,
            pages: Arc::new(ErrorPages::in_cache()),
            runs: Arc::default(),
            running: BTreeMap::new(),
            results: Arc::default(),
            found: BTreeMap::new(),
        }
    }

    /// The state as it is now.
    pub(super) fn take_snapshot(&self) -> Snapshot {
        Snapshot {
            documents: self.documents.clone(),
            results: self.results.clone(),
            unit: self.unit,
            abilities: self.abilities,
            folders: self.folders.clone(),
            pages: self.pages.clone(),
            runs: self.runs.clone(),
            load_config: self.load_config.clone(),
        }
    }

    /// Asks at intervals whether runs have ended, until the server ends.
    pub(super) fn watch_runs(&self) {
        let client = self.client.clone();
        tokio::spawn(async move {
            let mut interval = tokio::time::interval(RUN_INTERVAL);
            interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                interval.tick().await;
                if client.emit(LookForRuns).is_err() {
                    return;
                }
            }
        });
    }

    /// Asks the editor to read lenses and hints again if a run that they show is no longer the newest, or has ended.
    pub(super) fn look_for_runs(&self) {
        let (snapshot, client) = (self.take_snapshot(), self.client.clone());
        let runtime = tokio::runtime::Handle::current();
        tokio::task::spawn_blocking(move || {
            if snapshot.runs.has_news(snapshot.results.values()) {
                let _entered = runtime.enter();
                snapshot.abilities.refresh_runs(&client);
            }
        });
    }

    /// Checks a document, and every open definition that reads its file.
    pub(super) fn check_dependents(&mut self, uri: &Url) {
        self.start_check(uri);
        if let Ok(path) = uri.to_file_path() {
            self.check_readers(&path, Some(uri));
        }
    }

    /// Checks every open document.
    pub(super) fn check_all(&mut self) {
        let all: Vec<Url> = self.documents.iter().map(|document| document.uri.clone()).collect();
        all.iter().for_each(|uri| self.start_check(uri));
    }

    /// Checks a document on the pool. A check of an older text is stopped, and the newest text is checked after it.
    fn start_check(&mut self, uri: &Url) {
        if let Some(running) = self.running.get_mut(uri) {
            running.stop.stop();
            running.is_outdated = true;
            return;
        }
        let snapshot = self.take_snapshot();
        let Some(job) = snapshot.new_check(uri) else { return };
        self.running.insert(uri.clone(), RunningCheck { stop: job.stop.clone(), is_outdated: false });
        let (uri, client) = (uri.clone(), self.client.clone());
        tokio::task::spawn_blocking(move || {
            // A parser that panics must not leave the document unchecked for good.
            let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| job.check())).unwrap_or_default();
            let diagnostics = snapshot.write_diagnostics(&uri, &checked);
            // Without a receiver, the server is ending.
            let _ = client.emit(CheckEnded { uri, checked, diagnostics });
        });
    }

    /// Takes the result of a check, or starts the next one if it is out of date.
    pub(super) fn end_check(&mut self, ended: CheckEnded) {
        let CheckEnded { uri, checked, diagnostics } = ended;
        let is_outdated = self.running.remove(&uri).is_some_and(|running| running.is_outdated);
        if self.documents.find(&uri).is_none() {
            return;
        }
        if is_outdated {
            self.start_check(&uri);
            return;
        }
        self.documents.set_format(&uri, checked.format);
        let version = checked.version;
        let old = Arc::make_mut(&mut self.results).insert(uri.clone(), Arc::new(checked));
        // After an edit the editor asks by itself. Of its first text the first answers know as much.
        if old.is_some_and(|old| old.version == version) {
            self.abilities.refresh_all(&self.client);
        }
        self.set_diagnostics(uri, diagnostics);
    }

    /// Forgets a document that was closed.
    pub(super) fn close(&mut self, uri: &Url) {
        if let Some(running) = self.running.get_mut(uri) {
            running.stop.stop();
        }
        self.documents.close(uri);
        Arc::make_mut(&mut self.results).remove(uri);
        self.set_diagnostics(uri.clone(), BTreeMap::new());
        let path = uri.to_file_path().unwrap_or_default();
        self.check_readers(&path, None);
    }

    /// Checks the open definitions that have read a file, except for one.
    fn check_readers(&mut self, path: &Path, except: Option<&Url>) {
        let name = path.display().to_string();
        let reads = |result: &Checked| result.files.contains_key(&name);
        let readers = self.results.iter().filter(|(uri, result)| Some(*uri) != except && reads(result));
        let readers: Vec<Url> = readers.map(|(uri, _)| uri.clone()).collect();
        readers.iter().for_each(|reader| self.start_check(reader));
    }

    /// Replaces what the check of one document has found, and notifies the editor of the changes.
    fn set_diagnostics(&mut self, source: Url, new: BTreeMap<Url, Vec<Diagnostic>>) {
        let old = self.found.remove(&source).unwrap_or_default();
        let targets: BTreeSet<Url> = old.keys().chain(new.keys()).chain([&source]).cloned().collect();
        if !new.is_empty() {
            self.found.insert(source, new);
        }
        for uri in targets {
            let mut all: Vec<Diagnostic> = Vec::new();
            for diagnostic in self.found.values().filter_map(|found| found.get(&uri)).flatten() {
                // A file that several definitions include has each problem once.
                if !all.contains(diagnostic) {
                    all.push(diagnostic.clone());
                }
            }
            let version = self.documents.find(&uri).map(|document| document.version);
            // The server is ending if the editor is gone.
            let _ = self.client.notify::<PublishDiagnostics>(PublishDiagnosticsParams::new(uri, all, version));
        }
    }
}

impl Snapshot {
    /// A check of an open document.
    pub(super) fn new_check(&self, uri: &Url) -> Option<CheckJob> {
        let document = self.documents.find(uri)?.clone();
        let (open_files, load_config) = (self.documents.open_files().clone(), self.load_config.clone());
        Some(CheckJob { document, open_files, load_config, stop: StopFlag::default() })
    }

    /// The last result of a document. A document that was opened just now is checked first.
    pub(super) fn find_last_result(&self, uri: &Url) -> Option<Arc<Checked>> {
        if let Some(last) = self.results.get(uri) {
            return Some(last.clone());
        }
        let first = &self.documents.find(uri)?.first_result;
        Some(first.get_or_init(|| self.new_check(uri).map(|job| Arc::new(job.check())).unwrap_or_default()).clone())
    }

    /// The result for the present text of a document: the last one if that is still true, or else a new one.
    pub(super) fn find_result(&self, uri: &Url) -> Option<Arc<Checked>> {
        let version = self.documents.find(uri)?.version;
        let last = self.results.get(uri).filter(|result| result.version == version);
        last.cloned().or_else(|| Some(Arc::new(self.new_check(uri)?.check())))
    }

    fn write_diagnostics(&self, uri: &Url, checked: &Checked) -> BTreeMap<Url, Vec<Diagnostic>> {
        DiagnosticWriter { snapshot: self, checked, entry: uri }.write_all()
    }
}
