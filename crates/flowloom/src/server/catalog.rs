//! The definitions of a folder, by id. Each is compiled when it is first needed, and again when its file has changed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use flowloom_core::hash::Hash;
use flowloom_core::plan::{Format, Plan};
use flowloom_runtime::Engine;
use tokio::sync::OnceCell;

use super::Server;
use super::problem::{Answer, Problem};
use crate::app::App;
use crate::bundle::Bundle;
use crate::source::{self, Reading};

/// Folders below the served one that are looked into.
const DEPTH: usize = 8;

/// Endings of files that may be definitions.
const ENDINGS: [&str; 3] = ["json", "mdx", "md"];

/// Folders that hold parts of definitions.
const PARTS: [&str; 3] = ["agents", "blocks", "node_modules"];

/// A definition that can be run.
pub(crate) struct Prepared {
    pub(crate) plan: Arc<Plan>,
    pub(crate) engine: Engine,
    /// The definition and everything else that was read, and its hash.
    bundle: (Hash, Arc<str>),
}

impl Prepared {
    /// Keeps the bundle for a run that is about to start.
    pub(crate) fn keep(&self, app: &App) -> Hash {
        let (hash, text) = &self.bundle;
        app.store.keep_hashed(*hash, text);
        *hash
    }
}

/// A definition of the folder.
pub(crate) struct Definition {
    pub(crate) id: String,
    /// Its file below the folder.
    pub(crate) file: String,
    pub(crate) format: Format,
    /// What `check` says of it, as JSON.
    pub(crate) problems: Vec<serde_json::Value>,
    pub(crate) is_refused: bool,
    pub(crate) prepared: Option<Prepared>,
    path: PathBuf,
    /// MCP servers whose tools it offers to models.
    asks: Vec<String>,
    /// The same as `prepared`, once those servers have said what they have.
    asked: OnceCell<Prepared>,
    changed: Stamp,
}

impl Definition {
    /// Whether its files are as they were when it was compiled.
    fn is_fresh(&self) -> bool {
        self.changed.iter().all(|(path, then)| changed(path) == *then)
    }

    /// What a run needs: MCP servers are asked for their tools when they are first needed. `None` if it has errors.
    pub(crate) async fn ready(&self, catalog: &Catalog) -> Result<Option<&Prepared>, StepError> {
        if self.asks.is_empty() || self.prepared.is_none() {
            return Ok(self.prepared.as_ref());
        }
        let asked = self.asked.get_or_try_init(async || {
            let app = &catalog.app;
            let offered = app.servers.offered(&app.config, &self.asks).await?;
            let reading = Reading { config: &app.config, format: Some(self.format), lenient: false };
            let source = source::load_with(&self.path, &reading, offered);
            let refused = || StepError::new(Code::StepRefused, format!("the workflow {} has changed", self.id));
            let plan = source.compiled.plan.clone().ok_or_else(refused)?;
            catalog.prepare(&source, Arc::new(plan))
        });
        asked.await.map(Some)
    }
}

/// The definition called `id`. One that has not changed is at hand; to compile one takes a thread that may wait.
pub(crate) async fn find(server: &Arc<Server>, id: &str) -> Answer<Arc<Definition>> {
    if let Some(known) = server.catalog.known(id) {
        return Ok(known);
    }
    let (shared, name) = (server.clone(), id.to_owned());
    let found = super::blocking(move || shared.catalog.find(&name)).await?;
    found.ok_or_else(|| Problem::not_there("workflow", id))
}

/// When the files of a definition changed last.
type Stamp = Vec<(PathBuf, Option<SystemTime>)>;

/// The folder that is served.
pub(crate) struct Catalog {
    root: PathBuf,
    app: Arc<App>,
    known: Mutex<BTreeMap<PathBuf, Arc<Definition>>>,
}

impl Catalog {
    pub(crate) fn new(root: PathBuf, app: Arc<App>) -> Catalog {
        Catalog { root, app, known: Mutex::default() }
    }

