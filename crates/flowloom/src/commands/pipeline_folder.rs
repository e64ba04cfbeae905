//! A pipeline that was made, as files: `pipeline.json` and `blocks/*.json`, in a folder that `flowloom run` takes.

use std::path::{Path, PathBuf};

use flowloom_app::runs::summary;
use flowloom_author::Written;
use flowloom_author::create::free_id;
use flowloom_core::plan::Format;
use flowloom_core::render;
use flowloom_core::value::Value;
use flowloom_formats::pipeline::{BLOCKS, FILE, built_in};

use crate::failure::Failure;
use crate::terminal::report::clip;

/// Columns of a value that is shown.
const VALUE: usize = 100;
/// Columns of an input that is shown.
const INPUT: usize = 48;

/// A folder for one pipeline, which is empty until it is written.
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// The folder that somebody wants, if it is new or empty and can be made: that is known before anything is paid for. It
    /// is made when there is something to write.
    pub(crate) fn prepare(path: &Path) -> Result<Folder, Failure> {
        let folder = Folder(path.to_owned());
        let has_content = std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some());
        if has_content || path.is_file() {
            return Err(Failure::usage(format!(
                "{} is there already; --out takes a new or empty folder",
                path.display()
            )));
        }
        if !path.exists() {
            folder.make()?;
            std::fs::remove_dir(path).map_err(|error| unwritable(path, &error))?;
        }
        Ok(folder)
    }

    /// A folder here that is called like the pipeline, which is not there yet.
    pub(crate) fn free(made: &Value) -> Folder {
        let pipeline = made.get("pipeline_json").unwrap_or(&Value::Null);
        let id = text(pipeline, "id");
        let name = id.strip_prefix("pipeline_").filter(|name| !name.is_empty()).unwrap_or(id);
        Folder(free_id(name, |name| Path::new(name).exists()).into())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes the pipeline and those of its blocks that are not built in; the names of the files.
    pub(crate) fn write(&self, made: &Value) -> Result<Vec<String>, Failure> {
        let pipeline = made.get("pipeline_json").cloned().unwrap_or_default();
        let mut files = vec![(FILE.to_owned(), pipeline)];
        let blocks = made.get("blocks").and_then(Value::as_list).unwrap_or_default();
        let is_own = |block: &&Value| !built_in().contains(block);
        let own = blocks.iter().filter(is_own);
        files.extend(own.map(|block| (format!("{BLOCKS}{}.json", text(block, "id")), block.clone())));
        self.make()?;
        if files.len() > 1 {
            let blocks = self.0.join(BLOCKS);
            std::fs::create_dir_all(&blocks).map_err(|error| unwritable(&blocks, &error))?;
        }
        for (name, value) in &files {
            let path = self.0.join(name);
            std::fs::write(&path, summary::indented(value) + "\n").map_err(|error| unwritable(&path, &error))?;
        }
        Ok(files.into_iter().map(|(name, _)| name).collect())
    }

    /// Writes it in another format, too, or says what has no place there.
    pub(crate) fn write_as(
        &self,
        format: Format,
        made: &Value,
        model: &str,
        written: &mut Vec<String>,
    ) -> Result<Vec<String>, Failure> {
        let pipeline = made.get("pipeline_json").unwrap_or(&Value::Null);
        let blocks = made.get("blocks").and_then(Value::as_list).unwrap_or_default();
        match flowloom_author::into(format, pipeline, blocks, model) {
            Ok(Written { file, text }) => {
                let path = self.0.join(&file);
                std::fs::write(&path, text).map_err(|error| unwritable(&path, &error))?;
                written.push(file);
                Ok(Vec::new())
            }
            Err(problems) => Ok(problems),
        }
    }

    fn make(&self) -> Result<(), Failure> {
        std::fs::create_dir_all(&self.0).map_err(|error| unwritable(&self.0, &error))
    }
}

fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::usage(format!("{} cannot be written: {error}", path.display()))
}

/// Shows what was made: the nodes and what each is given, what it gave when it was tried, and where the files are.
pub(crate) fn tell(made: &Value, folder: &Folder, written: &[String]) {
    let pipeline = made.get("pipeline_json").unwrap_or(&Value::Null);
    println!("{}", text(pipeline, "name"));
    nodes(pipeline).for_each(|node| println!("  {}", drawn(node)));
    println!("\nTried, without touching anything:");
    made.get("tried").into_iter().flat_map(nodes).for_each(|node| println!("  {}", line(node)));
    println!("\nWritten to {}: {}", folder.path().display(), written.join(", "));
    println!("Run it: flowloom run {}", folder.path().display());
}

fn nodes(of: &Value) -> impl Iterator<Item = &Value> {
    of.get("nodes").and_then(Value::as_list).unwrap_or_default().iter()
}

/// A node with what goes into it.
fn drawn(node: &Value) -> String {
    let inputs = node.get("inputs").and_then(Value::as_map);
    let inputs =
        inputs.into_iter().flatten().map(|(name, value)| format!("{name} = {}", clip(&render::json(value), INPUT)));
    let line =
        format!("{:<4} {:<24} {}", text(node, "id"), text(node, "block_id"), inputs.collect::<Vec<_>>().join("  "));
    line.trim_end().to_owned()
}

/// What a node gave when it was tried.
fn line(node: &Value) -> String {
    let sign = if text(node, "status") == "completed" { "✓" } else { "✗" };
    let gave = match (node.get("output"), node.get("error")) {
        (_, Some(error)) => text(error, "message").to_owned(),
        (Some(output), None) => render::json(output),
        (None, None) => text(node, "status").to_owned(),
    };
    let played = if node.get("played").is_some() { "  (played)" } else { "" };
    format!("{sign} {:<4} {:<24} {}{played}", text(node, "node_id"), text(node, "block_id"), clip(&gave, VALUE))
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}
