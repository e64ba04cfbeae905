//! A Restate server with workers of the program.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use test_restate::{RestateServer, free_addresses};

use crate::CONFIG;
use crate::support::{Workspace, send_signal};

/// How long a test waits for a message of a worker.
const LINE_TIMEOUT: Duration = Duration::from_secs(60);

/// A workspace whose runs a Restate server drives, with the workers of that server.
pub(crate) struct Cluster {
    pub(crate) restate: RestateServer,
    pub(crate) place: Workspace,
    pub(crate) address: String,
    workers: Vec<Worker>,
}

/// A worker, and its log.
pub(crate) struct Worker {
    child: Child,
    printed: Receiver<String>,
}

impl Worker {
    fn spawn(mut command: Command) -> Worker {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
        let (sender, printed) = channel();
        let lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        // A full pipe would stop it.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(|line| drop(sender.send(line))));
        Worker { child, printed }
    }

    /// Waits until the worker has logged a text.
    pub(crate) fn wait_for_text(&self, text: &str) {
        let mut all = Vec::new();
        while let Ok(line) = self.printed.recv_timeout(LINE_TIMEOUT) {
            if line.contains(text) {
                return;
            }
            all.push(line);
        }
        panic!("the worker does not say {text:?}: {all:#?}");
    }

    /// Waits until the worker has ended by itself.
    pub(crate) fn wait_for_end(&mut self) {
        self.child.wait().expect("it ends");
    }

    pub(crate) fn send_signal(&self, signal: &str) {
        send_signal(&self.child, signal);
    }

    pub(crate) fn kill(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        self.child.wait().expect("gone");
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Cluster {
    /// A cluster without workers; `None` if there is no Restate.
    pub(crate) fn create(settings: &str) -> Option<Cluster> {
        let restate = RestateServer::start_server()?;
        let place = Workspace::new(&configure(&restate, settings));
        let [address] = free_addresses();
        Some(Cluster { restate, place, address: address.to_string(), workers: Vec::new() })
    }

    /// A cluster with one worker.
    pub(crate) fn start(settings: &str) -> Option<Cluster> {
        let mut cluster = Cluster::create(settings)?;
        cluster.start_worker();
        Some(cluster)
    }

    /// Another workspace, with a database of its own, whose runs the same server drives.
    pub(crate) fn add_place(&self, settings: &str) -> Workspace {
        Workspace::new(&configure(&self.restate, settings))
    }

    pub(crate) fn start_worker(&mut self) {
        let worker = self.spawn_worker(&self.place, &[], &[]);
        self.workers.push(worker);
    }

    /// A worker of a workspace, once it is registered. Without further arguments it shares the address of the cluster.
    pub(crate) fn spawn_worker(&self, place: &Workspace, arguments: &[&str], environment: &[(&str, &str)]) -> Worker {
        let worker = Worker::spawn(self.worker_command(place, arguments, environment));
        worker.wait_for_text("Driving the runs of");
        worker
    }

    /// A worker of a workspace, which may not be registered yet. Without further arguments it has the address of the cluster.
    pub(crate) fn spawn_unregistered(
        &self,
        place: &Workspace,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Worker {
        Worker::spawn(self.worker_command(place, arguments, environment))
    }

    fn worker_command(&self, place: &Workspace, arguments: &[&str], environment: &[(&str, &str)]) -> Command {
        let admin = self.restate.admin();
        let mut all = vec!["worker", "--admin", &admin];
        if !arguments.contains(&"--listen") {
            all.extend(["--listen", &self.address]);
        }
        all.extend(arguments);
        let mut command = place.build_command(&all);
        command.envs(environment.iter().copied());
        command
    }

    /// Waits until the first worker has logged a text.
    pub(crate) fn wait_for_text(&self, text: &str) {
        self.workers[0].wait_for_text(text);
    }

    pub(crate) fn kill_workers(&mut self) {
        self.workers.clear();
    }
}

fn configure(restate: &RestateServer, settings: &str) -> String {
    // Settings may end with a table.
    format!("{CONFIG}{settings}\n[engine]\nrestate = \"{}\"\n", restate.ingress())
}
