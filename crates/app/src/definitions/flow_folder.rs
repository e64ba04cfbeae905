//! AnythingLLM's folder of flows, `plugins/agent-flows`, in which each flow is a file `UUID.json`. Its builder saves and
//! deletes flows in it; the previous version of a flow stays next to it.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use super::folder::id_from_path;
use super::replace_file::replace_file;

/// Held while a flow is written. Of two versions that are saved at the same time, one is then the previous version of the
/// other.
static WRITING: Mutex<()> = Mutex::new(());

/// The name of the folder.
pub(super) const FLOW_FOLDER: &str = "agent-flows";

/// Where the folder is in the served one: the folder of AnythingLLM's storage, or one that contains it.
const FLOW_FOLDERS: [&str; 3] =
    ["plugins/agent-flows", "storage/plugins/agent-flows", "server/storage/plugins/agent-flows"];

/// AnythingLLM's folder of flows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowFolder {
    path: PathBuf,
}

impl FlowFolder {
    /// The folder of flows that is `root` or in it.
    pub(super) fn find(root: &Path) -> Option<FlowFolder> {
        let root = root.canonicalize().ok()?;
        if root.file_name().is_some_and(|name| name == FLOW_FOLDER) {
            return Some(FlowFolder { path: root });
        }
        FLOW_FOLDERS.iter().map(|place| root.join(place)).find(|path| path.is_dir()).map(|path| FlowFolder { path })
    }

    /// Writes a flow. The file is replaced as a whole and keeps its mode; its previous version is kept as
    /// `UUID.json.previous`. Fails if the folder cannot be written.
    pub fn write_flow(&self, uuid: &str, text: &str) -> io::Result<()> {
        let _writing = WRITING.lock();
        self.keep_previous(uuid)?;
        replace_file(&self.path_of(uuid), text)
    }

    /// Deletes a flow. Its last version is kept as `UUID.json.previous`. Fails if there is no such file, or if the
    /// folder cannot be written.
    pub fn delete_flow(&self, uuid: &str) -> io::Result<()> {
        let _writing = WRITING.lock();
        fs::rename(self.path_of(uuid), self.previous_of(uuid))?;
        File::open(&self.path)?.sync_all()
    }

    /// Whether the flow is a file of this folder.
    pub fn contains(&self, uuid: &str) -> bool {
        self.path_of(uuid).is_file()
    }

    /// Copies the current version, so that the flow is never missing.
    fn keep_previous(&self, uuid: &str) -> io::Result<()> {
        let copy = self.path.join(format!(".{uuid}.json.{}.copy", std::process::id()));
        match fs::copy(self.path_of(uuid), &copy) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            copied => copied.and_then(|_| fs::rename(&copy, self.previous_of(uuid))),
        }
    }

    /// The file of a flow. A file whose name cannot be an id, such as one with blanks, is found by the id that it has.
    fn path_of(&self, uuid: &str) -> PathBuf {
        let own = self.path.join(format!("{uuid}.json"));
        match own.is_file() {
            true => own,
            false => self.find_renamed(uuid).unwrap_or(own),
        }
    }

    /// The only file with this id.
    fn find_renamed(&self, uuid: &str) -> Option<PathBuf> {
        let names = fs::read_dir(&self.path).ok()?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut found = names
            .filter(|name| name.ends_with(".json") && id_from_path(&format!("{FLOW_FOLDER}/{name}")) == uuid)
            .map(|name| self.path.join(name));
        let first = found.next();
        first.filter(|_| found.next().is_none())
    }

    fn previous_of(&self, uuid: &str) -> PathBuf {
        let mut path = self.path_of(uuid).into_os_string();
        path.push(".previous");
        path.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_keeps_its_previous_version() {
        let root = tempfile::tempdir().expect("a folder");
        assert_eq!(FlowFolder::find(root.path()), None);
        let flows = root.path().join("plugins/agent-flows");
        fs::create_dir_all(&flows).expect("a folder");
        let folder = FlowFolder::find(root.path()).expect("the folder of flows");
        assert_eq!(FlowFolder::find(&flows), Some(folder.clone()));
        for text in ["one", "two"] {
            folder.write_flow("a", text).expect("written");
            assert_eq!(fs::read_to_string(flows.join("a.json")).expect("a flow"), text);
        }
        assert_eq!(fs::read_to_string(flows.join("a.json.previous")).expect("a version"), "one");
        fs::write(flows.join("two words.json"), "{}").expect("written");
        folder.write_flow("two.words", "new").expect("written");
        assert_eq!(fs::read_to_string(flows.join("two words.json")).expect("a flow"), "new");
        folder.delete_flow("two.words").expect("deleted");
        assert!(!folder.contains("two.words"));
        fs::remove_file(flows.join("two words.json.previous")).expect("a version");
        folder.delete_flow("a").expect("deleted");
        assert!(!folder.contains("a"));
        assert_eq!(fs::read_to_string(flows.join("a.json.previous")).expect("a version"), "two");
        assert_eq!(fs::read_dir(&flows).expect("a folder").count(), 1, "nothing else is left");
    }
}
