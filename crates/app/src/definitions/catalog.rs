//! The catalog of runnable definitions, by id: files of the served folder and stored definitions. Each is compiled when
//! first needed, and recompiled when it or one of its dependencies has changed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use flowloom_core::diagnostic::{Diagnostic, Span};
use flowloom_core::plan::Plan;
use flowloom_formats::{StopFlag, compile, guess_broken_format};
use flowloom_store::{DefinitionKey, DefinitionKind, DefinitionRow, Origin, Store};
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use super::catalog_parts::CatalogParts;
use super::entry::DefinitionLocation;
use super::error::DefinitionError;
use super::flow_folder::FlowFolder;
use super::folder::{self, ModificationTimes, is_unchanged, read_modification_times};
use super::found;
use super::included::{ReadFile, find_included, is_text};
use crate::blocks::BlockRegistry;
use crate::bounded_cache::BoundedCache;
use crate::config::Config;
use crate::definitions::bundle::{AvailableTools, Bundle};
use crate::definitions::source::{LoadedDefinition, Loader, problem_of_whole_file};
use crate::definitions::stored::{self, DefinitionContent};
use crate::error::AppError;
use crate::runs::start::PreparedDefinition;
use crate::tools::agents;

pub use super::entry::CatalogEntry;

/// How long a stored definition is used without checking whether a new file in the folder has its id.
const LISTING_LIFETIME: Duration = Duration::from_secs(1);

/// Lookups within this time share one check of a definition's file.
const CHECK_LIFETIME: Duration = Duration::from_millis(1);

/// Maximum number of stored definitions that stay compiled.
const MAX_COMPILED_DEFINITIONS: usize = 1024;

/// All definitions of a server, by id.
pub struct Catalog {
    root: PathBuf,
    parts: CatalogParts,
    files: Mutex<BTreeMap<PathBuf, Arc<CatalogEntry>>>,
    /// Agents with the workflows that were available last, by user and id.
    agents: BoundedCache<(String, String), Arc<PreparedDefinition>>,
    /// When the folder was last listed completely.
    last_listed: Mutex<Option<Instant>>,
    /// Compiled stored definitions, by user and id.
    stored: BoundedCache<(String, String), Arc<CatalogEntry>>,
}

impl Catalog {
    /// The catalog of the definitions below `root` and of those in the store.
    pub fn new(root: PathBuf, parts: CatalogParts) -> Catalog {
        Catalog {
            root,
            parts,
            files: Mutex::default(),
            last_listed: Mutex::default(),
            agents: BoundedCache::new(MAX_COMPILED_DEFINITIONS),
            stored: BoundedCache::new(MAX_COMPILED_DEFINITIONS),
        }
    }

    /// The parts that it uses.
    pub(crate) fn catalog_parts(&self) -> &CatalogParts {
        &self.parts
    }

    /// The configuration of its definitions.
    pub fn config(&self) -> &Config {
        &self.parts.config
    }

    /// Every definition available to a user, sorted by id. Reads the folder. Fails if the store cannot be read, or if
    /// stored content is damaged.
    pub fn list_definitions(&self, user: &str) -> Result<Vec<Arc<CatalogEntry>>, AppError> {
        let mut found = self.list_folder();
        for row in stored::list_definitions(&self.parts.store, user, DefinitionKind::Workflow)? {
            found.extend(self.load_stored(row)?);
        }
        found.sort_by(|a, b| a.id.cmp(&b.id));
        // A file of the folder takes precedence over a stored definition with the same id.
        found.dedup_by(|b, a| a.id == b.id);
        Ok(found)
    }

    /// The definition called `id` that is effective for a user. A file with an id of its own also has the name of the
    /// file. Fails if the store cannot be read, or if the stored content is damaged.
    pub fn find_definition(&self, user: &str, id: &str) -> Result<Option<Arc<CatalogEntry>>, AppError> {
        let is_listed = self.last_listed.lock().is_some_and(|at| at.elapsed() < LISTING_LIFETIME);
        let file = if is_listed { self.find_known_file(id) } else { self.find_file(id) };
        if file.is_some() {
            return Ok(file);
        }
        match stored::find_definition(&self.parts.store, user, DefinitionKind::Workflow, id)? {
            Some(row) => self.load_stored(row),
            // The file may have been created since the last listing.
            None if is_listed => Ok(self.find_file(id).or_else(|| self.find_by_file_name(id))),
            None => Ok(self.find_by_file_name(id)),
        }
    }

