//! `flowloom blocks`: manages the block registry from the terminal.

use std::path::{Path, PathBuf};

use flowloom_app::blocks::{BlockError, BlockMatch, id_of};
use flowloom_app::definitions::reader::read_bounded_text;
use flowloom_app::engines::App;
use flowloom_app::project_files;
use flowloom_app::runs::summary;
use flowloom_core::code::Code;
use flowloom_core::json::parse_value;
use flowloom_core::value::Value;
use flowloom_store::{Actor, DefinitionCondition};
use serde_json::json;

use super::results::print_json;
use crate::cli::{BlocksCommand, Global};
use crate::failure::{CommandError, CommandResult};
use crate::terminal::table::{LastCell, print_table};

pub(crate) async fn manage_blocks(global: &Global, user: &str, command: BlocksCommand) -> CommandResult {
    let app = App::open(global.load_config()?)?;
    match command {
        BlocksCommand::List => list_blocks(global, &app, user),
        BlocksCommand::Show { id } => {
            println!("{}", summary::to_indented_json(&find_block(&app, user, &id)?));
            Ok(0)
        }
        BlocksCommand::Find { words, limit } => find_blocks(global, &app, user, &words, limit as usize).await,
        BlocksCommand::Export { folder, ids, force } => {
            let blocks = list_exported(&app, user, &ids)?;
            export_blocks(global, &blocks, &folder, force)
        }
        BlocksCommand::Import { paths } => import_blocks(global, &app, user, &paths).await,
        BlocksCommand::Remove { id } => {
            let (condition, actor) = (DefinitionCondition::default(), Actor::command_line());
            let removed = app.blocks.remove_block(user, &id, condition, &actor).await;
            removed.map_err(|error| suggest_block(&app, user, &id, error))?;
            super::results::print_result(global, json!({"removed": id}), &format!("removed {id}"));
            Ok(0)
        }
    }
}

fn list_blocks(global: &Global, app: &App, user: &str) -> CommandResult {
    let blocks = app.blocks.list_blocks(user)?;
    if global.json {
        print_json(&Value::list(blocks));
        return Ok(0);
    }
    let mut rows = Vec::new();
    for block in &blocks {
        let is_stored = app.blocks.is_stored(user, id_of(block))?;
        rows.push(describe_block(block, if is_stored { "stored" } else { "built in" }));
    }
    print_table(["ORIGIN", "ID", "TYPE", "DESCRIPTION"], &rows, LastCell::Cut);
    Ok(0)
}

fn find_block(app: &App, user: &str, id: &str) -> Result<Value, CommandError> {
    let found = app.blocks.find_block(user, id)?;
    found.ok_or_else(|| suggest_block(app, user, id, BlockError::NotFound(id.to_owned())))
}

fn suggest_block(app: &App, user: &str, id: &str, error: impl Into<CommandError>) -> CommandError {
    let known = app.blocks.list_blocks(user).unwrap_or_default();
    let ids: Vec<&str> = known.iter().map(id_of).collect();
    error.into().suggest_known_name(id, &ids)
}

/// The blocks with these ids; all stored ones if there are none.
fn list_exported(app: &App, user: &str, ids: &[String]) -> Result<Vec<Value>, CommandError> {
    match ids {
        [] => Ok(app.blocks.list_stored(user)?),
        ids => ids.iter().map(|id| find_block(app, user, id)).collect(),
    }
}

/// Writes blocks as files, in the layout that a pipeline in the parent folder finds.
fn export_blocks(global: &Global, blocks: &[Value], folder: &Path, is_forced: bool) -> CommandResult {
    let failed = |error| CommandError::new(Code::FileFailed, format!("{}: {error}", folder.display()));
    project_files::create_folder(folder).map_err(failed)?;
    let file_of = |block: &Value| folder.join(format!("{}.json", id_of(block)));
    let texts = blocks.iter().map(|block| (file_of(block), format!("{}\n", summary::to_indented_json(block))));
    let texts: Vec<(PathBuf, String)> = texts.collect();
    if !is_forced {
        check_unchanged(&texts)?;
    }
    let mut files = Vec::new();
    for (file, text) in texts {
        project_files::write_file(&file, text).map_err(failed)?;
        files.push(file.display().to_string());
    }
    super::results::print_result(global, json!({"files": files}), &files.join("\n"));
    Ok(0)
}

