//! Figures of this process since its start: how long steps take, how long requests wait in queues, and what models use.
//! They are no part of any run.

use std::borrow::Cow;
use std::collections::BTreeMap;

use flowloom_core::chat::Usage;
use parking_lot::Mutex;

/// Upper bounds of the buckets, in milliseconds. Longer durations are in a last bucket without a bound.
pub const BUCKET_BOUNDS_MS: [u64; 14] =
    [5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000];

/// Maximum number of histograms of one kind. Names beyond it count as `other`.
const MAX_SERIES: usize = 1_000;

/// Durations, counted in buckets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// The number of durations in each bucket; the last bucket has no bound.
    counts: [u64; BUCKET_BOUNDS_MS.len() + 1],
    /// The sum of all durations, in milliseconds.
    sum_ms: u64,
}

impl Histogram {
    /// Adds a duration.
    pub fn add(&mut self, duration_ms: u64) {
        let bucket = BUCKET_BOUNDS_MS.partition_point(|bound| *bound < duration_ms);
        self.counts[bucket] += 1;
        self.sum_ms = self.sum_ms.saturating_add(duration_ms);
    }

    /// The number of durations up to each bound, and in total.
    pub fn cumulative_counts(&self) -> impl Iterator<Item = u64> {
        self.counts.iter().scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        })
    }

    /// The sum of all durations, in milliseconds.
    pub fn sum_ms(&self) -> u64 {
        self.sum_ms
    }
}

/// Histograms by their labels: pairs of name and value.
pub type LabeledHistograms = BTreeMap<Vec<(&'static str, Cow<'static, str>)>, Histogram>;

/// Adds a duration to the histogram with these labels.
pub fn add_duration(
    histograms: &mut LabeledHistograms,
    labels: &[(&'static str, Cow<'static, str>)],
    duration_ms: u64,
) {
    if let Some(histogram) = histograms.get_mut(labels) {
        return histogram.add(duration_ms);
    }
    let labels = match histograms.len() < MAX_SERIES {
        true => labels.to_vec(),
        false => labels.iter().map(|(name, _)| (*name, Cow::Borrowed("other"))).collect(),
    };
    histograms.entry(labels).or_default().add(duration_ms);
}

/// The figures.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Durations of effects, by `kind` and `outcome`.
    pub steps: LabeledHistograms,
    /// Durations of model calls, by `provider` and `outcome`.
    pub model_calls: LabeledHistograms,
    /// Time that requests waited for a place, by `queue`.
    pub queues: LabeledHistograms,
    /// The usage of the models, by provider.
    pub model_usage: BTreeMap<String, Usage>,
    /// Runs that ended here, without child runs, by status and workflow.
    pub ended_runs: BTreeMap<EndedRuns, u64>,
    /// How often each event happened, in the order of [`ProcessEvent`].
    event_counts: [u64; PROCESS_EVENT_COUNT],
}

impl Figures {
    /// How often an event happened.
    pub fn count_of(&self, event: ProcessEvent) -> u64 {
        self.event_counts[event as usize]
    }
}

/// Maximum number of workflows whose ended runs are counted by name. Those beyond it count as `other`.
const MAX_WORKFLOWS: usize = 200;

/// Runs of one workflow that ended with one status.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EndedRuns {
    /// The id of the workflow, or the name of the definition.
    pub workflow: String,
    /// The status.
    pub status: &'static str,
}

/// An event of the process that may concern an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessEvent {
    /// A run that no process drove was reclaimed.
    RunReclaimed,
    /// Another process has claimed a run that this one drove.
    LeaseLost,
    /// The database could not be used for a commit.
    DatabaseOutage,
}

/// Number of kinds of events.
const PROCESS_EVENT_COUNT: usize = 3;

static FIGURES: Mutex<Figures> = Mutex::new(Figures {
    steps: BTreeMap::new(),
    model_calls: BTreeMap::new(),
    queues: BTreeMap::new(),
    model_usage: BTreeMap::new(),
    ended_runs: BTreeMap::new(),
    event_counts: [0; PROCESS_EVENT_COUNT],
});

/// Durations of effects of one kind with one outcome.
struct EffectDurations {
    kind: &'static str,
    has_failed: bool,
    durations: Histogram,
}

/// Durations of effects. Each effect adds one, so they get their labels when they are read.
static EFFECTS: Mutex<Vec<EffectDurations>> = Mutex::new(Vec::new());

/// The figures so far.
pub fn read_figures() -> Figures {
    let label = |effect: &EffectDurations| {
        let labels = vec![("kind", Cow::Borrowed(effect.kind)), label_outcome(effect.has_failed)];
        (labels, effect.durations.clone())
    };
    let steps = EFFECTS.lock().iter().map(label).collect();
    Figures { steps, ..FIGURES.lock().clone() }
}

