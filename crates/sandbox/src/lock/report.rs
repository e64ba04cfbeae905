//! The report of a worker about its protections, for `flowloom doctor`.

use serde::{Deserialize, Serialize};

use crate::config::Protection;

/// The protections that a worker found when it locked itself down. Unmentioned ones are active, or no code runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LockReport {
    /// Why it has no namespaces of its own; `None` if it has.
    pub(crate) namespaces_missing: Option<String>,
    /// The version of Landlock that restricts it; 0 for none.
    pub(crate) landlock_abi: u32,
    /// The id of its user, outside of its namespaces.
    pub(crate) user_id: u32,
    /// Whether no other process has this user.
    pub(crate) has_own_user: bool,
    /// Why the kernel does not end it first when memory runs out.
    pub(crate) kill_preference_missing: Option<String>,
    /// The cgroup that it has joined.
    pub(crate) cgroup: Option<String>,
}

/// The version of Landlock that restricts signals.
const SIGNAL_SCOPE_ABI: u32 = 6;

impl LockReport {
    /// How the files of the machine are hidden, in a few words.
    pub(crate) fn describe_isolation(&self) -> String {
        match &self.namespaces_missing {
            None => "namespaces".to_owned(),
            Some(missing) => format!("Landlock; namespaces: {missing}"),
        }
    }

    /// All protections, the active and the missing ones.
    pub(crate) fn list_protections(&self) -> Vec<Protection> {
        vec![
            self.describe_namespaces(),
            active("seccomp", "system calls by name, with checked arguments; no writable and executable memory"),
            self.describe_landlock(),
            self.describe_signal_scope(),
            self.describe_user(),
            active("no new privileges", "no program gains rights (no_new_privs)"),
            active("limits", "memory, processor time, files, processes"),
            self.kill_preference(),
            self.cgroup(),
        ]
    }

    fn describe_namespaces(&self) -> Protection {
        let name = "namespaces";
        match &self.namespaces_missing {
            None => active(name, "processes, network and files of its own"),
            Some(missing) => absent(
                name,
                missing,
                "allow unprivileged user namespaces, or start the program as root with CAP_SYS_ADMIN",
            ),
        }
    }

    fn describe_landlock(&self) -> Protection {
        match self.landlock_abi {
            0 => absent(
                "Landlock",
                "the kernel has none",
                "use Linux 5.13 or newer with `landlock` in the kernel parameter lsm",
            ),
            abi => active("Landlock", format!("ABI {abi}")),
        }
    }

    fn describe_signal_scope(&self) -> Protection {
        let name = "signal scope";
        match (&self.namespaces_missing, self.landlock_abi) {
            (None, _) => active(name, "a process namespace"),
            (_, SIGNAL_SCOPE_ABI..) => active(name, "Landlock"),
            _ => absent(
                name,
                "only seccomp keeps signals from processes of the same user",
                "allow namespaces, or use Linux 6.12 or newer",
            ),
        }
    }

    fn describe_user(&self) -> Protection {
        let (name, id) = ("own user", self.user_id);
        if self.has_own_user {
            return active(name, format!("each worker has a user id of its own, such as {id}"));
        }
        let advice = "start the program as root with CAP_SETUID and CAP_SETGID, with the ids from 2100000000 on free";
        absent(name, format!("workers share the user id {id} with other processes"), advice)
    }

    fn kill_preference(&self) -> Protection {
        let name = "memory shortage";
        match &self.kill_preference_missing {
            None => active(name, "the kernel ends workers first (oom_score_adj)"),
            Some(missing) => absent(name, missing, "mount /proc, with write access to /proc/self/oom_score_adj"),
        }
    }

    fn cgroup(&self) -> Protection {
        match &self.cgroup {
            Some(path) => active("cgroup", path),
            None => absent(
                "cgroup",
                "none is configured",
                "to bound all workers together, set cgroup in [sandbox] (docs/sandbox.md)",
            ),
        }
    }
}

fn active(name: &'static str, detail: impl Into<String>) -> Protection {
    Protection { name, is_active: true, detail: detail.into(), advice: None }
}

fn absent(name: &'static str, detail: impl Into<String>, advice: &'static str) -> Protection {
    Protection { name, is_active: false, detail: detail.into(), advice: Some(advice) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of the missing protections.
    fn list_missing(report: &LockReport) -> Vec<&'static str> {
        let missing = report.list_protections().into_iter().filter(|protection| !protection.is_active);
        missing.map(|protection| protection.name).collect()
    }

    #[test]
    fn what_is_missing_is_listed_with_advice() {
        let all = LockReport {
            landlock_abi: 6,
            has_own_user: true,
            cgroup: Some("/sys/fs/cgroup/workers".to_owned()),
            ..LockReport::default()
        };
        assert_eq!(list_missing(&all), Vec::<&str>::new());
        let none = LockReport {
            namespaces_missing: Some("EPERM".to_owned()),
            kill_preference_missing: Some("no /proc".to_owned()),
            ..LockReport::default()
        };
        let expected = ["namespaces", "Landlock", "signal scope", "own user", "memory shortage", "cgroup"];
        assert_eq!(list_missing(&none), expected);
        let listed = none.list_protections();
        assert!(listed.iter().all(|protection| protection.is_active == protection.advice.is_none()));
        // A process namespace restricts signals, too, and so does Landlock from version 6 on.
        assert!(!list_missing(&LockReport { namespaces_missing: None, ..none.clone() }).contains(&"signal scope"));
        assert!(list_missing(&LockReport { landlock_abi: 5, ..none.clone() }).contains(&"signal scope"));
        assert!(!list_missing(&LockReport { landlock_abi: 6, ..none }).contains(&"signal scope"));
    }
}
