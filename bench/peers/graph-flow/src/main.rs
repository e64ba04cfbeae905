//! graph-flow on the workloads of `bench`: see `bench/peers/README.md`.

use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use graph_flow::{
    Context, ExecutionStatus, FanOutTask, FlowRunner, Graph, GraphBuilder, InMemorySessionStorage, NextAction,
    PostgresSessionStorage, Session, SessionStorage, Task, TaskResult,
};

const VERSION: &str = "0.8.1";

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The work of a task.
#[derive(Clone, Copy)]
enum Work {
    /// Adds 1 to the counter.
    Count,
    /// The same after 20 ms.
    CountSlowly,
    /// Nothing, after 50 ms.
    Wait,
    /// Nothing.
    Nothing,
    /// Adds a message of 1 KB to the state, until there are this many.
    Message(usize),
}

/// A task of a graph.
struct Step {
    id: String,
    work: Work,
    is_last: bool,
    /// Whether the state is stored after it.
    is_stored: bool,
}

#[async_trait]
impl Task for Step {
    fn id(&self) -> &str {
        &self.id
    }

    async fn run(&self, context: Context) -> graph_flow::Result<TaskResult> {
        let mut is_last = self.is_last;
        match self.work {
            Work::Count => count_step(&context)?,
            Work::CountSlowly => {
                tokio::time::sleep(Duration::from_millis(20)).await;
                count_step(&context)?;
            }
            Work::Wait => tokio::time::sleep(Duration::from_millis(50)).await,
            Work::Nothing => {}
            Work::Message(most) => {
                let mut messages: Vec<String> = context.get("messages").unwrap_or_default();
                messages.push("m".repeat(1024));
                is_last = messages.len() >= most;
                context.set("messages", messages)?;
            }
        }
        let next = match (is_last, self.is_stored) {
            (true, _) => NextAction::End,
            (false, true) => NextAction::Continue,
            (false, false) => NextAction::ContinueAndExecute,
        };
        Ok(TaskResult::new(None, next))
    }
}

fn count_step(context: &Context) -> graph_flow::Result<()> {
    let count: usize = context.get("count").unwrap_or(0);
    context.set("count", count + 1)
}

fn step(id: &str, work: Work) -> Step {
    Step { id: id.to_owned(), work, is_last: false, is_stored: false }
}

fn last_step(id: &str, work: Work) -> Step {
    Step { is_last: true, ..step(id, work) }
}

fn chain(n: usize, work: Work, is_stored: bool) -> Result<Graph, Failure> {
    let mut builder = GraphBuilder::new("chain");
    for index in 0..n {
        let is_last = index + 1 == n;
        builder = builder.add_task(Arc::new(Step { is_last, is_stored, ..step(&format!("n{index}"), work) }));
    }
    for index in 1..n {
        builder = builder.add_edge(format!("n{}", index - 1), format!("n{index}"));
    }
    Ok(builder.set_start_task("n0").build()?)
}

/// Two nodes that lead to each other for `n` nodes.
fn cycle(n: usize) -> Result<Graph, Failure> {
    let has_more_turns = move |context: &Context| context.get::<usize>("count").unwrap_or(0) < n;
    let builder = GraphBuilder::new("cycle");
    let builder = builder.add_task(Arc::new(step("n0", Work::Count))).add_task(Arc::new(step("other", Work::Count)));
    let builder = builder.add_task(Arc::new(last_step("end", Work::Nothing)));
    let builder = builder.add_edge("n0", "other").add_conditional_edge("other", has_more_turns, "n0", "end");
    Ok(builder.set_start_task("n0").build()?)
}

fn fan(n: usize, work: Work) -> Result<Graph, Failure> {
    let parts = (0..n).map(|index| Arc::new(step(&format!("part{index}"), work)) as Arc<dyn Task>).collect();
    let parts = FanOutTask::new("fan", parts).with_next_action(NextAction::ContinueAndExecute);
    let builder = GraphBuilder::new("fan").add_task(Arc::new(step("n0", Work::Count))).add_task(parts);
    let builder = builder.add_task(Arc::new(last_step("collect", Work::Count)));
    let builder = builder.add_edge("n0", "fan").add_edge("fan", "collect");
    Ok(builder.set_start_task("n0").build()?)
}

/// One task that leads to itself.
fn messages(n: usize, is_stored: bool) -> Result<Graph, Failure> {
    let task = Step { is_stored, ..step("n0", Work::Message(n)) };
    let builder = GraphBuilder::new("messages").add_task(Arc::new(task)).add_edge("n0", "n0");
    Ok(builder.set_start_task("n0").build()?)
}

/// A graph, where its sessions are stored, and the number of runs at the same time.
struct Workload {
    graph: Arc<Graph>,
    storage: Arc<dyn SessionStorage>,
    runs: usize,
}

impl Workload {
    async fn find(name: &str, n: usize) -> Result<Workload, Failure> {
        let memory = || Arc::new(InMemorySessionStorage::new()) as Arc<dyn SessionStorage>;
        let (graph, storage) = match name {
            "W1" => (chain(n, Work::Count, false)?, memory()),
            "W2" => (cycle(n)?, memory()),
            "W3" => (fan(n, Work::Nothing)?, memory()),
            "W4" => (fan(n, Work::Wait)?, memory()),
            "W5" => (chain(10, Work::CountSlowly, false)?, memory()),
            "W6-postgres" => (chain(n, Work::Count, true)?, postgres().await?),
            "W8" => (messages(n, false)?, memory()),
            other => return Err(format!("unknown workload {other}").into()),
        };
        Ok(Workload { graph: Arc::new(graph), storage, runs: if name == "W5" { n } else { 1 } })
    }

    async fn run_once(&self) -> Result<(), Failure> {
        let runs = (0..self.runs).map(|_| tokio::spawn(run_graph(self.graph.clone(), self.storage.clone())));
        for run in runs.collect::<Vec<_>>() {
            run.await??;
        }
        Ok(())
    }
}

async fn postgres() -> Result<Arc<dyn SessionStorage>, Failure> {
    // Its driver demands a host, also for a socket.
    let database = std::env::var("PEER_DATABASE")?.replace("@/", "@localhost/");
    Ok(Arc::new(PostgresSessionStorage::connect(&database).await?))
}

async fn run_graph(graph: Arc<Graph>, storage: Arc<dyn SessionStorage>) -> Result<(), Failure> {
    let id = uuid::Uuid::new_v4().to_string();
    storage.save(Session::new_from_task(id.clone(), "n0")).await?;
    let runner = FlowRunner::new(graph, storage);
    loop {
        match runner.run(&id).await?.status {
            ExecutionStatus::Completed => return Ok(()),
            _ => {}
        }
    }
}

/// Runs the workload once for each line that is read, and answers with the seconds.
async fn answer_lines(name: String, n: usize) -> Result<(), Failure> {
    let workload = Arc::new(Workload::find(&name, n).await?);
    let mut output = std::io::stdout();
    writeln!(output, "{VERSION}")?;
    let mut line = String::new();
    while std::io::stdin().read_line(&mut line)? > 0 {
        let since = Instant::now();
        workload.run_once().await?;
        writeln!(output, "{}", since.elapsed().as_secs_f64())?;
        output.flush()?;
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [cold] if cold == "W7" => Workload::find("W1", 1).await?.run_once().await,
        // On the thread that blocks on the runtime, each wake costs 10 to 25 µs.
        [name, n] => tokio::spawn(answer_lines(name.clone(), n.parse()?)).await?,
        _ => Err("usage: peer-graph-flow WORKLOAD N".into()),
    }
}
