//! The definitions that can be run, by id: the files of the served folder, and those that the store keeps. Each is
//! compiled when it is first needed, and again when it, or something it needs, has changed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use flowloom_core::plan::{Format, Plan};
use flowloom_formats::compile;
use flowloom_store::{DefinitionKey, DefinitionRow, Kind, Origin};
use tokio::sync::OnceCell;

use super::folder::{self, Stamp, stamp};
use crate::definitions::bundle::Offered;
use crate::definitions::source::{Loader, Source};
use crate::definitions::stored::{self, Content, Looked};
use crate::engines::App;
use crate::runs::start::Prepared;
use crate::tools::agents;

/// How long a kept definition is started without looking whether a new file of the folder has its id.
const LISTED: Duration = Duration::from_secs(1);

/// Calls that come so shortly after one another share one look at a definition's file.
const LOOK: Duration = Duration::from_millis(1);

/// Kept definitions that stay compiled at most.
const KEPT: usize = 1024;

/// A definition.
pub struct Definition {
    /// Its id.
    pub id: String,
    /// Its format.
    pub format: Format,
    pub(crate) place: Place,
    /// What `check` says of it, as JSON.
    pub problems: Vec<serde_json::Value>,
    /// Whether it has an error, so that it cannot be run.
    pub is_refused: bool,
    /// The compiled definition; `None` if it has errors.
    pub prepared: Option<Arc<Prepared>>,
    /// MCP servers whose tools it offers to models.
    asks: Vec<String>,
    /// The same as `prepared`, once those servers have said what they have.
    asked: OnceCell<Arc<Prepared>>,
    /// When its file was last seen to be unchanged.
    looked: Mutex<Option<Instant>>,
}

/// Where a definition is.
pub(crate) enum Place {
    /// In the served folder.
    File {
        /// Its file below the folder.
        file: String,
        changed: Stamp,
    },
    /// In the store, with what was looked for besides, and files that the configuration names.
    Kept { row: DefinitionRow, parts: Vec<Looked>, changed: Stamp },
}

impl Definition {
    /// What a run of `holder` needs: MCP servers are asked for their tools when they are first needed, and agents are
    /// offered the workflows that there are now. `None` if it has errors.
    pub async fn ready(&self, catalog: &Arc<Catalog>, holder: &str) -> Result<Option<Arc<Prepared>>, StepError> {
        let Some(prepared) = &self.prepared else { return Ok(None) };
        if self.format == Format::Agent {
            return catalog.agent(self, prepared, holder).await.map(Some);
        }
        if self.asks.is_empty() {
            return Ok(Some(prepared.clone()));
        }
        let asked = self.asked.get_or_try_init(async || {
            let offered = catalog.app.servers.offered(&catalog.app.config, &self.asks).await?;
            catalog.offering(self, prepared, offered).map(Arc::new)
        });
        asked.await.cloned().map(Some)
    }

    /// Its file in the served folder, if it has one.
    pub fn file(&self) -> Option<&str> {
        match &self.place {
            Place::File { file, .. } => Some(file),
            Place::Kept { .. } => None,
        }
    }

    /// What the store keeps of it, if it is kept there.
    pub fn row(&self) -> Option<&DefinitionRow> {
        match &self.place {
            Place::File { .. } => None,
            Place::Kept { row, .. } => Some(row),
        }
    }
}

