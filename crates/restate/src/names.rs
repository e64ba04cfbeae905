//! The names of a worker's services. They say whose runs it drives, because Restate gives a run to any worker that has its
//! service.

use flowloom_core::hash::Hash;

/// Number of hexadecimal digits of the hash of a configuration.
const CONFIG_DIGITS: usize = 12;

/// The beginning of the name of a workflow.
const WORKFLOW_PREFIX: &str = "FlowRun";

/// The services for the runs of one version of the interpreter, one database, one project and one configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunServices {
    /// The part of a service name after the kind.
    suffix: String,
}

impl RunServices {
    /// The services for runs with these engine semantics, in the database with this identity, of the project with this name,
    /// started under the configuration with this fingerprint. Both may be empty.
    pub fn new(engine_semantics: u32, database: &str, project: &str, config: &str) -> RunServices {
        let project = match project {
            "" => String::new(),
            name => format!("-{}", escape_name(name)),
        };
        // No name of a project contains a dot when it is escaped.
        let config = match config {
            "" => String::new(),
            config => format!(".{}", &Hash::of_bytes(config.as_bytes()).to_string()[..CONFIG_DIGITS]),
        };
        RunServices { suffix: format!("{engine_semantics}-{database}{project}{config}") }
    }

    /// The name of the workflow of a run.
    pub fn workflow_name(&self) -> String {
        format!("{WORKFLOW_PREFIX}{}", self.suffix)
    }

    /// Whether a call to this path may be meant for these services. The address of workers ends with the name of their
    /// workflow, and workers of several configurations can be behind one load balancer.
    pub(crate) fn may_serve_path(&self, path: &str) -> bool {
        let first = path.trim_start_matches('/').split('/').next().unwrap_or_default();
        !first.starts_with(WORKFLOW_PREFIX) || first == self.workflow_name()
    }

    /// The name of the service whose calls are the sessions of runs.
    pub(crate) fn session_name(&self) -> String {
        format!("FlowSession{}", self.suffix)
    }
}

/// A name with the characters that Restate allows. Different names stay different.
fn escape_name(name: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' => char::from(byte).to_string(),
        byte => format!("_{byte:02x}"),
    };
    name.bytes().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use flowloom_runtime::ENGINE_SEMANTICS;

    #[test]
    fn the_services_of_a_version_a_database_and_a_project_have_names_of_their_own() {
        let names = [(1, "5ca1ab1e", ""), (2, "5ca1ab1e", ""), (1, "0ddba11", ""), (1, "5ca1ab1e", "shop")]
            .map(|(semantics, database, project)| RunServices::new(semantics, database, project, "").workflow_name());
        assert_eq!(names, ["FlowRun1-5ca1ab1e", "FlowRun2-5ca1ab1e", "FlowRun1-0ddba11", "FlowRun1-5ca1ab1e-shop"]);
        let own = RunServices::new(ENGINE_SEMANTICS, "5ca1ab1e", "", "");
        assert_eq!(own.session_name(), format!("FlowSession{ENGINE_SEMANTICS}-5ca1ab1e"));
    }

    #[test]
    fn the_services_of_a_configuration_have_names_of_their_own() {
        let name = |project, config| RunServices::new(1, "5ca1ab1e", project, config).workflow_name();
        let names = [name("", ""), name("", "egress=1"), name("", "egress=2"), name("shop", "egress=1")];
        let distinct: std::collections::BTreeSet<&String> = names.iter().collect();
        assert_eq!(distinct.len(), names.len(), "{names:?}");
        assert_eq!(name("", "egress=1"), name("", "egress=1"));
    }

    #[test]
    fn a_call_for_other_services_is_not_served() {
        let services = RunServices::new(1, "5ca1ab1e", "", "egress=1");
        let own = format!("/{}/discover", services.workflow_name());
        let other = format!("/{}/discover", RunServices::new(1, "5ca1ab1e", "", "egress=2").workflow_name());
        assert!(services.may_serve_path(&own) && services.may_serve_path("/discover"));
        assert!(!services.may_serve_path(&other));
    }

    #[test]
    fn a_project_may_have_any_name() {
        assert_eq!(escape_name("my shop_ü"), "my_20shop_5f_c3_bc");
        assert_ne!(escape_name("a b"), escape_name("a_20b"));
    }
}
