//! Runs of one plan on virtual time, with their own effects and journal.

use std::sync::Arc;

use flowloom_core::hash::Hash;
use flowloom_core::id::RunId;
use flowloom_core::plan::Plan;
use flowloom_core::value::Value;
use flowloom_runtime::memory::MemoryJournal;
use flowloom_runtime::{Engine, RunError, RunOutcome, StartOptions};

use crate::world::World;

/// A plan, with all that its runs need.
pub(crate) struct Trial {
    pub(crate) world: World,
    pub(crate) journal: Arc<MemoryJournal>,
    pub(crate) engine: Engine,
    pub(crate) plan: Arc<Plan>,
}

impl Trial {
    /// A trial with one run.
    pub(crate) fn new(plan: Plan) -> Trial {
        Trial::with_ids(plan, || RunId::new(1, [7; 10]))
    }

    /// A trial whose runs have these ids.
    pub(crate) fn with_ids(plan: Plan, ids: impl Fn() -> RunId + Send + Sync + 'static) -> Trial {
        let (world, journal) = (World::new(5), Arc::new(MemoryJournal::new()));
        let engine = Engine::new(world.make_effects(), journal.clone()).with_ids(ids);
        Trial { world, journal, engine, plan: Arc::new(plan) }
    }

    /// The start of a run of a plan.
    pub(crate) fn start_options(&self, plan: &Arc<Plan>) -> StartOptions {
        StartOptions::new(plan.clone(), Hash::of_bytes(b"bundle"), Value::Null, "local")
    }

    /// Starts a run, and drives it until it ends or waits.
    pub(crate) fn start_run(&self) -> RunOutcome {
        let run = self.engine.start_run(self.start_options(&self.plan)).expect("accepted");
        self.world.clock.block_on(run.drive_to_end()).expect("no deadlock")
    }

    /// Resumes a run, and drives it until it ends or waits.
    pub(crate) fn resume_run(&self, run: RunId) -> Result<RunOutcome, RunError> {
        let resumed = self.engine.resume_run(run, self.plan.clone());
        let run = self.world.clock.block_on(resumed).expect("no deadlock")?;
        Ok(self.world.clock.block_on(run.drive_to_end()).expect("no deadlock"))
    }
}
