//! The catalog of runnable definitions, by id: files of the served folder and stored definitions. Each is compiled when
//! first needed, and recompiled when it or one of its dependencies has changed.

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

/// How long a stored definition is used without checking whether a new file in the folder has its id.
const LISTED: Duration = Duration::from_secs(1);

/// Lookups within this time share one check of a definition's file.
const LOOK: Duration = Duration::from_millis(1);

/// Maximum number of stored definitions that stay compiled.
const KEPT: usize = 1024;

/// A definition of the catalog.
pub struct Definition {
    /// Its id.
    pub id: String,
    /// The definition's format.
    pub format: Format,
    pub(crate) place: Place,
    /// Diagnostics of `check`, as JSON.
    pub problems: Vec<serde_json::Value>,
    /// Whether it has an error and therefore cannot be run.
    pub is_refused: bool,
    /// The compiled definition; `None` if it has errors.
    pub prepared: Option<Arc<Prepared>>,
    /// MCP servers whose tools it offers to models.
    asks: Vec<String>,
    /// Like `prepared`, but with the tools that those servers reported.
    asked: OnceCell<Arc<Prepared>>,
    /// When its file was last found unchanged.
    looked: Mutex<Option<Instant>>,
}

/// Location of a definition.
pub(crate) enum Place {
    /// A file of the served folder.
    File {
        /// Path relative to the folder.
        file: String,
        changed: Stamp,
    },
    /// A stored definition, with its dependencies and the modification times of files that the configuration names.
    Kept { row: DefinitionRow, parts: Vec<Looked>, changed: Stamp },
}

