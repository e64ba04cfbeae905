//! Every planted bug is a patch of the present code.

use simulation::patches::{apply_patch, read_bugs, repository_root};

#[test]
fn every_planted_bug_can_be_planted() {
    let bugs = read_bugs().expect("headers");
    assert!(bugs.len() >= 15);
    let root = repository_root();
    let outdated: Vec<String> =
        bugs.iter().filter_map(|bug| apply_patch(&root, &bug.file, &["--check"]).err()).collect();
    assert!(outdated.is_empty(), "change these patches with the code that they break:\n{}", outdated.join("\n"));
}