/// Definitions by id.
pub struct Catalog {
    root: PathBuf,
    app: Arc<App>,
    files: Mutex<BTreeMap<PathBuf, Arc<Definition>>>,
    /// Agents as they were offered workflows last, by holder and id.
    agents: Mutex<BTreeMap<(String, String), Arc<Prepared>>>,
    /// When all of the folder was read last.
    listed: Mutex<Option<Instant>>,
    /// By holder and id.
    kept: Mutex<BTreeMap<(String, String), Arc<Definition>>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Catalog {
    /// The catalog of the definitions below `root` and of those in the store.
    pub fn new(root: PathBuf, app: Arc<App>) -> Catalog {
        Catalog {
            root,
            app,
            files: Mutex::default(),
            listed: Mutex::default(),
            agents: Mutex::default(),
            kept: Mutex::default(),
        }
    }

    /// Every definition that `holder` can run, in the order of their ids. Reads the folder.
    pub fn list(&self, holder: &str) -> Result<Vec<Arc<Definition>>, StepError> {
        let mut found = self.in_folder();
        for row in stored::list(&self.app.store, holder, Kind::Workflow)? {
            found.extend(self.keep(row)?);
        }
        found.sort_by(|a, b| a.id.cmp(&b.id));
        // Of two of one id the first counts: what lies in the folder goes before what is kept.
        found.dedup_by(|b, a| a.id == b.id);
        Ok(found)
    }

    /// The definition called `id` for `holder`.
    pub fn find(&self, holder: &str, id: &str) -> Result<Option<Arc<Definition>>, StepError> {
        let is_listed = locked(&self.listed).is_some_and(|at| at.elapsed() < LISTED);
        let file = if is_listed { self.known_file(id) } else { self.file(id) };
        if file.is_some() {
            return Ok(file);
        }
        match stored::find(&self.app.store, holder, Kind::Workflow, id)? {
            Some(row) => self.keep(row),
            // It may have been put there since.
            None if is_listed => Ok(self.file(id)),
            None => Ok(None),
        }
    }

    /// A prepared definition with what models are offered that is no part of it. Its files are those that were read.
    fn offering(&self, definition: &Definition, prepared: &Prepared, offered: Offered) -> Result<Prepared, StepError> {
        let bundle = prepared.bundle()?.offering(&offered);
        let sources = bundle.sources();
        let compiled = compile(&bundle.entry, &sources, Some(bundle.format));
        let source = Source::of_files(&bundle.entry, sources.files, compiled, offered);
        let Some(plan) = source.compiled.plan.clone() else {
            let errors = source.compiled.diagnostics.iter().filter(|problem| problem.is_error());
            let messages: Vec<&str> = errors.map(|problem| problem.message.as_str()).collect();
            let message = format!("the workflow {} cannot be run: {}", definition.id, messages.join("; "));
            return Err(StepError::new(Code::StepRefused, message));
        };
        self.prepare(&source, Arc::new(plan))
    }

    /// An agent with the workflows that there are for `holder` now. It stays what it was while they do.
    async fn agent(
        self: &Arc<Catalog>,
        agent: &Definition,
        compiled: &Prepared,
        holder: &str,
    ) -> Result<Arc<Prepared>, StepError> {
        let mut offered = self.app.servers.offered(&self.app.config, &agent.asks).await?;
        offered.flows = Some(agents::offered(self, holder).await?);
        let prepared = Arc::new(self.offering(agent, compiled, offered)?);
        let mut agents = locked(&self.agents);
        if agents.len() >= KEPT {
            agents.clear();
        }
        let known = agents.entry((holder.to_owned(), agent.id.clone())).or_insert_with(|| prepared.clone());
        if known.hash() != prepared.hash() {
            *known = prepared;
        }
        Ok(known.clone())
    }

    /// A definition as it was written: what is in force, or a version of what the store keeps.
    pub fn written(&self, holder: &str, id: &str, version: Option<u32>) -> Result<Option<Content>, StepError> {
        if let Some(version) = version {
            let key = DefinitionKey { holder: holder.to_owned(), kind: Kind::Workflow, id: id.to_owned() };
            let found = self.app.store.versions(&key)?.into_iter().find(|row| row.version == version);
            return found.map(|row| Content::parse(&row.content)).transpose();
        }
        self.find(holder, id)?.map(|definition| self.content(&definition)).transpose()
    }

    /// A definition as it was written.
    pub fn content(&self, definition: &Definition) -> Result<Content, StepError> {
        match &definition.place {
            Place::Kept { row, .. } => Content::parse(&row.content),
            Place::File { file, changed, .. } => Ok(self.read_files(file, changed)),
        }
    }

    /// The files of a definition of the folder.
    fn read_files(&self, entry: &str, files: &Stamp) -> Content {
        let read = |path: &PathBuf| {
            let below = path.strip_prefix(&self.root).ok()?.display().to_string();
            Some((below, String::from_utf8_lossy(&std::fs::read(path).ok()?).into_owned()))
        };
        let files = files.iter().filter_map(|(path, _)| read(path)).collect();
        Content { entry: entry.to_owned(), files, format: None }
    }

    /// The definition of the folder called `id`.
    pub fn file(&self, id: &str) -> Option<Arc<Definition>> {
        self.known_file(id).or_else(|| self.in_folder().into_iter().find(|definition| definition.id == id))
    }

    /// The definition of the folder called `id`, if it was compiled and its files have not changed since. To look at a
    /// file's time takes microseconds, to compile one a thread that may wait.
    pub fn at_hand(&self, id: &str) -> Option<Arc<Definition>> {
        let known = locked(&self.files).values().find(|definition| definition.id == id).cloned();
        known.filter(|known| known.is_fresh_file())
    }

    /// The ids of the folder's definitions. Reads the folder.
    pub fn ids_in_folder(&self) -> Vec<String> {
        self.in_folder().into_iter().map(|definition| definition.id.clone()).collect()
    }

    fn known_file(&self, id: &str) -> Option<Arc<Definition>> {
        let files = locked(&self.files);
        let path = files.iter().find(|(_, definition)| definition.id == id).map(|(path, _)| path.clone());
        drop(files);
        path.and_then(|path| self.read(&path)).filter(|definition| definition.id == id)
    }

    fn in_folder(&self) -> Vec<Arc<Definition>> {
        let found = folder::files(&self.root).iter().filter_map(|file| self.read(file)).collect();
        *locked(&self.listed) = Some(Instant::now());
        found
    }

    /// Compiles a file, unless that was done since it changed; `None` if it is no definition.
    fn read(&self, path: &Path) -> Option<Arc<Definition>> {
        let known = locked(&self.files).get(path).cloned();
        if let Some(known) = known.filter(|known| known.is_fresh_file()) {
            return Some(known);
        }
        let read = self.compile_file(path).map(Arc::new);
        let mut all = locked(&self.files);
        match &read {
            Some(definition) => all.insert(path.to_owned(), definition.clone()),
            None => all.remove(path),
        };
        read
    }

    fn compile_file(&self, path: &Path) -> Option<Definition> {
        let source = self.loader().compile(path);
        if source.compiled.format.is_none() || !folder::is_meant(path, source.bytes()) {
            return None;
        }
        let file = path.strip_prefix(&self.root).unwrap_or(path).display().to_string();
        let changed = stamp_of(&source);
        let id = folder::id_of(&file);
        self.definition(source, id, Place::File { file, changed })
    }

    /// Compiles what the store keeps, unless that was done since it changed.
    fn keep(&self, row: DefinitionRow) -> Result<Option<Arc<Definition>>, StepError> {
        let key = (row.key.holder.clone(), row.key.id.clone());
        let known = locked(&self.kept).get(&key).cloned();
        if let Some(known) = known
            && known.is_fresh(&row, &self.app)?
        {
            return Ok(Some(known));
        }
        let compiled = self.compile_kept(&row)?;
        let (id, parts, changed) = (row.key.id.clone(), compiled.parts, stamp_of(&compiled.source));
        let Some(definition) = self.definition(compiled.source, id, Place::Kept { row, parts, changed }) else {
            return Ok(None);
        };
        let definition = Arc::new(definition);
        let mut all = locked(&self.kept);
        if all.len() >= KEPT {
            all.clear();
        }
        all.insert(key, definition.clone());
        Ok(Some(definition))
    }

    /// A definition that is run without being kept.
    pub fn passing(&self, holder: &str, id: &str, content: Content) -> Result<Definition, StepError> {
        let key = DefinitionKey { holder: holder.to_owned(), kind: Kind::Workflow, id: id.to_owned() };
        let row = DefinitionRow {
            key,
            version: 0,
            hash: String::new(),
            format: None,
            content: content.text()?,
            origin: Origin::Api,
            created_at: 0,
            updated_at: 0,
        };
        let compiled = self.compile_kept(&row)?;
        let changed = stamp_of(&compiled.source);
        let place = Place::Kept { row, parts: compiled.parts, changed };
        let unknown = || StepError::new(Code::StepRefused, "this is no definition");
        self.definition(compiled.source, id.to_owned(), place).ok_or_else(unknown)
    }

    fn compile_kept(&self, row: &DefinitionRow) -> Result<stored::Compiled, StepError> {
        let content = Content::parse(&row.content)?;
        stored::compile_for(&self.app.store, &self.loader(), &row.key.holder, &content)
    }

    fn loader(&self) -> Loader<'_> {
        Loader { config: &self.app.config, format: None, lenient: false }
    }