impl Definition {
    /// The definition prepared for a run of a user; `None` if it has errors. Queries MCP servers for their tools on
    /// first use. Agents get the workflows that are currently available.
    pub async fn ready(&self, catalog: &Arc<Catalog>, holder: &str) -> Result<Option<Arc<Prepared>>, StepError> {
        let Some(prepared) = &self.prepared else { return Ok(None) };
        if self.format == flowloom_formats::agent::FORMAT {
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

    /// Path of its file relative to the served folder; `None` if it is stored.
    pub fn file(&self) -> Option<&str> {
        match &self.place {
            Place::File { file, .. } => Some(file),
            Place::Kept { .. } => None,
        }
    }

    /// Its row in the store; `None` if it is a file.
    pub fn row(&self) -> Option<&DefinitionRow> {
        match &self.place {
            Place::File { .. } => None,
            Place::Kept { row, .. } => Some(row),
        }
    }
}

/// All definitions of a server, by id.
pub struct Catalog {
    root: PathBuf,
    app: Arc<App>,
    files: Mutex<BTreeMap<PathBuf, Arc<Definition>>>,
    /// Agents with the workflows that were available last, by user and id.
    agents: Mutex<BTreeMap<(String, String), Arc<Prepared>>>,
    /// When the folder was last listed completely.
    listed: Mutex<Option<Instant>>,
    /// Compiled stored definitions, by user and id.
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

    /// Every definition available to a user, sorted by id. Reads the folder.
    pub fn list(&self, holder: &str) -> Result<Vec<Arc<Definition>>, StepError> {
        let mut found = self.in_folder();
        for row in stored::list(&self.app.store, holder, Kind::Workflow)? {
            found.extend(self.keep(row)?);
        }
        found.sort_by(|a, b| a.id.cmp(&b.id));
        // A file of the folder takes precedence over a stored definition with the same id.
        found.dedup_by(|b, a| a.id == b.id);
        Ok(found)
    }

    /// The definition called `id` that is effective for a user.
    pub fn find(&self, holder: &str, id: &str) -> Result<Option<Arc<Definition>>, StepError> {
        let is_listed = locked(&self.listed).is_some_and(|at| at.elapsed() < LISTED);
        let file = if is_listed { self.known_file(id) } else { self.file(id) };
        if file.is_some() {
            return Ok(file);
        }
        match stored::find(&self.app.store, holder, Kind::Workflow, id)? {
            Some(row) => self.keep(row),
            // The file may have been created since the last listing.
            None if is_listed => Ok(self.file(id)),
            None => Ok(None),
        }
    }

    /// Prepares a prepared definition with the given available tools. Fails with `StepRefused` if it does not compile with them. Its files are those that were read.
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

    /// Prepares an agent with the workflows currently available to a user. Reuses the cached agent if they are
    /// unchanged.
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

    /// The source of a definition: the current content, or a stored version.
    pub fn written(&self, holder: &str, id: &str, version: Option<u32>) -> Result<Option<Content>, StepError> {
        if let Some(version) = version {
            let key = DefinitionKey { holder: holder.to_owned(), kind: Kind::Workflow, id: id.to_owned() };
            let found = self.app.store.versions(&key)?.into_iter().find(|row| row.version == version);
            return found.map(|row| Content::parse(&row.content)).transpose();
        }
        self.find(holder, id)?.map(|definition| self.content(&definition)).transpose()
    }

    /// The current source of a definition.
    pub fn content(&self, definition: &Definition) -> Result<Content, StepError> {
        match &definition.place {
            Place::Kept { row, .. } => Content::parse(&row.content),
            Place::File { file, changed, .. } => Ok(self.read_files(file, changed)),
        }
    }

    /// Reads the files of a definition in the folder.
    fn read_files(&self, entry: &str, files: &Stamp) -> Content {
        let read = |path: &PathBuf| {
            let below = path.strip_prefix(&self.root).ok()?.display().to_string();
            Some((below, String::from_utf8_lossy(&std::fs::read(path).ok()?).into_owned()))
        };
        let files = files.iter().filter_map(|(path, _)| read(path)).collect();
        Content { entry: entry.to_owned(), files, format: None }
    }

    /// The definition in the folder called `id`.
    pub fn file(&self, id: &str) -> Option<Arc<Definition>> {
        self.known_file(id).or_else(|| self.in_folder().into_iter().find(|definition| definition.id == id))
    }

    /// The definition in the folder called `id`, if it is compiled and its files are unchanged. Checking a file's time
    /// takes microseconds; compiling needs a thread that may block.
    pub fn at_hand(&self, id: &str) -> Option<Arc<Definition>> {
        let known = locked(&self.files).values().find(|definition| definition.id == id).cloned();
        known.filter(|known| known.is_fresh_file())
    }

    /// The ids of the definitions in the folder. Reads the folder.
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

    /// Compiles a file unless its compiled definition is up to date; `None` if it is not a definition.
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

    /// Compiles a stored definition unless its compiled form is up to date.
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

    /// Compiles a definition that is run without being stored.
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
        let unknown = || StepError::new(Code::StepRefused, "this is not a definition");
        self.definition(compiled.source, id.to_owned(), place).ok_or_else(unknown)
    }

    fn compile_kept(&self, row: &DefinitionRow) -> Result<stored::Compiled, StepError> {
        let content = Content::parse(&row.content)?;
        stored::compile_for(&self.app.store, &self.loader(), &row.key.holder, &content)
    }

    fn loader(&self) -> Loader<'_> {
        Loader { config: &self.app.config, format: None, lenient: false }
    }

    /// Builds a definition from a compiled source; `None` if its format is unknown. A file uses its own id, if it has
    /// one.
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

    /// Whether the definition and its dependencies are unchanged. A definition with errors is always recompiled, since
    /// a missing dependency may exist by now.
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

/// The modification times of the files that a definition was read from.
fn stamp_of(source: &Source) -> Stamp {
    stamp(source.files().keys().map(PathBuf::from).collect::<Vec<_>>().iter())
}

fn is_unchanged(changed: &Stamp) -> bool {
    *changed == stamp(changed.iter().map(|(path, _)| path))
}
