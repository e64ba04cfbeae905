//! Writes a new pipeline as files: `pipeline.json` and `blocks/*.json`, in a folder that `flowloom run` accepts.

use std::path::{Path, PathBuf};

use flowloom_app::authoring::OutputTarget;
use flowloom_app::project_files;
use flowloom_app::runs::summary;
use flowloom_author::ExportedDefinition;
use flowloom_author::create::{free_id, numbered_ids};
use flowloom_core::plan::Format;
use flowloom_core::render;
use flowloom_core::value::Value;
use flowloom_formats::pipeline::{self, BLOCKS_FOLDER, PIPELINE_FILE, built_in_blocks};
use flowloom_formats::{format_part, format_source};

use crate::failure::CommandError;
use crate::hint::quote_argument;
use crate::terminal::report::truncate_line;
use crate::terminal::width::{stdout_columns, wrap_hanging};

/// The column in which the values of a node start.
const VALUE_COLUMN: usize = 32;
/// Maximum displayed width of an output value, in columns.
const MAX_OUTPUT_COLUMNS: usize = 100;
/// Maximum displayed width of an input value, in columns.
const MAX_INPUT_COLUMNS: usize = 48;

/// The output folder of one pipeline, empty until the pipeline is written.
pub(crate) struct OutputFolder(PathBuf);

/// Whether there is a file, or a folder with content.
fn is_occupied(path: &Path) -> bool {
    path.is_file() || std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some())
}

impl OutputFolder {
    /// Checks that the requested folder is new or empty and can be created. This happens before any model call is paid
    /// for; the folder itself is created when there is something to write.
    pub(crate) fn prepare(path: &Path) -> Result<OutputFolder, CommandError> {
        let folder = OutputFolder(path.to_owned());
        if is_occupied(path) {
            return Err(CommandError::usage(format!(
                "{} already exists; --out expects a new or empty folder",
                path.display()
            )));
        }
        if !path.exists() {
            folder.create()?;
            std::fs::remove_dir(path).map_err(|error| write_failure(path, &error))?;
        }
        Ok(folder)
    }

    /// A folder in `base`, named after the pipeline, that does not exist yet.
    pub(crate) fn choose_free(base: &Path, made: &Value) -> OutputFolder {
        OutputFolder(base.join(free_id(pipeline_name(made), |name| base.join(name).exists())))
    }

