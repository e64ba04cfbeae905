//! Requests to addresses that must not be reached. As root, the test runs in a network namespace of its own, in which
//! the addresses of private networks, link-local services and the names of `hosts` exist; elsewhere on loopback.

use std::os::unix::fs::MetadataExt as _;
use std::process::Command;

use crate::run_on;
use crate::world::World;

/// Set in the process that runs inside of the network namespace.
const INSIDE_VARIABLE: &str = "ATTACKS_IN_NETWORK_NAMESPACE";

/// Prepares the namespace, then runs the program in its arguments.
const PREPARE_NAMESPACE: &str = r#"
set -e
ip link set lo up
for address in 10.0.0.5 172.16.0.9 192.168.1.1 169.254.169.254 100.64.0.1 198.18.0.1 192.0.0.8; do
    ip address add $address/32 dev lo
done
for address in fd00::5 fe80::5 fd00:ec2::254 64:ff9b::7f00:1; do
    ip address add $address/128 dev lo nodad || true
done
mount --bind "$HOSTS_FILE" /etc/hosts
exec "$0" "$@"
"#;

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// A command in a network namespace of its own.
fn enter_namespace(program: &std::path::Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--net", "--mount", "sh", "-c", PREPARE_NAMESPACE]).arg(program).args(arguments);
    command.env("HOSTS_FILE", crate::corpus::corpus_folder().join("hosts")).env(INSIDE_VARIABLE, "1");
    command
}

#[test]
#[allow(clippy::print_stdout)]
fn ssrf() {
    if std::env::var_os(INSIDE_VARIABLE).is_some() {
        return run_on(&World::start(None, &[80, 443]), "ssrf");
    }
    let can_enter = enter_namespace("true".as_ref(), &[]).output().is_ok_and(|output| output.status.success());
    if !is_root() || !can_enter {
        println!("SKIP the network namespace: the addresses of other networks do not exist on this machine");
        return run_on(&World::start(None, &[]), "ssrf");
    }
    let own = std::env::current_exe().expect("this program");
    let output = enter_namespace(&own, &["--exact", "ssrf::ssrf", "--nocapture"]).output().expect("it runs");
    let printed = [output.stdout.as_slice(), &output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&printed));
}