fn label_outcome(has_failed: bool) -> (&'static str, Cow<'static, str>) {
    ("outcome", Cow::Borrowed(if has_failed { "failed" } else { "finished" }))
}

/// An effect that was performed.
pub(crate) struct PerformedEffect<'a> {
    pub(crate) kind: &'static str,
    /// The model, for model calls.
    pub(crate) model: Option<&'a str>,
    pub(crate) has_failed: bool,
    pub(crate) usage: Option<&'a Usage>,
    pub(crate) duration_ms: u64,
}

/// Counts an effect. Waiting for a person or a time is none that takes long by itself.
pub(crate) fn record_effect(effect: &PerformedEffect<'_>) {
    if matches!(effect.kind, "ask" | "wait") {
        return;
    }
    count_duration(effect);
    let Some(model) = effect.model else { return };
    let mut figures = FIGURES.lock();
    let provider = model.split_once(':').map_or(model, |(provider, _)| provider);
    let labels = [("provider", Cow::Owned(provider.to_owned())), label_outcome(effect.has_failed)];
    add_duration(&mut figures.model_calls, &labels, effect.duration_ms);
    if let Some(usage) = effect.usage {
        figures.model_usage.entry(provider.to_owned()).or_insert_with(Usage::none).add(usage);
    }
}

fn count_duration(effect: &PerformedEffect<'_>) {
    let &PerformedEffect { kind, has_failed, duration_ms, .. } = effect;
    let mut effects = EFFECTS.lock();
    match effects.iter_mut().find(|known| known.kind == kind && known.has_failed == has_failed) {
        Some(known) => known.durations.add(duration_ms),
        None => {
            let mut durations = Histogram::default();
            durations.add(duration_ms);
            effects.push(EffectDurations { kind, has_failed, durations });
        }
    }
}

/// Counts an event.
pub fn count_event(event: ProcessEvent) {
    FIGURES.lock().event_counts[event as usize] += 1;
}

/// Counts a run that has ended.
pub fn count_ended_run(status: &'static str, workflow: &str) {
    add_ended_run(&mut FIGURES.lock().ended_runs, status, workflow);
}

fn add_ended_run(ended: &mut BTreeMap<EndedRuns, u64>, status: &'static str, workflow: &str) {
    let first = EndedRuns { workflow: workflow.to_owned(), status: "" };
    let is_known = ended.range(&first..).next().is_some_and(|(known, _)| known.workflow == workflow);
    let is_counted = is_known || {
        let mut names: Vec<&str> = ended.keys().map(|known| &*known.workflow).collect();
        names.dedup();
        names.len() < MAX_WORKFLOWS
    };
    let workflow = if is_counted { workflow } else { "other" };
    *ended.entry(EndedRuns { workflow: workflow.to_owned(), status }).or_default() += 1;
}

/// Counts the time that a request waited for a place.
pub(crate) fn record_wait(queue: &'static str, duration_ms: u64) {
    add_duration(&mut FIGURES.lock().queues, &[("queue", Cow::Borrowed(queue))], duration_ms);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_in_the_first_bucket_that_it_fits() {
        let mut histogram = Histogram::default();
        [0, 5, 6, 300_000, 300_001].into_iter().for_each(|duration_ms| histogram.add(duration_ms));
        let counts: Vec<u64> = histogram.cumulative_counts().collect();
        assert_eq!((counts[0], counts[1], counts[13], counts[14]), (2, 3, 4, 5));
        assert_eq!(histogram.sum_ms(), 600_012);
    }

    #[test]
    fn the_number_of_series_is_bounded() {
        let mut histograms = LabeledHistograms::new();
        for number in 0..MAX_SERIES + 5 {
            add_duration(&mut histograms, &[("route", Cow::Owned(number.to_string()))], 1);
        }
        assert_eq!(histograms.len(), MAX_SERIES + 1);
    }

    #[test]
    fn the_number_of_workflows_is_bounded() {
        let mut ended = BTreeMap::new();
        for number in 0..MAX_WORKFLOWS + 5 {
            add_ended_run(&mut ended, "failed", &format!("flow-{number}"));
            add_ended_run(&mut ended, "succeeded", "flow-0");
        }
        let other = EndedRuns { workflow: "other".into(), status: "failed" };
        assert_eq!((ended.get(&other), ended.len()), (Some(&5), MAX_WORKFLOWS + 2));
        assert!(ended.values().any(|count| *count == MAX_WORKFLOWS as u64 + 5));
    }
}
