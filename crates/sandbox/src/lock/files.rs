//! Landlock: restricts which files a process can open. It replaces the minimal file system, or adds to it.

use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};

use super::error::LockError;

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

fn enforce_rules(rules: RulesetCreated) -> Result<(), LockError> {
    let status = rules.restrict_self()?;
    if status.ruleset == RulesetStatus::NotEnforced {
        return Err(LockError::LandlockNotEnforced);
    }
    Ok(())
}

/// Permits no file.
pub(crate) fn allow_nothing() -> Result<(), LockError> {
    enforce_rules(full_ruleset()?)
}

/// Permits reading `read`, and reading and executing `run`.
pub(crate) fn allow_only<'a>(
    read: impl Iterator<Item = &'a Path>,
    run: impl Iterator<Item = &'a Path>,
) -> Result<(), LockError> {
    let mut rules = full_ruleset()?;
    let look = AccessFs::ReadFile | AccessFs::ReadDir;
    let of = |path, access| (path, access);
    for (path, access) in read.map(|path| of(path, look)).chain(run.map(|path| of(path, look | AccessFs::Execute))) {
        rules = add_path_rule(rules, path, access)?;
    }
    enforce_rules(rules)
}

fn add_path_rule(rules: RulesetCreated, path: &Path, access: BitFlags<AccessFs>) -> Result<RulesetCreated, LockError> {
    let opened = PathFd::new(path).map_err(|source| LockError::LandlockPath { path: path.to_owned(), source })?;
    // A file has no entries to list.
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(ABI::V6) };
    let added = rules.add_rule(PathBeneath::new(opened, access));
    added.map_err(|source| LockError::LandlockRule { path: path.to_owned(), source })
}