    /// Compiles a definition again with the tools that are available now, from the files that were read before. Fails with
    /// `StepRefused` if it does not compile with them.
    pub(super) fn prepare_with_tools(
        &self,
        definition: &CatalogEntry,
        prepared: &PreparedDefinition,
        available: AvailableTools,
    ) -> Result<PreparedDefinition, AppError> {
        let bundle = prepared.parse_bundle()?.with_tools(&available);
        let tenant = bundle.tenant.clone();
        let sources = bundle.to_sources();
        let compiled = compile(&bundle.entry, &sources, Some(bundle.format));
        let source = LoadedDefinition::of_files(&bundle.entry, sources.files, compiled, available);
        let Some(plan) = source.compiled.plan.clone() else {
            let errors = source.compiled.diagnostics.iter().filter(|problem| problem.is_error());
            let messages = errors.map(|problem| problem.message.clone()).collect();
            return Err(DefinitionError::ToolsMissing { id: definition.id.clone(), messages }.into());
        };
        self.prepare(&source, Arc::new(plan), tenant)
    }

    /// Prepares an agent with the workflows currently available to a user. Reuses the cached agent if they are
    /// unchanged.
    pub(super) async fn prepare_agent(
        self: &Arc<Catalog>,
        agent: &CatalogEntry,
        compiled: &PreparedDefinition,
        user: &str,
    ) -> Result<Arc<PreparedDefinition>, AppError> {
        let mut available = self.parts.servers.query_available(&self.parts.config, &agent.required_servers).await?;
        available.flows = Some(agents::load_available(self, user).await?);
        let prepared = Arc::new(self.prepare_with_tools(agent, compiled, available)?);
        let key = (user.to_owned(), agent.id.clone());
        if let Some(known) = self.agents.get(&key).filter(|known| known.hash() == prepared.hash()) {
            return Ok(known);
        }
        self.agents.insert(key, prepared.clone());
        Ok(prepared)
    }

    /// The source of a definition: the current content, or a stored version. Fails if the store cannot be read, or if
    /// the stored content is damaged.
    pub fn read_source(
        &self,
        user: &str,
        id: &str,
        version: Option<u32>,
    ) -> Result<Option<DefinitionContent>, AppError> {
        if let Some(version) = version {
            let key = DefinitionKey { user: user.to_owned(), kind: DefinitionKind::Workflow, id: id.to_owned() };
            let found = self.parts.store.list_versions(&key)?.into_iter().find(|row| row.version == version);
            return Ok(found.map(|row| DefinitionContent::parse(&row.content)).transpose()?);
        }
        self.find_definition(user, id)?.map(|definition| self.read_content(&definition)).transpose()
    }

    /// The current source of a definition. Fails if the stored content is damaged; a file that cannot be read is left
    /// out.
    pub fn read_content(&self, definition: &CatalogEntry) -> Result<DefinitionContent, AppError> {
        match &definition.location {
            DefinitionLocation::Stored { row, .. } => Ok(DefinitionContent::parse(&row.content)?),
            DefinitionLocation::File { file, changed, .. } => Ok(self.read_files(file, changed)),
        }
    }

    /// Reads the files of a definition in the folder.
    fn read_files(&self, entry: &str, files: &ModificationTimes) -> DefinitionContent {
        // A file may have been replaced by a link since it was listed.
        let (inside, loader) = (self.root.canonicalize().unwrap_or_default(), self.new_loader());
        let reader = loader.file_reader();
        let read = |path: &PathBuf| {
            let below = path.strip_prefix(&self.root).ok()?.display().to_string();
            Some((below, String::from_utf8_lossy(&reader.read_inside(&inside, path)?).into_owned()))
        };
        let files = files.iter().filter_map(|(path, _)| read(path)).collect();
        DefinitionContent { entry: entry.to_owned(), files, format: None }
    }

    /// The path of the file of a definition; `None` if it is stored.
    pub(crate) fn locate_file(&self, definition: &CatalogEntry) -> Option<PathBuf> {
        Some(self.root.join(definition.file_path()?))
    }

