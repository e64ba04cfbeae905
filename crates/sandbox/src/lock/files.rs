//! Landlock: restricts which files a process can open. It replaces the minimal file system, or adds to it.

use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};

use super::MissingFeature;

/// Requests every restriction; those that the kernel does not support are left out, and the rest applies.
fn full_ruleset() -> Result<RulesetCreated, RulesetError> {
    let abi = ABI::V6;
    Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(abi))?
        .handle_access(AccessNet::from_all(abi))?
        .scope(Scope::from_all(abi))?
        .create()
}

fn enforce_rules(rules: RulesetCreated) -> Result<(), MissingFeature> {
    let status = rules.restrict_self().map_err(|error| format!("Landlock: {error}"))?;
    if status.ruleset == RulesetStatus::NotEnforced {
        return Err("Landlock (Linux 5.13, and `landlock` among the kernel's security modules)".to_owned());
    }
    Ok(())
}

/// Permits no file.
pub(crate) fn allow_nothing() -> Result<(), MissingFeature> {
    enforce_rules(full_ruleset().map_err(|error| format!("Landlock: {error}"))?)
}

/// Permits reading `read`, and reading and executing `run`.
pub(crate) fn allow_only<'a>(
    read: impl Iterator<Item = &'a Path>,
    run: impl Iterator<Item = &'a Path>,
) -> Result<(), MissingFeature> {
    let mut rules = full_ruleset().map_err(|error| format!("Landlock: {error}"))?;
    let look = AccessFs::ReadFile | AccessFs::ReadDir;
    let of = |path, access| (path, access);
    for (path, access) in read.map(|path| of(path, look)).chain(run.map(|path| of(path, look | AccessFs::Execute))) {
        rules = add_path_rule(rules, path, access).map_err(|error| format!("Landlock: {}: {error}", path.display()))?;
    }
    enforce_rules(rules)
}

fn add_path_rule(rules: RulesetCreated, path: &Path, access: BitFlags<AccessFs>) -> Result<RulesetCreated, String> {
    let opened = PathFd::new(path).map_err(|error| error.to_string())?;
    // A file has no entries to list.
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(ABI::V6) };
    rules.add_rule(PathBeneath::new(opened, access)).map_err(|error| error.to_string())
}
