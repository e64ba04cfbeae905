//! Runs all tasks of a schedule on one thread. The next task to poll is chosen at random, and time advances only when no
//! task can continue. A task belongs to a process, which can be killed or paused between any two polls.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};

use flowloom_runtime::effects::BoxFuture;
use parking_lot::Mutex;

use crate::world::{ProcessId, World};

/// Polls after which a schedule counts as endless.
const MAX_POLLS: u64 = 200_000;

/// Where tasks are started, and where they report that they can continue.
#[derive(Default)]
pub(crate) struct TaskQueue {
    new: Mutex<Vec<NewTask>>,
    ready: Arc<Mutex<Vec<usize>>>,
}

struct NewTask {
    process: Option<ProcessId>,
    label: &'static str,
    future: BoxFuture<'static, ()>,
}

struct Task {
    process: Option<ProcessId>,
    label: &'static str,
    future: BoxFuture<'static, ()>,
    waker: Waker,
    wake: Arc<TaskWake>,
}

struct TaskWake {
    index: usize,
    is_ready: AtomicBool,
    ready: Arc<Mutex<Vec<usize>>>,
}

impl Wake for TaskWake {
    fn wake(self: Arc<Self>) {
        if !self.is_ready.swap(true, Ordering::Relaxed) {
            self.ready.lock().push(self.index);
        }
    }
}

impl TaskQueue {
    /// Starts a task of a process; `None` for tasks that no fault affects.
    pub(crate) fn spawn(
        &self,
        process: Option<ProcessId>,
        label: &'static str,
        future: impl Future<Output = ()> + Send + 'static,
    ) {
        self.new.lock().push(NewTask { process, label, future: Box::pin(future) });
    }

    /// Drops the tasks that were not polled yet.
    pub(crate) fn clear(&self) {
        let dropped = std::mem::take(&mut *self.new.lock());
        drop(dropped);
    }
}

/// Polls the tasks of a world.
pub(crate) struct Executor {
    world: Arc<World>,
    tasks: Vec<Option<Task>>,
    polls: u64,
}

impl Executor {
    /// An executor of the tasks of `world`.
    pub(crate) fn new(world: Arc<World>) -> Executor {
        Executor { world, tasks: Vec::new(), polls: 0 }
    }

    /// Polls tasks until the world is done or a promise is broken. Returns the number of polls.
    pub(crate) fn run(mut self) -> u64 {
        while !self.world.is_over() {
            self.admit_tasks();
            for process in self.world.faults.take_killed() {
                self.kill_process(process);
            }
            if self.polls >= MAX_POLLS {
                self.world.report_violation(format!("the schedule does not end within {MAX_POLLS} polls"));
                break;
            }
            match self.choose_task() {
                Some(index) => self.poll_task(index),
                None if self.world.clock.advance_to_next().is_some() => {}
                None => {
                    self.world.report_violation("nothing can continue, and no timer runs".to_owned());
                    break;
                }
            }
        }
        self.polls
    }

    fn admit_tasks(&mut self) {
        let new = std::mem::take(&mut *self.world.tasks.new.lock());
        for NewTask { process, label, future } in new {
            let index = self.tasks.len();
            let wake =
                Arc::new(TaskWake { index, is_ready: AtomicBool::new(true), ready: self.world.tasks.ready.clone() });
            let waker = Waker::from(wake.clone());
            self.tasks.push(Some(Task { process, label, future, waker, wake }));
            self.world.tasks.ready.lock().push(index);
        }
    }

    /// Chooses one of the tasks that can continue and whose process is not paused.
    fn choose_task(&self) -> Option<usize> {
        let mut ready = self.world.tasks.ready.lock();
        let count = ready.len();
        let first = self.world.choices.index(count);
        let can_continue = |at: &usize| {
            let task = self.tasks.get(ready[*at]).and_then(Option::as_ref);
            task.is_none_or(|task| !self.world.faults.is_paused(task.process))
        };
        let at = (0..count).map(|offset| (first + offset) % count).find(can_continue)?;
        Some(ready.swap_remove(at))
    }

    fn poll_task(&mut self, index: usize) {
        let Some(mut task) = self.tasks.get_mut(index).and_then(Option::take) else { return };
        task.wake.is_ready.store(false, Ordering::Relaxed);
        self.polls += 1;
        if self.world.is_traced {
            self.world.trace(format!("poll {} {}", describe_process(task.process), task.label));
        }
        let mut context = Context::from_waker(&task.waker);
        if task.future.as_mut().poll(&mut context).is_pending() {
            self.tasks[index] = Some(task);
        }
        self.world.faults.choose_after_poll(&self.world);
    }

    fn kill_process(&mut self, process: ProcessId) {
        for slot in &mut self.tasks {
            if slot.as_ref().is_some_and(|task| task.process == Some(process)) {
                *slot = None;
            }
        }
        let mut new = self.world.tasks.new.lock();
        let (killed, kept): (Vec<_>, Vec<_>) =
            std::mem::take(&mut *new).into_iter().partition(|task| task.process == Some(process));
        *new = kept;
        drop(new);
        drop(killed);
    }
}

/// The name of a process in a trace.
pub(crate) fn describe_process(process: Option<ProcessId>) -> String {
    process.map_or_else(|| "-".to_owned(), |process| format!("p{process}"))
}
