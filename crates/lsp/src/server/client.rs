//! The editor: what it can do, and whether it is still there.

use std::time::Duration;

use async_lsp::ClientSocket;
use lsp_types::request::{CodeLensRefresh, InlayHintRefreshRequest, SemanticTokensRefresh};
use lsp_types::{ClientCapabilities, InitializeParams};

/// How often the server looks whether the editor is still there.
const CLIENT_INTERVAL: Duration = Duration::from_secs(2);

/// The process of the editor is gone.
pub(super) struct ClientGone;

/// The capabilities of the editor.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ClientAbilities {
    /// It can be asked to watch files.
    pub(super) can_watch: bool,
    /// It can be asked to read lenses again.
    pub(super) can_refresh_lenses: bool,
    /// It can be asked to read inlay hints again.
    pub(super) can_refresh_hints: bool,
    /// It can be asked to read the tokens again.
    pub(super) can_refresh_tokens: bool,
    /// It understands edits of versions of documents.
    pub(super) has_document_changes: bool,
}

impl ClientAbilities {
    pub(super) fn read(capabilities: &ClientCapabilities) -> ClientAbilities {
        let Some(workspace) = &capabilities.workspace else { return ClientAbilities::default() };
        let watched = workspace.did_change_watched_files.as_ref();
        let (lenses, hints) = (workspace.code_lens.as_ref(), workspace.inlay_hint.as_ref());
        let (tokens, edits) = (workspace.semantic_tokens.as_ref(), workspace.workspace_edit.as_ref());
        let is_set = |set: Option<bool>| set.unwrap_or_default();
        ClientAbilities {
            can_watch: is_set(watched.and_then(|watched| watched.dynamic_registration)),
            can_refresh_lenses: is_set(lenses.and_then(|lenses| lenses.refresh_support)),
            can_refresh_hints: is_set(hints.and_then(|hints| hints.refresh_support)),
            can_refresh_tokens: is_set(tokens.and_then(|tokens| tokens.refresh_support)),
            has_document_changes: is_set(edits.and_then(|edits| edits.document_changes)),
        }
    }

    /// Asks the editor to refresh the information about runs.
    pub(super) fn refresh_runs(self, client: &ClientSocket) {
        let client = client.clone();
        tokio::spawn(async move {
            // An editor that refuses shows the old ones until they are asked for again.
            if self.can_refresh_lenses {
                let _ = client.request::<CodeLensRefresh>(()).await;
            }
            if self.can_refresh_hints {
                let _ = client.request::<InlayHintRefreshRequest>(()).await;
            }
        });
    }

    /// Asks the editor to read again everything that is shown around a text.
    pub(super) fn refresh_all(self, client: &ClientSocket) {
        self.refresh_runs(client);
        if self.can_refresh_tokens {
            let client = client.clone();
            tokio::spawn(async move {
                let _ = client.request::<SemanticTokensRefresh>(()).await;
            });
        }
    }
}

/// Notifies the server when the process of the editor has ended: an editor that crashed does not always close the
/// streams.
pub(super) fn watch_client(client: &ClientSocket, params: &InitializeParams) {
    // Of a process that cannot be seen, for example from a container, nothing is known.
    let Some(process) = params.process_id.filter(|process| is_running(*process)) else { return };
    let client = client.clone();
    tokio::spawn(async move {
        let mut interval = tokio::time::interval(CLIENT_INTERVAL);
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while is_running(process) {
            interval.tick().await;
        }
        // Without a receiver, the server has ended.
        let _ = client.emit(ClientGone);
    });
}

/// Whether there is a process with this number.
fn is_running(process: u32) -> bool {
    let Some(process) = i32::try_from(process).ok().and_then(rustix::process::Pid::from_raw) else { return false };
    // A process of another user refuses the signal, and therefore exists.
    rustix::process::test_kill_process(process) != Err(rustix::io::Errno::SRCH)
}
