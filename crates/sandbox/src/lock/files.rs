//! Landlock: restricts which files a process can open. It replaces the minimal file system, or adds to it.

use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, LandlockStatus, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};

use super::error::LockError;
use crate::config::NEWEST_LANDLOCK_ABI;

/// The restrictions to request, by the version of Landlock that introduced them.
fn requested_abi(newest: u32) -> ABI {
    ABI::from(newest.min(NEWEST_LANDLOCK_ABI) as i32)
}

/// Requests every restriction of a version; those that the kernel does not support are left out, and the rest applies.
fn full_ruleset(abi: ABI) -> Result<RulesetCreated, RulesetError> {
    let mut rules = Ruleset::default().set_compatibility(CompatLevel::BestEffort);
    rules = rules.handle_access(AccessFs::from_all(abi))?;
    if !AccessNet::from_all(abi).is_empty() {
        rules = rules.handle_access(AccessNet::from_all(abi))?;
    }
    if !Scope::from_all(abi).is_empty() {
        rules = rules.scope(Scope::from_all(abi))?;
    }
    rules.create()
}

/// Enforces the rules and returns the version of Landlock that is in force.
fn enforce_rules(rules: RulesetCreated, abi: ABI) -> Result<u32, LockError> {
    let status = rules.restrict_self()?;
    match status.landlock {
        LandlockStatus::Available { effective_abi, .. } if status.ruleset != RulesetStatus::NotEnforced => {
            Ok(effective_abi.min(abi) as u32)
        }
        _ => Err(LockError::LandlockNotEnforced),
    }
}

/// Permits no file.
pub(crate) fn allow_nothing() -> Result<u32, LockError> {
    let abi = requested_abi(NEWEST_LANDLOCK_ABI);
    enforce_rules(full_ruleset(abi)?, abi)
}

/// Permits reading `read`, and reading and executing `run`, with the restrictions of Landlock up to the version `newest`.
/// Returns the version that is in force.
pub(crate) fn allow_only<'a>(
    newest: u32,
    read: impl Iterator<Item = &'a Path>,
    run: impl Iterator<Item = &'a Path>,
) -> Result<u32, LockError> {
    if newest == 0 {
        return Err(LockError::LandlockOff);
    }
    let abi = requested_abi(newest);
    let mut rules = full_ruleset(abi)?;
    let look = AccessFs::ReadFile | AccessFs::ReadDir;
    for path in read {
        rules = add_path_rule(rules, path, look)?;
    }
    for path in run {
        rules = add_path_rule(rules, path, look | AccessFs::Execute)?;
    }
    enforce_rules(rules, abi)
}

fn add_path_rule(rules: RulesetCreated, path: &Path, access: BitFlags<AccessFs>) -> Result<RulesetCreated, LockError> {
    let opened = PathFd::new(path).map_err(|source| LockError::LandlockPath { path: path.to_owned(), source })?;
    // A file has no entries to list.
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(ABI::V6) };
    let added = rules.add_rule(PathBeneath::new(opened, access));
    added.map_err(|source| LockError::LandlockRule { path: path.to_owned(), source })
}