    /// The folder into which the pipeline was written before, or else a new one: the chosen folder, or one beside it if
    /// another pipeline is there, as for a fork.
    pub(crate) fn find_or_choose(target: &OutputTarget, made: &Value) -> Result<OutputFolder, CommandError> {
        let text = lay_out(PIPELINE_FILE, &made.get("pipeline_json").cloned().unwrap_or_default());
        let has_it = |path: &Path| std::fs::read_to_string(path.join(PIPELINE_FILE)).is_ok_and(|found| found == text);
        if let Some(folder) = &target.folder {
            let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let beside = numbered_ids(&name).map(|name| folder.with_file_name(name));
            let usable = beside.into_iter().find(|path| has_it(path) || !is_occupied(path));
            let path = usable.unwrap_or_else(|| folder.clone());
            return if has_it(&path) { Ok(OutputFolder(path)) } else { OutputFolder::prepare(&path) };
        }
        let names = numbered_ids(pipeline_name(made)).map(|name| target.base.join(name));
        let written = names.take_while(|path| path.exists()).find(|path| has_it(path));
        Ok(written.map_or_else(|| OutputFolder::choose_free(&target.base, made), OutputFolder))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The path, relative to the working directory if it is below it.
    pub(crate) fn display_path(&self) -> PathBuf {
        let current = std::env::current_dir().unwrap_or_default();
        self.0.strip_prefix(&current).unwrap_or(&self.0).to_owned()
    }

    /// Writes the pipeline and those of its blocks that are not built in. Returns the file names.
    pub(crate) fn write(&self, made: &Value) -> Result<Vec<String>, CommandError> {
        let pipeline = made.get("pipeline_json").cloned().unwrap_or_default();
        let mut files = vec![(PIPELINE_FILE.to_owned(), pipeline)];
        let blocks = made.get("blocks").and_then(Value::as_list).unwrap_or_default();
        let is_own = |block: &&Value| !built_in_blocks().contains(block);
        let own = blocks.iter().filter(is_own);
        files.extend(own.map(|block| (format!("{BLOCKS_FOLDER}{}.json", get_text(block, "id")), block.clone())));
        self.create()?;
        if files.len() > 1 {
            let blocks = self.0.join(BLOCKS_FOLDER);
            project_files::create_folder(&blocks).map_err(|error| write_failure(&blocks, &error))?;
        }
        for (name, value) in &files {
            let path = self.0.join(name);
            project_files::write_file(&path, lay_out(name, value)).map_err(|error| write_failure(&path, &error))?;
        }
        Ok(files.into_iter().map(|(name, _)| name).collect())
    }

    /// Also writes the pipeline in another format. Returns what that format cannot express; empty on success.
    pub(crate) fn write_as(
        &self,
        format: Format,
        made: &Value,
        model: &str,
        written: &mut Vec<String>,
    ) -> Result<Vec<String>, CommandError> {
        let pipeline = made.get("pipeline_json").unwrap_or(&Value::Null);
        let blocks = made.get("blocks").and_then(Value::as_list).unwrap_or_default();
        match flowloom_author::export_pipeline(format, pipeline, blocks, model) {
            Ok(ExportedDefinition { file, text }) => {
                let path = self.0.join(&file);
                project_files::write_file(&path, text).map_err(|error| write_failure(&path, &error))?;
                written.push(file);
                Ok(Vec::new())
            }
            Err(problems) => Ok(problems),
        }
    }

    fn create(&self) -> Result<(), CommandError> {
        project_files::create_folder(&self.0).map_err(|error| write_failure(&self.0, &error))
    }
}

/// A pipeline or a block as the text of a file, in the canonical layout.
fn lay_out(name: &str, value: &Value) -> String {
    let text = summary::to_indented_json(value) + "\n";
    let laid_out = format_part(name, &text).or_else(|| format_source(pipeline::FORMAT, name, &text).ok());
    laid_out.unwrap_or(text)
}

/// The name of the pipeline as the name of a folder.
fn pipeline_name(made: &Value) -> &str {
    let id =
        made.get("pipeline_json").and_then(|pipeline| pipeline.get("id")).and_then(Value::as_str).unwrap_or_default();
    id.strip_prefix("pipeline_").filter(|name| !name.is_empty()).unwrap_or(id)
}

fn write_failure(path: &Path, error: &std::io::Error) -> CommandError {
    CommandError::usage(format!("{} cannot be written: {error}", path.display()))
}

/// Prints the description of a node, within the width of the terminal.
fn print_entry(text: &str) {
    let line = format!("  {text}");
    match stdout_columns() {
        Some(columns) => println!("{}", wrap_hanging(&line, columns - 1, VALUE_COLUMN)),
        None => println!("{line}"),
    }
}

/// Prints the new pipeline: its nodes with their inputs, the results of the dry run, and the location of the files.
pub(crate) fn print_summary(made: &Value, folder: &OutputFolder, written: &[String]) {
    let pipeline = made.get("pipeline_json").unwrap_or(&Value::Null);
    println!("{}", get_text(pipeline, "name"));
    iter_nodes(pipeline).for_each(|node| print_entry(&render_node(node)));
    println!("\nDry run, without side effects:");
    made.get("tried").into_iter().flat_map(iter_nodes).for_each(|node| print_entry(&render_dry_run_result(node)));
    println!("\nWritten to {}: {}", folder.display_path().display(), written.join(", "));
    println!("Run it: flowloom run {}", quote_argument(&folder.display_path()));
}

fn iter_nodes(of: &Value) -> impl Iterator<Item = &Value> {
    of.get("nodes").and_then(Value::as_list).unwrap_or_default().iter()
}

/// Renders a node with its inputs.
fn render_node(node: &Value) -> String {
    let inputs = node.get("inputs").and_then(Value::as_map);
    let inputs = inputs
        .into_iter()
        .flatten()
        .map(|(name, value)| format!("{name} = {}", truncate_line(&render::to_json(value), MAX_INPUT_COLUMNS)));
    let line = format!(
        "{:<4} {:<24} {}",
        get_text(node, "id"),
        get_text(node, "block_id"),
        inputs.collect::<Vec<_>>().join("  ")
    );
    line.trim_end().to_owned()
}

/// Renders the result of a node in the dry run.
fn render_dry_run_result(node: &Value) -> String {
    let sign = if get_text(node, "status") == "completed" { "✓" } else { "✗" };
    let gave = match (node.get("output"), node.get("error")) {
        (_, Some(error)) => get_text(error, "message").to_owned(),
        (Some(output), None) => render::to_json(output),
        (None, None) => get_text(node, "status").to_owned(),
    };
    let mark = if node.get("mocked").is_some() { "  (mocked)" } else { "" };
    format!(
        "{sign} {:<4} {:<24} {}{mark}",
        get_text(node, "node_id"),
        get_text(node, "block_id"),
        truncate_line(&gave, MAX_OUTPUT_COLUMNS)
    )
}

fn get_text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}