    /// AnythingLLM's folder of flows, if that is served.
    pub fn flow_folder(&self) -> Option<FlowFolder> {
        FlowFolder::find(&self.root)
    }

    /// The definition in the folder called `id`.
    pub fn find_file(&self, id: &str) -> Option<Arc<CatalogEntry>> {
        self.find_known_file(id).or_else(|| self.list_folder().into_iter().find(|definition| definition.id == id))
    }

    /// The definition in the folder called `id`, if it is compiled and its files are unchanged. Checking a file's time
    /// takes microseconds; compiling needs a thread that may block.
    pub fn find_compiled_file(&self, id: &str) -> Option<Arc<CatalogEntry>> {
        let files = self.files.lock();
        let mut known = files.values().filter(|definition| definition.id == id);
        let (first, another) = (known.next().cloned(), known.next());
        // Definitions that share an id are compared with each other, which takes longer.
        let only = first.filter(|_| another.is_none());
        drop(files);
        only.filter(|known| known.is_fresh_file())
    }

    /// The ids of the definitions in the folder. Reads the folder.
    pub fn folder_ids(&self) -> Vec<String> {
        self.list_folder().into_iter().map(|definition| definition.id.clone()).collect()
    }

    fn find_known_file(&self, id: &str) -> Option<Arc<CatalogEntry>> {
        let files = self.files.lock();
        let named = files.iter().filter(|(_, definition)| definition.id == id);
        let paths: Vec<PathBuf> = named.map(|(path, _)| path.clone()).collect();
        drop(files);
        let found = paths.iter().filter_map(|path| self.load_file(path));
        refuse_shared_ids(found.filter(|definition| definition.id == id).collect()).into_iter().next()
    }

    /// The id of the workflow that is named by its id or by its file. A name that no file has is an id.
    pub fn id_of_name(&self, name: &str) -> String {
        let named = self.find_known_file(name).or_else(|| self.find_by_file_name(name));
        named.map_or_else(|| name.to_owned(), |definition| definition.id.clone())
    }

    /// The only definition in the folder whose file has this name, as far as the folder is known.
    fn find_by_file_name(&self, name: &str) -> Option<Arc<CatalogEntry>> {
        let files = self.files.lock();
        let path = files.keys().find(|path| folder::derive_file_id(&self.root, path) == name).cloned();
        drop(files);
        let id = self.load_file(&path?)?.id.clone();
        self.find_known_file(&id)
    }

    fn list_folder(&self) -> Vec<Arc<CatalogEntry>> {
        let found = folder::list_files(&self.root).iter().filter_map(|file| self.load_file(file)).collect();
        *self.last_listed.lock() = Some(Instant::now());
        refuse_shared_ids(self.drop_included(found))
    }

    /// The definitions without the texts that others include. Those can still be run by their ids.
    fn drop_included(&self, found: Vec<Arc<CatalogEntry>>) -> Vec<Arc<CatalogEntry>> {
        if !found.iter().any(|definition| definition.is_text) {
            return found;
        }
        let read = |definition: &Arc<CatalogEntry>| {
            let changed = definition.location.modification_times();
            let own = self.root.join(definition.file_path().unwrap_or_default());
            ReadFile::new(&own, changed.iter().map(|(path, _)| path.as_path()), definition.is_text)
        };
        let included = find_included(&found.iter().map(read).collect::<Vec<_>>());
        found
            .into_iter()
            .zip(included)
            .filter(|(_, is_included)| !is_included)
            .map(|(definition, _)| definition)
            .collect()
    }

    /// Compiles a file unless its compiled definition is up to date; `None` if it is not a definition.
    fn load_file(&self, path: &Path) -> Option<Arc<CatalogEntry>> {
        let known = self.files.lock().get(path).cloned();
        if let Some(known) = known.filter(|known| known.is_fresh_file()) {
            return Some(known);
        }
        let read = self.compile_file(path).map(Arc::new);
        let mut all = self.files.lock();
        match &read {
            Some(definition) => all.insert(path.to_owned(), definition.clone()),
            None => all.remove(path),
        };
        read
    }

    fn compile_file(&self, path: &Path) -> Option<CatalogEntry> {
        let source = self.new_loader().compile(path);
        if !found::is_definition(path, &source, &self.parts.config) {
            return None;
        }
        let file = path.strip_prefix(&self.root).unwrap_or(path).display().to_string();
        let changed = source_modification_times(&source);
        let id = folder::id_from_path(&file);
        self.build_entry(source, id, DefinitionLocation::File { file, changed })
    }

