//! The documentation pages of error codes, as files that an editor can open.
//!
//! The pages are part of the program. Each is written once, into the cache folder, when a diagnostic first links to it.

use std::collections::HashMap;
use std::path::PathBuf;

use flowloom_app::error_pages;
use flowloom_core::code::Code;
use lsp_types::Url;
use parking_lot::Mutex;

/// The pages that were written, by code; `None` for one that cannot be.
#[derive(Default)]
pub(super) struct ErrorPages {
    folder: Option<PathBuf>,
    written: Mutex<HashMap<Code, Option<Url>>>,
}

impl ErrorPages {
    /// Pages in the folder of this version below `$FLOWLOOM_CACHE`, else `$XDG_CACHE_HOME/flowloom`, else
    /// `~/.cache/flowloom`.
    pub(super) fn in_cache() -> ErrorPages {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let caches = || variable("XDG_CACHE_HOME").or_else(|| variable("HOME").map(|home| home.join(".cache")));
        let cache = variable("FLOWLOOM_CACHE").or_else(|| caches().map(|caches| caches.join("flowloom")));
        let folder = cache.map(|cache| cache.join("errors").join(env!("CARGO_PKG_VERSION")));
        ErrorPages { folder, written: Mutex::default() }
    }

    /// The address of a code's page; `None` if there is no place for it.
    pub(super) fn find_address(&self, code: Code) -> Option<Url> {
        let mut written = self.written.lock();
        written.entry(code).or_insert_with(|| self.write_page(code)).clone()
    }

    fn write_page(&self, code: Code) -> Option<Url> {
        let folder = self.folder.as_ref()?;
        let page = error_pages::find_page(code)?;
        let file = folder.join(format!("{code}.md"));
        if std::fs::read_to_string(&file).ok().as_deref() != Some(page) {
            std::fs::create_dir_all(folder).ok()?;
            std::fs::write(&file, page).ok()?;
        }
        Url::from_file_path(file).ok()
    }
}
