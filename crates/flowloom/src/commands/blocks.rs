//! `flowloom blocks`: the registry in the terminal.

use flowloom_core::value::Value;
use serde_json::json;

use crate::app::App;
use crate::blocks::Found;
use crate::cli::{BlocksCommand, Global};
use crate::config::Config;
use crate::failure::Outcome;

pub(crate) async fn blocks(global: &Global, user: &str, command: BlocksCommand) -> Outcome {
    let app = App::open(Config::load(global)?)?;
    match command {
        BlocksCommand::Find { words, limit } => find(global, &app, (user, &words), limit as usize).await,
    }
}

/// Finds blocks; those that were kept by a process that made no vectors get them first.
async fn find(global: &Global, app: &App, (user, words): (&str, &str), limit: usize) -> Outcome {
    // If it fails, the search says so.
    let _ = app.blocks.embed_missing().await;
    let finding = app.blocks.search(user, words, limit).await?;
    if let Some(why) = &finding.by_words {
        eprintln!("Found by words alone: {why}");
    }
    if global.json {
        let shown = finding.found.iter().map(|found| {
            json!({
                "block": found.block, "score": found.score, "similarity": found.similarity, "fits": found.fit.is_found(),
            })
        });
        println!("{:#}", serde_json::Value::Array(shown.collect()));
        return Ok(0);
    }
    finding.found.iter().for_each(|found| println!("{}", line(&found.block, &nearness(found))));
    Ok(0)
}

/// How near a block is, for people.
fn nearness(found: &Found) -> String {
    found.similarity.map_or_else(|| "-".to_owned(), |similarity| format!("{similarity:.2}"))
}

/// A block on one line.
fn line(block: &Value, mark: &str) -> String {
    let text = |key: &str| block.get(key).and_then(Value::as_str).unwrap_or_default();
    let (id, kind) = (text("id"), text("execution_type"));
    format!("{mark:<8} {id:<24} {kind:<9} {}", text("description").trim()).trim_end().to_owned()
}