    /// The definition in a row, which is compiled unless its compiled form is up to date. `None` if its format is unknown. Fails
    /// if the store cannot be read.
    pub fn load_stored(&self, row: DefinitionRow) -> Result<Option<Arc<CatalogEntry>>, AppError> {
        let key = (row.key.user.clone(), row.key.id.clone());
        if let Some(known) = self.stored.get(&key)
            && known.is_fresh_stored(&row, &self.parts.store)?
        {
            return Ok(Some(known));
        }
        let compiled = self.compile_stored(&row, None)?;
        let (id, parts, changed) =
            (row.key.id.clone(), compiled.dependencies, source_modification_times(&compiled.source));
        let Some(definition) =
            self.build_entry(compiled.source, id, DefinitionLocation::Stored { row, parts, changed })
        else {
            return Ok(None);
        };
        let definition = Arc::new(definition);
        self.stored.insert(key, definition.clone());
        Ok(Some(definition))
    }

    /// Compiles a definition that is run without being stored. Fails if no format can be recognised, or if the store
    /// cannot be read; errors of the definition are diagnostics of the entry.
    pub fn compile_unstored(
        &self,
        user: &str,
        id: &str,
        content: DefinitionContent,
        stop: &StopFlag,
    ) -> Result<CatalogEntry, AppError> {
        let key = DefinitionKey { user: user.to_owned(), kind: DefinitionKind::Workflow, id: id.to_owned() };
        let row = DefinitionRow {
            key,
            version: 0,
            hash: String::new(),
            format: None,
            content: content.to_json()?,
            origin: Origin::Api,
            created_at: 0,
            updated_at: 0,
        };
        let compiled = self.compile_stored(&row, Some(stop))?;
        let changed = source_modification_times(&compiled.source);
        let place = DefinitionLocation::Stored { row, parts: compiled.dependencies, changed };
        self.build_entry(compiled.source, id.to_owned(), place).ok_or_else(|| DefinitionError::UnknownContent.into())
    }

    fn compile_stored(
        &self,
        row: &DefinitionRow,
        stop: Option<&StopFlag>,
    ) -> Result<stored::CompiledDefinition, AppError> {
        let content = DefinitionContent::parse(&row.content)?;
        let loader = Loader { stop, ..self.new_loader() };
        stored::compile_for_user(&self.parts.store, &loader, &row.key.user, &content)
    }

    /// The store with the stored definitions.
    pub fn store(&self) -> &Arc<Store> {
        &self.parts.store
    }

    /// The tools of MCP servers.
    pub(super) async fn query_tools(&self, servers: &[String]) -> Result<AvailableTools, AppError> {
        self.parts.servers.query_available(&self.parts.config, servers).await
    }

    /// The blocks of users.
    pub fn blocks(&self) -> &BlockRegistry {
        &self.parts.blocks
    }