    /// Every definition, in the order of their ids. Reads the folder.
    pub(crate) fn list(&self) -> Vec<Arc<Definition>> {
        let mut files = Vec::new();
        collect(&self.root, 0, &mut files);
        let mut found: Vec<_> = files.iter().filter_map(|file| self.read(file)).collect();
        found.sort_by(|a, b| a.id.cmp(&b.id));
        // Two files of one id: the first counts, and both are there under their own paths.
        found.dedup_by(|b, a| a.id == b.id);
        found
    }

    /// The definition called `id`.
    fn find(&self, id: &str) -> Option<Arc<Definition>> {
        let known = self.compiled(id).and_then(|known| self.read(&known.path));
        let fresh = known.filter(|definition| definition.id == id);
        fresh.or_else(|| self.list().into_iter().find(|definition| definition.id == id))
    }

    /// The definition called `id`, if it was compiled and its files have not changed since. To look at a file's time takes
    /// microseconds.
    fn known(&self, id: &str) -> Option<Arc<Definition>> {
        self.compiled(id).filter(|known| known.is_fresh())
    }

    fn compiled(&self, id: &str) -> Option<Arc<Definition>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.values().find(|definition| definition.id == id).cloned()
    }

    /// Compiles a file, unless that was done since it changed; `None` if it is no definition.
    fn read(&self, path: &Path) -> Option<Arc<Definition>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(path).cloned();
        if let Some(known) = known.filter(|known| known.is_fresh()) {
            return Some(known);
        }
        let read = self.compile(path).map(Arc::new);
        let mut all = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match &read {
            Some(definition) => all.insert(path.to_owned(), definition.clone()),
            None => all.remove(path),
        };
        read
    }

    fn compile(&self, path: &Path) -> Option<Definition> {
        let reading = Reading { config: &self.app.config, format: None, lenient: false };
        let source = source::load(path, &reading);
        let format = source.compiled.format?;
        if path.extension().is_some_and(|end| end == "md") && !asks_a_model(&source.bytes) {
            return None;
        }
        let file = path.strip_prefix(&self.root).unwrap_or(path).display().to_string();
        let changed = stamp(source.files.keys().map(PathBuf::from).collect::<Vec<_>>().iter());
        let is_refused = source.compiled.diagnostics.iter().any(flowloom_core::diagnostic::Diagnostic::is_error);
        let problems = source::to_json(std::slice::from_ref(&source));
        let prepared = source.compiled.plan.clone().and_then(|plan| self.prepare(&source, Arc::new(plan)).ok());
        let own = prepared.as_ref().and_then(|prepared| prepared.plan.id.clone());
        Some(Definition {
            id: own.unwrap_or_else(|| id_of(&file)),
            file,
            format,
            problems: problems.as_array().cloned().unwrap_or_default(),
            is_refused,
            prepared,
            path: path.to_owned(),
            asks: source.compiled.asks,
            asked: OnceCell::new(),
            changed,
        })
    }

    fn prepare(&self, source: &source::Source, plan: Arc<Plan>) -> Result<Prepared, StepError> {
        let bundle = self.app.bundle(&source.name, &source.files, plan.format)?;
        let bundle = Bundle { offered: source.offered.clone(), ..bundle };
        let (engine, text) = (self.app.engine(&bundle)?, bundle.text()?);
        Ok(Prepared { plan, engine, bundle: (Hash::of(text.as_bytes()), text.into()) })
    }
}

/// Whether a text has an action that asks a model; most files that end in `.md` are only to be read.
fn asks_a_model(bytes: &[u8]) -> bool {
    String::from_utf8_lossy(bytes).to_ascii_lowercase().contains("<gen")
}

/// `flow/weather.json` as `flow.weather`.
fn id_of(file: &str) -> String {
    let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
    let clean = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') { c } else { '.' };
    stem.chars().map(clean).collect()
}

fn stamp<'a>(paths: impl Iterator<Item = &'a PathBuf>) -> Stamp {
    paths.map(|path| (path.clone(), changed(path))).collect()
}

fn changed(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok()
}

fn collect(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if name.starts_with('.') {
            continue;
        }
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && depth < DEPTH && !PARTS.contains(&&*name) => collect(&path, depth + 1, files),
            Ok(kind) if kind.is_file() && path.extension().is_some_and(|end| ENDINGS.iter().any(|one| end == *one)) => {
                files.push(path);
            }
            _ => {}
        }
    }
}
