//! `flowloom prune`, `backup` and `restore`: maintenance of the database.

use std::path::Path;

use flowloom_app::config::retention::{ended, ends};
use flowloom_app::engines::App;
use flowloom_app::runs::inputs::duration_ms;
use flowloom_core::status::Status;
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::Clock as _;
use flowloom_store::Old;
use serde_json::json;

use crate::cli::Global;
use crate::failure::{Failure, Outcome};

pub(crate) async fn prune(global: &Global, older: Option<&str>, named: &[String], is_dry: bool) -> Outcome {
    let config = global.load_config()?;
    let now = SystemClock.now_ms();
    let old = match older {
        None => config.retention.old(now),
        Some(age) => {
            let age =
                duration_ms(age).ok_or_else(|| Failure::usage(format!("invalid age {age:?}; expected e.g. 30d")))?;
            statuses(named)?.into_iter().map(|status| Old { status, before: now.saturating_sub(age) }).collect()
        }
    };
    if old.is_empty() {
        return Err(Failure::usage("no age given; use --older, or [retention] in flowloom.toml"));
    }
    let app = App::open(config)?;
    let mut counts = Vec::new();
    for old in old {
        let count = if is_dry { app.store.count_old(old)? } else { app.store.prune(old).await? };
        counts.push((old.status.name(), count));
    }
    if global.json {
        let counts: serde_json::Map<_, _> = counts.iter().map(|(name, count)| ((*name).into(), json!(count))).collect();
        println!("{:#}", json!(counts));
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
fn statuses(named: &[String]) -> Result<Vec<Status>, Failure> {
    match named {
        [] => Ok(ends().collect()),
        named => named.iter().map(|name| ended(name).map_err(Failure::usage)).collect(),
    }
}

pub(crate) fn backup(global: &Global, file: &Path) -> Outcome {
    App::open(global.load_config()?)?.store.backup(file)?;
    let bytes = std::fs::metadata(file).map_or(0, |file| file.len());
    println!("{} ({bytes} bytes)", file.display());
    Ok(0)
}

pub(crate) fn restore(global: &Global, file: &Path, replace: bool) -> Outcome {
    let config = global.load_config()?;
    if config.database.value.is_some() {
        return Err(Failure::usage("the configured database is Postgres; use pg_restore"));
    }
    flowloom_store::restore(&config.data_dir.value, file, replace)?;
    println!("restored into {}", config.data_dir.value.display());
    Ok(0)
}