/// Fails if a file has other contents than those that would be written; nothing is lost unless the user wants that.
fn check_unchanged(texts: &[(PathBuf, String)]) -> Result<(), CommandError> {
    let has_changed = |(file, text): &&(PathBuf, String)| std::fs::read(file).is_ok_and(|old| old != text.as_bytes());
    let changed: Vec<String> = texts.iter().filter(has_changed).map(|(file, _)| file.display().to_string()).collect();
    match changed.is_empty() {
        true => Ok(()),
        false => {
            let rest = match changed.len() {
                1 => "differs from its block; use --force to replace it",
                _ => "differ from their blocks; use --force to replace them",
            };
            Err(CommandError::usage(format!("{} {rest}", changed.join(", "))))
        }
    }
}

/// Stores the blocks of files or folders.
async fn import_blocks(global: &Global, app: &App, user: &str, paths: &[PathBuf]) -> CommandResult {
    let mut blocks = Vec::new();
    for path in paths {
        for file in list_files(path)? {
            let unreadable = |why: String| CommandError::usage(format!("{} cannot be read: {why}", file.display()));
            let text = read_bounded_text(&file, app.config.limits.source_bytes)
                .map_err(|error| unreadable(error.to_string()))?;
            let read = parse_value(&text).map_err(|error| unreadable(error.message))?;
            blocks.extend(read.as_list().map_or_else(|| vec![read.clone()], <[Value]>::to_vec));
        }
    }
    let changed = app.blocks.put_blocks(user, &blocks, DefinitionCondition::default(), &Actor::command_line()).await?;
    let results: Vec<_> =
        blocks.iter().zip(&changed).map(|(block, changed)| (id_of(block), changed.result.name())).collect();
    let lines: Vec<String> = results.iter().map(|(id, changed)| format!("{changed} {id}")).collect();
    let values: Vec<_> = results.iter().map(|(id, changed)| json!({"id": id, "changed": changed})).collect();
    super::results::print_result(global, json!(values), &lines.join("\n"));
    Ok(0)
}

/// A file, or the JSON files of a folder, sorted by name.
fn list_files(path: &Path) -> Result<Vec<PathBuf>, CommandError> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let unreadable = |error| CommandError::usage(format!("{} cannot be read: {error}", path.display()));
    let entries = std::fs::read_dir(path).map_err(unreadable)?.flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> = entries.filter(|file| file.extension().is_some_and(|end| end == "json")).collect();
    files.sort();
    Ok(files)
}

/// Searches blocks. Computes missing embeddings first, since blocks may have been stored by a process without a model.
async fn find_blocks(global: &Global, app: &App, user: &str, words: &str, limit: usize) -> CommandResult {
    // If this fails, the search reports it.
    let _ = app.blocks.embed_missing().await;
    let finding = app.blocks.search_blocks(user, words, limit).await?;
    if let Some(why) = &finding.fallback_reason {
        eprintln!("Full-text search only: {why}");
    }
    if global.json {
        let found_rows = finding.matches.iter().map(|found| {
            json!({
                "block": found.block, "score": found.score, "similarity": found.similarity, "fits": found.fit.is_usable(),
            })
        });
        print_json(&serde_json::Value::Array(found_rows.collect()));
        return Ok(0);
    }
    let rows: Vec<_> =
        finding.matches.iter().map(|found| describe_block(&found.block, &render_similarity(found))).collect();
    match rows.is_empty() {
        true => eprintln!("no block fits"),
        false => print_table(["FIT", "ID", "TYPE", "DESCRIPTION"], &rows, LastCell::Cut),
    }
    Ok(0)
}

/// The similarity of a match with two decimals, or `-`.
fn render_similarity(found: &BlockMatch) -> String {
    found.similarity.map_or_else(|| "-".to_owned(), |similarity| format!("{similarity:.2}"))
}

/// The cells of a block in a table.
fn describe_block(block: &Value, mark: &str) -> [String; 4] {
    let text = |key: &str| block.get(key).and_then(Value::as_str).unwrap_or_default().trim().to_owned();
    [mark.to_owned(), text("id"), text("execution_type"), text("description")]
}
