//! Tests of who may use which secret where.

use super::*;
use flowloom_tools::egress::HostPort;

fn secrets() -> EnvironmentSecrets {
    let bound = |hosts: &[&str], users: &[&str], workflows: &[&str]| {
        let list = |items: &[&str]| items.iter().map(|&item| item.to_owned()).collect();
        SecretSettings { hosts: list(hosts), users: list(users), workflows: list(workflows), webhooks: false }
    };
    let settings = BTreeMap::from([
        ("SHOP".to_owned(), bound(&["shop.example"], &["ann"], &[])),
        ("LOOSE".to_owned(), bound(&[], &["ann"], &[])),
        ("ORDERS".to_owned(), bound(&[], &[], &["orders", "flows/orders.json"])),
    ]);
    EnvironmentSecrets { settings }
}

fn definition_of(tenant: Option<&str>) -> DefinitionIdentity {
    DefinitionIdentity {
        tenant: tenant.map(str::to_owned),
        file: "/srv/flows/orders.json".to_owned(),
        id: Some("sales".to_owned()),
        is_steered: false,
    }
}

/// Why a definition may not send a secret to a host.
fn deny_sending(name: &str, tenant: Option<&str>, host: &str) -> Option<SecretError> {
    let place = HostPort::parse(host).expect("a host");
    let definition = definition_of(tenant);
    let purpose =
        SecretPurpose { requester: Requester::Definition(&definition), destination: Destination::Host(&place) };
    secrets().check_purpose(name, &purpose).err()
}

#[test]
fn a_secret_goes_to_its_hosts_only() {
    for tenant in [None, Some("ann")] {
        assert_eq!(deny_sending("SHOP", tenant, "shop.example:443"), None);
        let denied = deny_sending("SHOP", tenant, "evil.example:443");
        assert!(matches!(denied, Some(SecretError::OtherHost { .. })), "{denied:?}");
    }
}

#[test]
fn definitions_of_users_use_secrets_that_list_them() {
    assert!(matches!(deny_sending("SHOP", Some("bob"), "shop.example:443"), Some(SecretError::OtherUser { .. })));
    assert!(matches!(deny_sending("UNLISTED", Some("ann"), "shop.example:443"), Some(SecretError::OtherUser { .. })));
    assert!(matches!(deny_sending("LOOSE", Some("ann"), "shop.example:443"), Some(SecretError::NoHosts { .. })));
    assert_eq!(deny_sending("UNLISTED", None, "shop.example:443"), None);
}

#[test]
fn a_run_with_chosen_values_uses_secrets_with_hosts() {
    let definition = DefinitionIdentity { is_steered: true, ..definition_of(None) };
    let place = HostPort::parse("shop.example:443").expect("a host");
    let purpose =
        SecretPurpose { requester: Requester::Definition(&definition), destination: Destination::Host(&place) };
    assert!(secrets().check_purpose("SHOP", &purpose).is_ok());
    assert!(matches!(secrets().check_purpose("UNLISTED", &purpose), Err(SecretError::NoHosts { .. })));
}

#[test]
fn a_secret_of_a_workflow_is_not_available_to_others() {
    assert_eq!(deny_sending("ORDERS", None, "shop.example:443"), None, "the end of the path is listed");
    let other = DefinitionIdentity { file: "other.json".to_owned(), ..definition_of(None) };
    let place = HostPort::parse("shop.example:443").expect("a host");
    let purpose = SecretPurpose { requester: Requester::Definition(&other), destination: Destination::Host(&place) };
    let denied = secrets().check_purpose("ORDERS", &purpose);
    assert!(matches!(denied, Err(SecretError::OtherWorkflow { .. })), "{denied:?}");
}

#[test]
fn a_bound_secret_does_not_go_into_files() {
    let definition = definition_of(None);
    let to_file = |name: &str, requester| {
        secrets().check_purpose(name, &SecretPurpose { requester, destination: Destination::Machine }).is_ok()
    };
    assert!(!to_file("SHOP", Requester::Definition(&definition)));
    assert!(to_file("UNLISTED", Requester::Definition(&definition)));
    assert!(to_file("SHOP", Requester::Configuration), "the configuration hands secrets to MCP servers");
}
