//! A campaign on Restate: runs on a server of the program, driven by three workers of a Restate server. Each of them, and
//! Postgres, is killed or paused at random times, or all of them together, and their ports are closed for a time.

use std::fs;
use std::net::SocketAddr;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use test_restate::{RestateServer, free_addresses};

use crate::campaign::{CampaignReport, Crowd, learn_expectations, start_listed};
use crate::own_postgres::OwnPostgres;
use crate::program::{Database, DatabaseKind, Server, Site, signal_child};
use crate::random::Random;

/// Number of workers, which share an address.
const WORKER_COUNT: usize = 3;
/// How long a process is paused or a port is closed, at most: longer than a worker's lease.
const MAX_PAUSE_MS: usize = 2500;

/// A Restate server and its workers.
struct Cluster<'a> {
    site: &'a Site,
    restate: RestateServer,
    address: SocketAddr,
    workers: Vec<Child>,
}

impl<'a> Cluster<'a> {
    /// Starts a cluster, and has the site use it; `None` if there is no Restate and none is required.
    fn start(site: &'a Site) -> Result<Option<Cluster<'a>>, String> {
        let Some(restate) = RestateServer::start_server() else { return Ok(None) };
        let config = site.folder.path().join("flowloom.toml");
        let before = fs::read_to_string(&config).map_err(|error| error.to_string())?;
        let config_text = format!("{before}\n[engine]\nrestate = \"{}\"\n", restate.ingress());
        fs::write(&config, config_text).map_err(|error| error.to_string())?;
        let [address] = free_addresses();
        let mut cluster = Cluster { site, restate, address, workers: Vec::new() };
        for _ in 0..WORKER_COUNT {
            let worker = cluster.start_worker()?;
            cluster.workers.push(worker);
        }
        Ok(Some(cluster))
    }

    fn start_worker(&self) -> Result<Child, String> {
        let address = self.address.to_string();
        let mut command =
            self.site.command(&["worker", "--admin", &self.restate.admin(), "--listen", &address, "--log", "json"]);
        let log = fs::File::options().create(true).append(true).open(self.site.folder.path().join("worker.log"));
        command.stdout(Stdio::null()).stderr(log.map_err(|error| error.to_string())?);
        command.spawn().map_err(|error| format!("cannot start a worker: {error}"))
    }

    fn kill_worker(&mut self, number: usize) -> Result<(), String> {
        stop_child(&mut self.workers[number]);
        self.workers[number] = self.start_worker()?;
        Ok(())
    }

    fn pause_worker(&self, number: usize, duration: Duration) {
        signal_child(&self.workers[number], Signal::STOP);
        std::thread::sleep(duration);
        signal_child(&self.workers[number], Signal::CONT);
    }

    /// Kills the Restate server. Its ports are closed for a time.
    fn kill_restate(&mut self, pause: Duration) {
        self.restate.kill();
        std::thread::sleep(pause);
        self.restate.start_again();
    }

    /// Kills all workers. Their port is closed for a time.
    fn kill_workers(&mut self, pause: Duration) -> Result<(), String> {
        self.workers.iter_mut().for_each(stop_child);
        std::thread::sleep(pause);
        self.start_workers()
    }

    fn start_workers(&mut self) -> Result<(), String> {
        for number in 0..WORKER_COUNT {
            self.workers[number] = self.start_worker()?;
        }
        Ok(())
    }
}

impl Drop for Cluster<'_> {
    fn drop(&mut self) {
        self.workers.iter_mut().for_each(stop_child);
    }
}

fn stop_child(child: &mut Child) {
    // It may have ended.
    let _ = child.kill();
    let _ = child.wait();
}

/// Disturbs a cluster `kills` times. The expected results of runs are determined on the built-in engine.
pub fn kill_cluster(database: DatabaseKind, seed: u64, kills: usize) -> Result<CampaignReport, String> {
    let Some(site) = create_site(database)? else { return Ok(CampaignReport::default()) };
    let started = Instant::now();
    let expectations = learn_expectations(&site)?;
    let Some(mut cluster) = Cluster::start(&site)? else { return Ok(CampaignReport::default()) };
    let mut report = CampaignReport::default();
    let crowd = Crowd::new(&site, &expectations, seed);
    let mut random = Random::for_part(seed, "kills");
    let disturbed = crowd.disturb_runs(
        || {
            let mut server = start_listed(&site, &crowd.board)?;
            for _ in 0..kills {
                std::thread::sleep(random.duration(100, 900));
                match random.below(13) {
                    0 => cluster.kill_restate(Duration::ZERO),
                    1 => {
                        crowd.board.remove(server.address);
                        server.kill();
                        server = start_listed(&site, &crowd.board)?;
                    }
                    2 => cluster.pause_worker(random.below(WORKER_COUNT), random.duration(100, MAX_PAUSE_MS)),
                    3 => server = kill_everything(&mut cluster, server, &crowd)?,
                    4 => kill_postgres(&site, random.duration(10, 1000))?,
                    5 => cluster.restate.pause(random.duration(100, MAX_PAUSE_MS)),
                    6 => cluster.kill_restate(random.duration(100, MAX_PAUSE_MS)),
                    7 => cluster.kill_workers(random.duration(100, MAX_PAUSE_MS))?,
                    _ => cluster.kill_worker(random.below(WORKER_COUNT))?,
                }
            }
            Ok(server)
        },
        &mut report,
    );
    disturbed?;
    report.kills = kills;
    report.duration = started.elapsed();
    Ok(report)
}

/// A site whose Postgres, if it has one, can be killed.
fn create_site(database: DatabaseKind) -> Result<Option<Site>, String> {
    match database {
        DatabaseKind::Postgres => {
            OwnPostgres::start()?.map(|server| Site::new(Database::OwnPostgres(server))).transpose()
        }
        database => Site::of_kind(database),
    }
}

/// Stops Postgres immediately for a time. SQLite has no server.
fn kill_postgres(site: &Site, pause: Duration) -> Result<(), String> {
    if let Database::OwnPostgres(server) = &site.database {
        server.stop_at_once()?;
        std::thread::sleep(pause);
        server.start_again()?;
    }
    Ok(())
}

/// Kills everything at the same time, the database too if it has a server, and starts it again.
fn kill_everything(cluster: &mut Cluster<'_>, server: Server, crowd: &Crowd<'_>) -> Result<Server, String> {
    crowd.board.remove(server.address);
    server.kill();
    cluster.workers.iter_mut().for_each(stop_child);
    cluster.restate.kill();
    kill_postgres(crowd.site, Duration::ZERO)?;
    cluster.restate.start_again();
    cluster.start_workers()?;
    start_listed(crowd.site, &crowd.board)
}
