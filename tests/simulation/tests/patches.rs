//! Every planted bug is a patch of the present code.

use simulation::patches::{PlantedBug, apply_patch, read_bugs, repository_root};

#[test]
fn every_planted_bug_can_be_planted() {
    let bugs = read_bugs().expect("headers");
    assert!(bugs.len() >= 15);
    let root = repository_root();
    let outdated: Vec<String> =
        bugs.iter().filter_map(|bug| apply_patch(&root, &bug.file, &["--check"]).err()).collect();
    assert!(outdated.is_empty(), "change these patches with the code that they break:\n{}", outdated.join("\n"));
}

#[test]
fn the_documentation_lists_every_bug() {
    let page = std::fs::read_to_string(repository_root().join("docs/reliability.md")).expect("the page");
    let rows: Vec<_> = read_bugs().expect("headers").iter().map(PlantedBug::table_row).collect();
    let missing: Vec<_> = rows.iter().filter(|row| !page.lines().any(|line| line == **row)).collect();
    assert!(missing.is_empty(), "add to docs/reliability.md:\n{missing:#?}");
    let listed =
        page.lines().filter(|line| line.ends_with("| simulation |") || line.ends_with("| tests of the store |"));
    assert_eq!(listed.count(), rows.len(), "docs/reliability.md lists bugs that no longer exist");
}
