//! The faults and their times: processes die at any poll and start again, processes pause for longer than their lease,
//! the database cannot be reached, notifications are lost, and the wall clock is set.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use flowloom_core::id::RunId;
use flowloom_runtime::effects::Clock as _;
use parking_lot::Mutex;

use crate::database::LEASE_MS;
use crate::schedule::Settings;
use crate::world::{ProcessId, World};

/// Longest time until a dead process starts again, in milliseconds.
const MAX_RESTART_MS: u64 = 1_500;

/// Longest delay of a notification, in milliseconds.
const MAX_NOTIFICATION_MS: u64 = 300;

/// Faults that are left.
struct FaultsLeft {
    crashes: u64,
    pauses: u64,
    outages: u64,
    clock_changes: u64,
}

enum Fault {
    Crash,
    Pause,
    Outage,
    ClockChange,
}

/// The faults of a schedule.
pub(crate) struct Faults {
    left: Mutex<FaultsLeft>,
    is_over: AtomicBool,
    paused: Mutex<BTreeSet<ProcessId>>,
    killed: Mutex<Vec<ProcessId>>,
    slots: Vec<AtomicU32>,
    next_process: AtomicU32,
}

impl Faults {
    /// The faults that the settings allow.
    pub(crate) fn new(settings: &Settings) -> Faults {
        let left = FaultsLeft {
            crashes: settings.crashes,
            pauses: settings.pauses,
            outages: settings.outages,
            clock_changes: settings.clock_changes,
        };
        Faults {
            left: Mutex::new(left),
            is_over: AtomicBool::new(false),
            paused: Mutex::default(),
            killed: Mutex::default(),
            slots: (0..settings.processes).map(|_| AtomicU32::new(0)).collect(),
            next_process: AtomicU32::new(1),
        }
    }

    /// The number of the process that starts in a slot.
    pub(crate) fn next_process(&self, slot: usize) -> ProcessId {
        let process = self.next_process.fetch_add(1, Ordering::Relaxed);
        self.slots[slot].store(process, Ordering::Relaxed);
        process
    }

    /// Whether a task of this process must wait.
    pub(crate) fn is_paused(&self, process: Option<ProcessId>) -> bool {
        process.is_some_and(|process| self.paused.lock().contains(&process))
    }

    /// The processes that have died since the last call.
    pub(crate) fn take_killed(&self) -> Vec<ProcessId> {
        std::mem::take(&mut self.killed.lock())
    }

    /// Ends all faults: processes that were killed start again, and paused ones continue.
    pub(crate) fn end(&self, world: &Arc<World>) {
        self.is_over.store(true, Ordering::Relaxed);
        world.database.set_down(false);
        self.paused.lock().clear();
        for slot in 0..self.slots.len() {
            if world.process_in(slot).is_none() {
                world.start_process(slot);
            }
        }
    }

    fn has_ended(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Chooses whether something fails after a poll.
    pub(crate) fn choose_after_poll(&self, world: &Arc<World>) {
        if self.has_ended() || !world.choices.one_in(world.settings.polls_per_fault) {
            return;
        }
        let slot = world.choices.index(self.slots.len());
        match self.take_fault(world.choices.below(8)) {
            Some(Fault::Crash) => self.kill_process(world, slot),
            Some(Fault::Pause) => self.pause_process(world, slot),
            Some(Fault::Outage) => start_outage(world),
            Some(Fault::ClockChange) => change_clock(world),
            None => {}
        }
    }

    /// The chosen kind of fault, if one of it is left.
    fn take_fault(&self, choice: u64) -> Option<Fault> {
        let mut left = self.left.lock();
        let (count, fault) = match choice {
            0..=3 => (&mut left.crashes, Fault::Crash),
            4..=5 => (&mut left.pauses, Fault::Pause),
            6 => (&mut left.outages, Fault::Outage),
            _ => (&mut left.clock_changes, Fault::ClockChange),
        };
        *count = count.checked_sub(1)?;
        Some(fault)
    }

    fn kill_process(&self, world: &Arc<World>, slot: usize) {
        let Some(process) = world.remove_process(slot) else { return };
        if world.is_traced {
            world.trace(format!("CRASH p{}", process.id));
        }
        process.connection.abandon_writes();
        self.paused.lock().remove(&process.id);
        self.killed.lock().push(process.id);
        let restarted = world.clone();
        world.tasks.spawn(None, "restart", async move {
            restarted.sleep_up_to(MAX_RESTART_MS).await;
            if restarted.process_in(slot).is_none() {
                restarted.start_process(slot);
            }
        });
    }

    fn pause_process(&self, world: &Arc<World>, slot: usize) {
        let Some(process) = world.process_in(slot) else { return };
        if !self.paused.lock().insert(process.id) {
            return;
        }
        let pause_ms = 1 + world.choices.below(3 * LEASE_MS);
        if world.is_traced {
            world.trace(format!("PAUSE p{} for {pause_ms} ms", process.id));
        }
        let (id, continued) = (process.id, world.clone());
        world.tasks.spawn(None, "continue", async move {
            continued.clock.sleep_for(pause_ms).await;
            continued.faults.paused.lock().remove(&id);
        });
    }
}

fn start_outage(world: &Arc<World>) {
    if world.is_traced {
        world.trace("OUTAGE".to_owned());
    }
    world.database.set_down(true);
    let ended = world.clone();
    world.tasks.spawn(None, "outage", async move {
        ended.sleep_up_to(4 * LEASE_MS).await;
        ended.database.set_down(false);
    });
}

fn change_clock(world: &Arc<World>) {
    let by_ms = world.choices.below(60_000);
    if world.choices.one_in(2) {
        world.clock.set_back(by_ms);
    } else {
        world.clock.set_forward(by_ms);
    }
}

impl World {
    /// Notifies every process that a run has a new command or decision. A notification may be late, doubled or lost.
    pub(crate) fn notify_processes(self: &Arc<World>, run: RunId) {
        for process in self.living_processes() {
            let copies = match self.settings.loses_notifications && !self.faults.has_ended() {
                true => self.choices.below(3),
                false => 1,
            };
            for _ in 0..copies {
                let (world, notified) = (self.clone(), process.clone());
                self.tasks.spawn(Some(process.id), "notification", async move {
                    world.sleep_up_to(MAX_NOTIFICATION_MS).await;
                    notified.connection.deliver_pending(run).await;
                });
            }
        }
    }
}
