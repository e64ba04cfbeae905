//! The engine on the workloads of the peers.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use flowloom_runtime::Engine;
use flowloom_runtime::memory::MemoryJournal;
use flowloom_store::{Database, Durability, Store, StoreSettings};
use tempfile::TempDir;
use test_postgres::TestDatabase;

use crate::BenchError;
use crate::definitions::{CompiledDefinition, definitions_folder, load_definition};
use crate::durable::scratch_folder;
use crate::measure::{peak_mb, time_on_task};
use crate::workloads::time_run;
use crate::world::{new_engine, run_to_end};

/// A workload that can be run again and again.
pub(crate) struct OurWorkload {
    definition: Arc<CompiledDefinition>,
    /// `None` if runs are in memory.
    store: Option<Arc<Store>>,
    /// Number of runs at the same time; 0 if each repetition is a process.
    runs: usize,
    folder: TempDir,
    _database: Option<TestDatabase>,
}

impl OurWorkload {
    pub(crate) fn prepare(name: &str, n: usize) -> Result<OurWorkload, BenchError> {
        let folder = scratch_folder()?;
        let (kind, place) = name.split_once('-').unwrap_or((name, "memory"));
        let (file, length, runs) = match kind {
            "W1" | "W6" => ("chain.steps.json", n, 1),
            "W2" => ("cycle.steps.json", 1, 1),
            "W3" => ("fan.steps.json", n, 1),
            "W4" => ("waiting-fan.steps.json", n, 1),
            "W5" => ("waiting-chain.steps.json", 10, n),
            // The program reads a definition of its own.
            "W7" => ("chain.steps.json", n, 0),
            "W8" => ("messages.steps.json", n, 1),
            other => return Err(format!("unknown workload {other}").into()),
        };
        let definition = Arc::new(load_definition(file, length)?);
        let database = match place {
            "postgres" => Some(TestDatabase::create_database().ok_or("no Postgres")?),
            _ => None,
        };
        let store = match place {
            "sqlite" => Some(Store::open(folder.path(), Durability::Normal)?),
            "stored" => Some(Store::open(folder.path(), Durability::Full)?),
            "postgres" => Some(open_postgres(folder.path(), database.as_ref())?),
            _ => None,
        };
        Ok(OurWorkload { definition, store, runs, folder, _database: database })
    }

    fn engine(&self) -> Engine {
        match &self.store {
            Some(store) => {
                store.hold_bundle(&self.definition.text);
                new_engine(store.clone())
            }
            None => new_engine(Arc::new(MemoryJournal::new())),
        }
    }

    /// The seconds of one repetition.
    pub(crate) async fn run_once(&self) -> Result<f64, BenchError> {
        match self.runs {
            0 => self.start_program(),
            1 => time_run(self.engine(), &self.definition).await,
            runs => self.run_crowd(runs).await,
        }
    }

    async fn run_crowd(&self, count: usize) -> Result<f64, BenchError> {
        let (engine, definition) = (self.engine(), self.definition.clone());
        time_on_task(async move {
            let run = |engine: Engine, definition: Arc<CompiledDefinition>| async move {
                run_to_end(&engine, &definition).await.map(|_| ())
            };
            let runs: Vec<_> = (0..count).map(|_| tokio::spawn(run(engine.clone(), definition.clone()))).collect();
            for run in runs {
                run.await??;
            }
            Ok(())
        })
        .await
    }

    /// The program from its start to its end, in a data folder that an earlier start has created.
    fn start_program(&self) -> Result<f64, BenchError> {
        let mut command = Command::new(crate::build_folder().join("release/flowloom"));
        command.arg("run").arg(definitions_folder().join("one.steps.json")).arg("--json");
        command.arg("--data-dir").arg(self.folder.path().join("data"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let since = Instant::now();
        let done = command.status()?;
        let seconds = since.elapsed().as_secs_f64();
        if done.success() { Ok(seconds) } else { Err("target/release/flowloom does not run; build it first".into()) }
    }

    /// Peak memory of this process, unless each repetition is one.
    pub(crate) fn peak_mb(&self) -> Option<f64> {
        (self.runs > 0).then(peak_mb)
    }
}

fn open_postgres(folder: &Path, database: Option<&TestDatabase>) -> Result<Arc<Store>, BenchError> {
    let database = database.map(|database| Database::parse(&database.url)).transpose()?;
    Ok(Store::open_with(&StoreSettings { database, ..StoreSettings::for_folder(folder, Durability::Normal) })?)
}
