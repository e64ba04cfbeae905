//! Errors of the lock-down. They occur in a worker, which sends their text to the process that started it.

use std::fmt;
use std::io;
use std::path::PathBuf;

use landlock::{PathFdError, RulesetError};

/// A protection that could not be set up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LockError {
    /// A call of the kernel failed.
    #[error("{step}: {source}")]
    StepFailed { step: LockStep, source: io::Error },
    /// The configuration permits Landlock only.
    #[error("switched off")]
    NamespacesOff,
    #[error("an unprivileged user: the process is root and cannot become another")]
    StillRoot,
    #[error("Landlock: {0}")]
    Landlock(#[from] RulesetError),
    #[error("Landlock: {}: {source}", path.display())]
    LandlockPath { path: PathBuf, source: PathFdError },
    #[error("Landlock: {}: {source}", path.display())]
    LandlockRule { path: PathBuf, source: RulesetError },
    #[error("Landlock (Linux 5.13, and `landlock` among the kernel's security modules)")]
    LandlockNotEnforced,
    /// The configuration permits no Landlock.
    #[error("Landlock, which is switched off")]
    LandlockOff,
    /// Neither way to hide the machine's files works.
    #[error("namespaces ({namespaces}), and instead of them {landlock}")]
    NotIsolated { namespaces: Box<LockError>, landlock: Box<LockError> },
}

/// A step of the lock-down that is a call of the kernel.
#[derive(Clone, Debug)]
pub(crate) enum LockStep {
    JoinCgroup(PathBuf),
    SocketPair,
    Fork,
    RedirectStreams,
    LeaveRoot,
    SetDeathSignal,
    SetNoNewPrivileges,
    SetLimit(&'static str),
    InstallFilter,
    InstallFilterWithListener,
    SendListener,
    LeaveNamespaces,
    MapUser,
    MapGroup,
    OwnMounts,
    MountTmpfs,
    CreateFolder,
    CreateFile,
    Hide(PathBuf),
    Show(PathBuf),
    ShowReadOnly(PathBuf),
    Link(PathBuf),
    EnterNewRoot,
    PivotRoot,
    UnmountOldRoot,
    EnterRoot,
    RemountRoot,
    Start(PathBuf),
}

impl LockStep {
    /// The result of this step, with the step in its error.
    pub(crate) fn check<T>(self, result: Result<T, impl Into<io::Error>>) -> Result<T, LockError> {
        result.map_err(|error| self.into_error(error.into()))
    }

    pub(crate) fn into_error(self, source: io::Error) -> LockError {
        LockError::StepFailed { step: self, source }
    }
}

impl fmt::Display for LockStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            LockStep::SetLimit(name) => return write!(f, "the limit {name}"),
            LockStep::JoinCgroup(path) => return write!(f, "joining the cgroup {}", path.display()),
            LockStep::Hide(path) => return write!(f, "hiding {}", path.display()),
            LockStep::Show(path) => return write!(f, "showing {}", path.display()),
            LockStep::ShowReadOnly(path) => return write!(f, "showing {} read only", path.display()),
            LockStep::Link(path) => return write!(f, "a link at {}", path.display()),
            LockStep::Start(program) => return write!(f, "starting {}", program.display()),
            LockStep::SocketPair => "a pair of sockets",
            LockStep::Fork => "fork",
            LockStep::RedirectStreams => "the channel",
            LockStep::LeaveRoot => "leaving root",
            LockStep::SetDeathSignal => "the death signal",
            LockStep::SetNoNewPrivileges => "no_new_privs",
            LockStep::InstallFilter => "seccomp",
            LockStep::InstallFilterWithListener => "seccomp with notification (Linux 5.5)",
            LockStep::SendListener => "handing over the listener",
            LockStep::LeaveNamespaces => "user namespaces",
            LockStep::MapUser => "user namespaces: uid_map",
            LockStep::MapGroup => "user namespaces: gid_map",
            LockStep::OwnMounts => "mounts of its own",
            LockStep::MountTmpfs => "a tmpfs",
            LockStep::CreateFolder => "a folder",
            LockStep::CreateFile => "a file",
            LockStep::EnterNewRoot => "a new root",
            LockStep::PivotRoot => "pivot_root",
            LockStep::UnmountOldRoot => "the old root",
            LockStep::EnterRoot => "the new root",
            LockStep::RemountRoot => "a read-only root",
        };
        f.write_str(text)
    }
}
