//! `flowloom prune`, `backup` and `restore`: maintenance of the database.

use std::path::Path;

use flowloom_app::config::retention::{final_statuses, find_final_status, unknown_status};
use flowloom_app::engines::App;
use flowloom_app::runs::inputs::parse_duration_ms;
use flowloom_core::status::Status;
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::Clock as _;
use flowloom_store::{Damage, PruneFilter, RestoreOptions, RestoredBackup};
use serde_json::json;

use super::results::print_json;
use crate::cli::Global;
use crate::failure::{CommandError, CommandResult};

/// Damages that are printed; a broken disk has more than anyone reads.
const MAX_PRINTED_DAMAGES: usize = 20;

pub(crate) async fn prune_runs(global: &Global, older: Option<&str>, named: &[String], is_dry: bool) -> CommandResult {
    let config = global.load_config()?;
    let now = SystemClock.now_ms();
    let old = match older {
        None => config.retention.expired_runs(now),
        Some(age) => {
            let age = parse_duration_ms(age).ok_or_else(|| {
                CommandError::usage(format!("invalid age {age:?}; expected a number and a unit, such as 30d or 12h"))
            })?;
            parse_statuses(named)?
                .into_iter()
                .map(|status| PruneFilter { status, before: now.saturating_sub(age) })
                .collect()
        }
    };
    if old.is_empty() {
        return Err(CommandError::usage("no age given; use --older, or [retention] in flowloom.toml"));
    }
    let app = App::open(config)?;
    let mut counts = Vec::new();
    for old in old {
        let count = if is_dry { app.store.count_prunable(old)? } else { app.store.prune_runs(old).await? };
        counts.push((old.status.name(), count));
    }
    if global.json {
        let counts: serde_json::Map<_, _> = counts.iter().map(|(name, count)| ((*name).into(), json!(count))).collect();
        print_json(&json!(counts));
        return Ok(0);
    }
    for (name, count) in counts.iter().filter(|(_, count)| *count > 0) {
        println!("{count:>8} {name}");
    }
    let all: u64 = counts.iter().map(|(_, count)| count).sum();
    println!("{all} runs {}", if is_dry { "would be deleted (--dry-run)" } else { "deleted" });
    Ok(0)
}

/// The statuses of `--status`, or else every final status.
fn parse_statuses(named: &[String]) -> Result<Vec<Status>, CommandError> {
    match named {
        [] => Ok(final_statuses().collect()),
        named => named
            .iter()
            .map(|name| find_final_status(name).ok_or_else(|| CommandError::usage(unknown_status(name).to_string())))
            .collect(),
    }
}

/// The exit code of a backup whose database is damaged.
const EXIT_DAMAGED: u8 = 1;

pub(crate) fn back_up_database(global: &Global, file: &Path) -> CommandResult {
    let app = App::open(global.load_config()?)?;
    app.store.back_up(file)?;
    let mut damages = Vec::new();
    app.store.check_database(&mut |damage| damages.push(damage))?;
    let bytes = std::fs::metadata(file).map_or(0, |file| file.len());
    let file = file.display().to_string();
    let result = json!({"file": file, "bytes": bytes, "damages": list_problems(&damages)});
    super::results::print_result(global, result, &format!("{file} ({bytes} bytes)"));
    if damages.is_empty() {
        return Ok(0);
    }
    eprintln!("warning: the database is damaged, and so is the backup; keep older backups");
    print_damages(&damages);
    Ok(EXIT_DAMAGED)
}

pub(crate) fn restore_database(global: &Global, file: &Path, options: RestoreOptions) -> CommandResult {
    let config = global.load_config()?;
    if config.database.value.is_some() {
        return Err(CommandError::usage("the configured database is Postgres; use pg_restore"));
    }
    let RestoredBackup { replaced, damages } = flowloom_store::restore_backup(&config.data_dir.value, file, options)?;
    let replaced = replaced.map(|file| file.display().to_string());
    let folder = config.data_dir.value.display().to_string();
    let text = match &replaced {
        Some(file) => {
            format!(
                "restored into {folder}\nthe replaced database is kept as {file}; delete it when you no longer need it"
            )
        }
        None => format!("restored into {folder}"),
    };
    let result = json!({"data_dir": folder, "replaced": replaced, "damages": list_problems(&damages)});
    super::results::print_result(global, result, &text);
    if !damages.is_empty() {
        eprintln!("warning: the restored database is damaged");
        print_damages(&damages);
    }
    Ok(0)
}

fn list_problems(damages: &[Damage]) -> Vec<&str> {
    damages.iter().map(|damage| damage.problem.as_str()).collect()
}

/// Prints the damage, one problem on each line.
fn print_damages(damages: &[Damage]) {
    for damage in damages.iter().take(MAX_PRINTED_DAMAGES) {
        eprintln!("  {}", damage.problem);
    }
    if damages.len() > MAX_PRINTED_DAMAGES {
        eprintln!("  and {} more: flowloom doctor --read-data", damages.len() - MAX_PRINTED_DAMAGES);
    }
}
