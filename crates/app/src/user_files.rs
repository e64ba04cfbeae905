//! The files that functions can access, as `[files]` and the quotas say.

use std::sync::Arc;

use flowloom_store::{Quota, SHARED_USER};
use flowloom_tools::UserFiles;

use crate::config::Config;

/// The files of all users; `None` if no folder is configured. Files that all users share have no quota.
pub(crate) fn build_user_files(config: &Config) -> Option<UserFiles> {
    let files = UserFiles::new(config.files_root.clone()?);
    if !config.files_per_user {
        return Some(files);
    }
    let quotas = config.quotas.clone();
    let limit = move |user: &str| quotas.find_limit(user, Quota::FileBytes);
    Some(files.with_operator(SHARED_USER).with_limit(Arc::new(limit)))
}