    /// A compiled source as a definition; a file is called by its own id, if it has one. `None` without a format.
    fn definition(&self, source: Source, id: String, place: Place) -> Option<Definition> {
        let format = source.compiled.format?;
        let (is_refused, problems) = (source.is_refused(), source.problems());
        let prepared =
            source.compiled.plan.clone().and_then(|plan| self.prepare(&source, Arc::new(plan)).ok()).map(Arc::new);
        let own = prepared.as_ref().and_then(|prepared| prepared.plan.id.clone());
        let is_file = matches!(place, Place::File { .. });
        Some(Definition {
            id: own.filter(|_| is_file).unwrap_or(id),
            format,
            place,
            problems,
            is_refused,
            prepared,
            asks: source.compiled.asks,
            asked: OnceCell::new(),
            looked: Mutex::default(),
        })
    }

    fn prepare(&self, source: &Source, plan: Arc<Plan>) -> Result<Prepared, StepError> {
        let bundle = self.app.bundle(source.name(), source.files(), plan.format)?;
        self.app.prepare(plan, &bundle.offering(source.offered()))
    }
}

impl Definition {
    fn is_fresh_file(&self) -> bool {
        let Place::File { changed, .. } = &self.place else { return false };
        let mut looked = locked(&self.looked);
        if looked.is_some_and(|at| at.elapsed() < LOOK) {
            return true;
        }
        let is_fresh = is_unchanged(changed);
        *looked = is_fresh.then(Instant::now);
        is_fresh
    }

    /// Whether it and its parts are what they were. One that lacks something may have got it since.
    fn is_fresh(&self, now: &DefinitionRow, app: &App) -> Result<bool, StepError> {
        let Place::Kept { row, parts, changed } = &self.place else { return Ok(false) };
        if self.is_refused || !is_unchanged(changed) || row.hash != now.hash || row.version != now.version {
            return Ok(false);
        }
        for part in parts {
            let found = stored::find(&app.store, &row.key.holder, part.kind, &part.id)?;
            if found.map(|found| found.hash) != part.found {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// When the files that a definition was read from changed last.
fn stamp_of(source: &Source) -> Stamp {
    stamp(source.files().keys().map(PathBuf::from).collect::<Vec<_>>().iter())
}

fn is_unchanged(changed: &Stamp) -> bool {
    *changed == stamp(changed.iter().map(|(path, _)| path))
}
