//! AnythingLLM's folder of flows, `plugins/agent-flows`, in which each flow is a file `UUID.json`. Its builder saves and
//! deletes flows in it; the previous version of a flow stays next to it.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::replace_file::replace_file;

/// Held while a flow is written. Of two versions that are saved at the same time, one is then the previous version of the
/// other.
static WRITING: Mutex<()> = Mutex::new(());

/// The name of the folder.
pub(super) const FLOW_FOLDER: &str = "agent-flows";

/// Where the folder is in the served one: the folder of AnythingLLM's storage, or one that contains it.
const PLACES: [&str; 3] = ["plugins/agent-flows", "storage/plugins/agent-flows", "server/storage/plugins/agent-flows"];

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
        PLACES.iter().map(|place| root.join(place)).find(|path| path.is_dir()).map(|path| FlowFolder { path })
    }

    /// Writes a flow. The file is replaced as a whole and keeps its mode; its previous version is kept as
    /// `UUID.json.previous`.
    pub fn write_flow(&self, uuid: &str, text: &str) -> io::Result<()> {
        let _writing = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
        self.keep_previous(uuid)?;
        replace_file(&self.path_of(uuid), text)
    }

    /// Deletes a flow. Its last version is kept as `UUID.json.previous`.
    pub fn delete_flow(&self, uuid: &str) -> io::Result<()> {
        let _writing = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
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

    fn path_of(&self, uuid: &str) -> PathBuf {
        self.path.join(format!("{uuid}.json"))
    }

    fn previous_of(&self, uuid: &str) -> PathBuf {
        self.path.join(format!("{uuid}.json.previous"))
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
        folder.delete_flow("a").expect("deleted");
        assert!(!folder.contains("a"));
        assert_eq!(fs::read_to_string(flows.join("a.json.previous")).expect("a version"), "two");
        assert_eq!(fs::read_dir(&flows).expect("a folder").count(), 1, "nothing else is left");
    }
}
