//! `flowloom blocks`: manages the block registry from the terminal.

use std::path::{Path, PathBuf};

use flowloom_app::blocks::{Found, Refused, id_of};
use flowloom_app::engines::App;
use flowloom_app::runs::summary;
use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use flowloom_core::json::parse_value;
use flowloom_core::value::Value;
use serde_json::json;

use crate::cli::{BlocksCommand, Global};
use crate::failure::{Failure, Outcome};

pub(crate) async fn blocks(global: &Global, user: &str, command: BlocksCommand) -> Outcome {
    let app = App::open(global.load_config()?)?;
    match command {
        BlocksCommand::List => list(global, &app, user),
        BlocksCommand::Show { id } => {
            println!("{}", summary::indented(&one(&app, user, &id)?));
            Ok(0)
        }
        BlocksCommand::Find { words, limit } => find(global, &app, (user, &words), limit as usize).await,
        BlocksCommand::Export { folder, ids } => export(&app, user, &folder, &ids),
        BlocksCommand::Import { paths } => import(&app, user, &paths).await,
        BlocksCommand::Remove { id } => {
            app.blocks.remove(user, &id).await?;
            println!("removed {id}");
            Ok(0)
        }
    }
}

fn list(global: &Global, app: &App, user: &str) -> Outcome {
    let blocks = app.blocks.list(user)?;
    if global.json {
        super::print(&Value::list(blocks));
        return Ok(0);
    }
    for block in &blocks {
        let is_kept = app.blocks.is_kept(user, id_of(block))?;
        println!("{}", line(block, if is_kept { "stored" } else { "built in" }));
    }
    Ok(0)
}

fn one(app: &App, user: &str, id: &str) -> Result<Value, StepError> {
    app.blocks.get(user, id)?.ok_or_else(|| StepError::new(Code::NotThere, format!("there is no block {id}")))
}

/// Writes blocks as files, in the layout that a pipeline in the parent folder finds.
fn export(app: &App, user: &str, folder: &Path, ids: &[String]) -> Outcome {
    let blocks = match ids {
        [] => app.blocks.kept(user)?,
        ids => ids.iter().map(|id| one(app, user, id)).collect::<Result<_, _>>()?,
    };
    let failed = |error| Failure::from(StepError::new(Code::FileFailed, format!("{}: {error}", folder.display())));
    std::fs::create_dir_all(folder).map_err(failed)?;
    for block in &blocks {
        let file = folder.join(format!("{}.json", id_of(block)));
        std::fs::write(&file, format!("{}\n", summary::indented(block))).map_err(failed)?;
        println!("{}", file.display());
    }
    Ok(0)
}

/// Stores the blocks of files or folders.
async fn import(app: &App, user: &str, paths: &[PathBuf]) -> Outcome {
    let mut blocks = Vec::new();
    for path in paths {
        for file in files(path)? {
            let unreadable = |why: String| Failure::usage(format!("{} cannot be read: {why}", file.display()));
            let text = std::fs::read_to_string(&file).map_err(|error| unreadable(error.to_string()))?;
            let read = parse_value(&text).map_err(|error| unreadable(error.message))?;
            blocks.extend(read.as_list().map_or_else(|| vec![read.clone()], <[Value]>::to_vec));
        }
    }
    let changed = app.blocks.put(user, &blocks).await.map_err(|Refused { error, .. }| Failure::from(error))?;
    for (block, changed) in blocks.iter().zip(changed) {
        println!("{} {}", changed.name(), id_of(block));
    }
    Ok(0)
}

/// A file, or the JSON files of a folder, sorted by name.
fn files(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let unreadable = |error| Failure::usage(format!("{} cannot be read: {error}", path.display()));
    let entries = std::fs::read_dir(path).map_err(unreadable)?.flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> = entries.filter(|file| file.extension().is_some_and(|end| end == "json")).collect();
    files.sort();
    Ok(files)
}

/// Searches blocks. Computes missing embeddings first, since blocks may have been stored by a process without a model.
async fn find(global: &Global, app: &App, (user, words): (&str, &str), limit: usize) -> Outcome {
    // If this fails, the search reports it.
    let _ = app.blocks.embed_missing().await;
    let finding = app.blocks.search(user, words, limit).await?;
    if let Some(why) = &finding.by_words {
        eprintln!("Full-text search only: {why}");
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

/// The similarity of a match with two decimals, or `-`.
fn nearness(found: &Found) -> String {
    found.similarity.map_or_else(|| "-".to_owned(), |similarity| format!("{similarity:.2}"))
}

/// Renders a block as one line.
fn line(block: &Value, mark: &str) -> String {
    let text = |key: &str| block.get(key).and_then(Value::as_str).unwrap_or_default();
    let (id, kind) = (text("id"), text("execution_type"));
    format!("{mark:<8} {id:<24} {kind:<9} {}", text("description").trim()).trim_end().to_owned()
}
