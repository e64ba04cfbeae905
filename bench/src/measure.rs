//! Repetitions and their statistics.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::BenchError;

/// Durations of repetitions, in seconds.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct SampleStats {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

/// A row of the table.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ReportRow {
    pub(crate) workload: String,
    pub(crate) what: String,
    pub(crate) n: usize,
    /// Duration of one repetition of the engine.
    pub(crate) ours: Option<SampleStats>,
    /// Duration of one repetition of the floor.
    pub(crate) floor: Option<SampleStats>,
    /// Number of units that the durations are divided by.
    pub(crate) units: usize,
    /// The value that the goal refers to.
    pub(crate) value: Option<f64>,
    /// Description of the goal.
    pub(crate) goal: String,
    /// Whether the goal is met; `None` for rows without a goal or without a measurement.
    pub(crate) met: Option<bool>,
}

impl SampleStats {
    /// The statistics of some repetitions.
    pub(crate) fn from_seconds(mut seconds: Vec<f64>) -> SampleStats {
        seconds.sort_by(f64::total_cmp);
        let at = |index: usize| seconds.get(index).copied().unwrap_or(f64::NAN);
        SampleStats { median: at(seconds.len() / 2), min: at(0), max: at(seconds.len().saturating_sub(1)) }
    }
}

impl ReportRow {
    pub(crate) fn new(workload: &str, what: &str, n: usize) -> ReportRow {
        ReportRow {
            workload: workload.to_owned(),
            what: what.to_owned(),
            n,
            ours: None,
            floor: None,
            units: n.max(1),
            value: None,
            goal: String::new(),
            met: None,
        }
    }

    pub(crate) fn with_samples(mut self, ours: SampleStats, floor: Option<SampleStats>, units: usize) -> ReportRow {
        (self.ours, self.floor, self.units) = (Some(ours), floor, units);
        self
    }

    /// Adds a value without a goal.
    pub(crate) fn with_value(mut self, value: f64) -> ReportRow {
        self.value = Some(value);
        self
    }

    /// Adds a goal that is met if `value` is at most `bound`.
    pub(crate) fn with_maximum(mut self, value: f64, bound: f64, unit: &str) -> ReportRow {
        self.value = Some(value);
        self.goal = format!("<= {bound} {unit}");
        self.met = Some(value <= bound);
        self
    }

    /// Adds a goal that is met if `value` is at least `bound`.
    pub(crate) fn with_minimum(mut self, value: f64, bound: f64, unit: &str) -> ReportRow {
        self.value = Some(value);
        self.goal = format!(">= {bound} {unit}");
        self.met = Some(value >= bound);
        self
    }

    /// Duration of one unit in microseconds.
    pub(crate) fn per_unit(&self) -> f64 {
        self.ours.map_or(f64::NAN, |ours| ours.median / self.units as f64 * 1e6)
    }

    /// Ratio of the engine's duration to the floor's.
    pub(crate) fn floor_ratio(&self) -> Option<f64> {
        Some(self.ours?.median / self.floor?.median)
    }
}

/// Alternates between `ours` and `floor`, so that both experience the same minute of the machine; the first turn warms
/// up. Each returns the seconds of one repetition.
pub(crate) async fn measure_in_turns(
    repetitions: usize,
    mut ours: impl AsyncFnMut() -> Result<f64, BenchError>,
    mut floor: impl AsyncFnMut() -> Result<f64, BenchError>,
) -> Result<(SampleStats, SampleStats), BenchError> {
    let (mut our_times, mut floor_times) = (Vec::new(), Vec::new());
    for turn in 0..=repetitions {
        let times = (ours().await?, floor().await?);
        if turn > 0 {
            our_times.push(times.0);
            floor_times.push(times.1);
        }
    }
    Ok((SampleStats::from_seconds(our_times), SampleStats::from_seconds(floor_times)))
}

/// Duration in seconds of `work` on a task of its own: on the thread that blocks on the runtime, each wake costs 10 to
/// 25 µs.
pub(crate) async fn time_on_task<T: Send + 'static>(
    work: impl Future<Output = Result<T, BenchError>> + Send + 'static,
) -> Result<f64, BenchError> {
    let timed = tokio::spawn(async move {
        let since = Instant::now();
        let result = work.await;
        let seconds = since.elapsed().as_secs_f64();
        result.map(|kept| {
            drop(kept);
            seconds
        })
    });
    timed.await?
}

/// Peak memory of this process, in MB.
pub(crate) fn peak_mb() -> f64 {
    read_memory_mb(std::process::id(), "VmHWM")
}

/// A field of `/proc/PID/status`, in MB.
pub(crate) fn read_memory_mb(process: u32, field: &str) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<f64>().ok());
    kilobytes.map_or(f64::NAN, |kilobytes| kilobytes / 1024.0)
}
