//! The newest run of a definition, for editors: how it ended, and the values that it left.

use flowloom_core::RunId;
use flowloom_core::chat::Usage;
use flowloom_core::status::Status;
use flowloom_core::value::Value;
use flowloom_store::RunFilter;

use super::finished::read_outcome;
use crate::config::Config;
use crate::engines::App;
use crate::error::AppError;

/// The newest run of a definition.
#[derive(Clone, Debug)]
pub struct LastRun {
    /// Its id.
    pub id: RunId,
    /// Its status.
    pub status: Status,
    /// Time of its creation, in milliseconds since the Unix epoch.
    pub created_at: u64,
    /// Tokens and cost of all its model calls.
    pub usage: Usage,
    /// The variables that it left, in the order of their first write.
    pub variables: Vec<(String, Value)>,
    /// The outputs of its steps, by the last segment of their paths.
    pub outputs: Vec<(String, Value)>,
}

impl LastRun {
    /// The last value of a variable, or the last output of the step with this name.
    pub fn find_value(&self, name: &str) -> Option<&Value> {
        let find = |values: &'_ [(String, Value)]| values.iter().rposition(|(known, _)| known == name);
        match find(&self.variables) {
            Some(at) => Some(&self.variables[at].1),
            None => find(&self.outputs).map(|at| &self.outputs[at].1),
        }
    }
}

/// The newest run of the definition that is called `name`; `None` if there is none. Creates no data folder. Fails if
/// the store cannot be opened, or if the run is damaged.
pub async fn find_last_run(config: &Config, name: &str) -> Result<Option<LastRun>, AppError> {
    if config.database.value.is_none() && !config.data_dir.value.exists() {
        return Ok(None);
    }
    let runs = App::open(config.clone())?.runs;
    let filter = RunFilter { name: Some(name.to_owned()), limit: 1, ..RunFilter::default() };
    let (rows, _) = runs.store.list_intact_runs(&filter)?;
    let Some(row) = rows.first() else { return Ok(None) };
    let opened = runs.open_run_by_id(row.id).await?;
    let outcome = read_outcome(&runs, &opened).await?;
    let state = &outcome.state;
    let steps = state.steps().iter().filter_map(|step| {
        let segment = step.path.as_str().rsplit('/').next()?;
        let key = segment.split(['[', '#']).next()?;
        Some((key.to_owned(), step.output.clone()?))
    });
    let variables = outcome.env.vars.as_map().iter().map(|(name, value)| (name.to_string(), value.clone()));
    Ok(Some(LastRun {
        id: row.id,
        status: state.status,
        created_at: state.created_at,
        usage: state.usage,
        variables: variables.collect(),
        outputs: steps.collect(),
    }))
}