    /// Loads definitions with the configuration of this installation.
    pub fn new_loader(&self) -> Loader<'_> {
        Loader::new(&self.parts.config)
    }

    /// Builds a definition from a compiled source; `None` if its format is unknown. A file uses its own id, if it has
    /// one.
    fn build_entry(&self, source: LoadedDefinition, id: String, place: DefinitionLocation) -> Option<CatalogEntry> {
        let format = source.compiled.format.or_else(|| {
            // A definition that was broken keeps its place, so that its errors are reported.
            guess_broken_format(&String::from_utf8_lossy(source.bytes()))
        })?;
        let (mut is_refused, mut problems, mut place) = (source.is_refused(), source.problems(), place);
        let own = source.compiled.plan.as_ref().and_then(|plan| plan.id.clone());
        let prepare = |plan| self.prepare(&source, Arc::new(plan), place.find_tenant());
        let prepared = match source.compiled.plan.clone().map(prepare) {
            Some(Ok(prepared)) => Some(Arc::new(prepared)),
            // The definition is fine, but the configuration is not.
            Some(Err(error)) => {
                is_refused = true;
                let (code, why) = (error.code(), error.to_string());
                let problem = Diagnostic::new_error(code, source.name(), Span::default(), why);
                problems.push(problem_of_whole_file(&problem));
                place.depend_on(self.list_function_files());
                None
            }
            None => None,
        };
        let is_file = matches!(place, DefinitionLocation::File { .. });
        Some(CatalogEntry {
            id: own.filter(|_| is_file).unwrap_or(id),
            format,
            location: place,
            problems,
            is_refused,
            is_text: is_text(Some(format), source.bytes(), &self.parts.config),
            prepared,
            required_servers: source.compiled.required_servers,
            prepared_with_tools: OnceCell::new(),
            last_checked: Mutex::default(),
        })
    }

    /// The files of the workflows that run as functions, with the times of their changes.
    fn list_function_files(&self) -> ModificationTimes {
        let config = &self.parts.config;
        let workflows = config.functions.values().filter_map(|function| function.workflow.as_ref());
        let paths: Vec<PathBuf> = workflows.map(|workflow| config.base_folder().join(workflow)).collect();
        read_modification_times(paths.iter())
    }

    fn prepare(
        &self,
        source: &LoadedDefinition,
        plan: Arc<Plan>,
        tenant: Option<String>,
    ) -> Result<PreparedDefinition, AppError> {
        let bundle = self.parts.engines.build_bundle(source.name(), source.files(), plan.format);
        self.parts.engines.prepare_definition(plan, &Bundle { tenant, ..bundle.with_tools(source.available_tools()) })
    }
}

/// Refuses every definition that shares its id with another one: which of them an id means must not depend on chance.
fn refuse_shared_ids(found: Vec<Arc<CatalogEntry>>) -> Vec<Arc<CatalogEntry>> {
    let ids: Vec<(&str, &str)> =
        found.iter().map(|definition| (definition.id.as_str(), definition.file_path().unwrap_or_default())).collect();
    let shared = folder::find_shared_ids(&ids);
    let refuse = |(index, definition): (usize, &Arc<CatalogEntry>)| match shared.get(&index) {
        Some(problem) => definition.refuse_with(problem).map_or_else(|| definition.clone(), Arc::new),
        None => definition.clone(),
    };
    found.iter().enumerate().map(refuse).collect()
}

impl CatalogEntry {
    /// The file with a further problem, so that it cannot be run; `None` if the definition is stored.
    fn refuse_with(&self, problem: &Diagnostic) -> Option<CatalogEntry> {
        let DefinitionLocation::File { file, changed } = &self.location else { return None };
        let mut problems = self.problems.clone();
        problems.push(problem_of_whole_file(problem));
        Some(CatalogEntry {
            id: self.id.clone(),
            format: self.format,
            location: DefinitionLocation::File { file: file.clone(), changed: changed.clone() },
            problems,
            is_refused: true,
            is_text: self.is_text,
            prepared: None,
            required_servers: Vec::new(),
            prepared_with_tools: OnceCell::new(),
            last_checked: Mutex::default(),
        })
    }

    fn is_fresh_file(&self) -> bool {
        let DefinitionLocation::File { changed, .. } = &self.location else { return false };
        let last_checked = *self.last_checked.lock();
        // What a refused definition lacks may be there at any time.
        if !self.is_refused && last_checked.is_some_and(|at| at.elapsed() < CHECK_LIFETIME) {
            return true;
        }
        // Without the lock: other lookups need not wait for the file system.
        let is_fresh = is_unchanged(changed);
        *self.last_checked.lock() = is_fresh.then(Instant::now);
        is_fresh
    }

    /// Whether the definition and its dependencies are unchanged. A definition with errors is always recompiled, since
    /// a missing dependency may exist by now.
    fn is_fresh_stored(&self, now: &DefinitionRow, store: &Store) -> Result<bool, AppError> {
        let DefinitionLocation::Stored { row, parts, changed } = &self.location else { return Ok(false) };
        if self.is_refused || !is_unchanged(changed) || row.hash != now.hash || row.version != now.version {
            return Ok(false);
        }
        for part in parts {
            let found = stored::find_definition(store, &row.key.user, part.kind, &part.id)?;
            if found.map(|found| found.hash) != part.hash {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The modification times of the files that a definition was read from.
fn source_modification_times(source: &LoadedDefinition) -> ModificationTimes {
    read_modification_times(source.files().keys().map(PathBuf::from).collect::<Vec<_>>().iter())
}
