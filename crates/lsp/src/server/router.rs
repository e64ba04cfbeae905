//! Which message does what.

use std::ops::ControlFlow;

use async_lsp::panic::CatchUnwindLayer;
use async_lsp::router::Router;
use async_lsp::server::LifecycleLayer;
use async_lsp::{ErrorCode, LspService, ResponseError};
use futures_util::future::BoxFuture;
use lsp_types::request::Request;
use lsp_types::{
    DidChangeWatchedFilesRegistrationOptions, FileSystemWatcher, GlobPattern, Registration, RegistrationParams,
    WorkspaceSymbolResponse, notification as note, request,
};
use tower_layer::Layer as _;

use super::actions::{lay_out, list_actions};
use super::capabilities::{choose_unit, describe_server};
use super::client::{ClientAbilities, ClientGone, watch_client};
use super::renames::rename_at;
use super::requests::CancellableRequests;
use super::state::{CheckEnded, LookForRuns, Snapshot, State};
use super::workspace::{change_folders, list_folders, search_symbols};
use super::{ConversationEnd, features, parts};

/// The result of handling a message.
type Flow = ControlFlow<async_lsp::Result<()>>;

/// The whole server as a service of the protocol library.
pub(super) fn build_service(
    state: State,
) -> impl LspService<Response = serde_json::Value, Error = ResponseError, Future: Send> {
    let mut router = Router::new(state);
    add_lifecycle(&mut router);
    add_documents(&mut router);
    add_features(&mut router);
    // Messages that only some servers understand are no failures.
    router.unhandled_notification(|_, _| ControlFlow::Continue(()));
    let service = CatchUnwindLayer::default().layer(router);
    LifecycleLayer::default().layer(CancellableRequests::new(service))
}

fn add_lifecycle(router: &mut Router<State>) {
    router.request::<request::Initialize, _>(|state, params| {
        state.unit = choose_unit(&params.capabilities);
        state.abilities = ClientAbilities::read(&params.capabilities);
        state.folders = list_folders(&params);
        watch_client(&state.client, &params);
        let answer = describe_server(state.unit);
        async move { Ok(answer) }
    });
    router.notification::<note::Initialized>(|state, _| {
        if state.abilities.can_watch {
            watch_files(state);
        }
        if state.abilities.can_refresh_lenses || state.abilities.can_refresh_hints {
            state.watch_runs();
        }
        ControlFlow::Continue(())
    });
    router.request::<request::Shutdown, _>(|state, ()| {
        let _ = state.end.set(ConversationEnd::Regular);
        async move { Ok(()) }
    });
    router.notification::<note::Exit>(|state, ()| {
        // Nothing, if there was a shutdown before.
        let _ = state.end.set(ConversationEnd::WithoutShutdown);
        ControlFlow::Break(Ok(()))
    });
    router.event::<ClientGone>(|_, _| -> Flow { ControlFlow::Break(Ok(())) });
}

/// Asks the editor to report changes of files that definitions are made of.
fn watch_files(state: &mut State) {
    let watcher =
        |pattern: &str| FileSystemWatcher { glob_pattern: GlobPattern::String(pattern.to_owned()), kind: None };
    let patterns = ["**/flowloom.toml", "**/*.json", "**/*.jsonc", "**/*.md", "**/*.mdx", "**/*.csv"];
    let options = DidChangeWatchedFilesRegistrationOptions { watchers: patterns.map(watcher).into() };
    let registration = Registration {
        id: "flowloom.files".to_owned(),
        method: "workspace/didChangeWatchedFiles".to_owned(),
        register_options: serde_json::to_value(options).ok(),
    };
    let client = state.client.clone();
    tokio::spawn(async move {
        // An editor that refuses reports saved files all the same.
        let _ = client
            .request::<request::RegisterCapability>(RegistrationParams { registrations: vec![registration] })
            .await;
    });
}

fn add_documents(router: &mut Router<State>) {
    router.notification::<note::DidOpenTextDocument>(|state, params| {
        let uri = params.text_document.uri.clone();
        if state.documents.open(params.text_document) {
            state.check_dependents(&uri);
        }
        ControlFlow::Continue(())
    });
    router.notification::<note::DidChangeTextDocument>(|state, params| {
        let (uri, version) = (params.text_document.uri, params.text_document.version);
        if state.documents.change(&uri, version, params.content_changes, state.unit) {
            state.check_dependents(&uri);
        }
        ControlFlow::Continue(())
    });
    router.notification::<note::DidSaveTextDocument>(|state, params| {
        // The file's own text is known; the saved file may be a configuration.
        if params.text_document.uri.path().ends_with(".toml") {
            state.check_all();
        }
        ControlFlow::Continue(())
    });
    router.notification::<note::DidCloseTextDocument>(|state, params| {
        state.close(&params.text_document.uri);
        ControlFlow::Continue(())
    });
    router.notification::<note::DidChangeWatchedFiles>(|state, params| {
        let is_known = |uri: &lsp_types::Url| state.documents.find(uri).is_some();
        // A new file may be one that a definition lacks, so every definition is checked.
        if params.changes.iter().any(|change| !is_known(&change.uri)) {
            state.check_all();
        }
        ControlFlow::Continue(())
    });
    router.notification::<note::DidChangeWorkspaceFolders>(|state, params| {
        state.folders = change_folders(&state.folders, &params.event);
        ControlFlow::Continue(())
    });
    router.notification::<note::DidChangeConfiguration>(|_, _| ControlFlow::Continue(()));
    router.event::<LookForRuns>(|state, _| -> Flow {
        state.look_for_runs();
        ControlFlow::Continue(())
    });
    router.event::<CheckEnded>(|state, ended| -> Flow {
        state.end_check(ended);
        ControlFlow::Continue(())
    });
}

fn add_features(router: &mut Router<State>) {
    router.request::<request::CodeActionRequest, _>(|state, params| {
        answer::<request::CodeActionRequest>(state, move |snapshot| list_actions(snapshot, &params))
    });
    router.request::<request::Formatting, _>(|state, params| {
        let uri = params.text_document.uri;
        answer::<request::Formatting>(state, move |snapshot| lay_out(snapshot, &uri))
    });
    router.request::<request::Completion, _>(|state, params| {
        answer::<request::Completion>(state, move |snapshot| features::complete(snapshot, &params))
    });
    router.request::<request::HoverRequest, _>(|state, params| {
        let at = params.text_document_position_params;
        answer::<request::HoverRequest>(state, move |snapshot| features::hover(snapshot, &at))
    });
    router.request::<request::GotoDefinition, _>(|state, params| {
        let at = params.text_document_position_params;
        answer::<request::GotoDefinition>(state, move |snapshot| features::find_definition(snapshot, &at))
    });
    router.request::<request::References, _>(|state, params| {
        let (at, with) = (params.text_document_position, params.context.include_declaration);
        answer::<request::References>(state, move |snapshot| features::find_references(snapshot, &at, with))
    });
    router.request::<request::DocumentHighlightRequest, _>(|state, params| {
        let at = params.text_document_position_params;
        answer::<request::DocumentHighlightRequest>(state, move |snapshot| features::highlight(snapshot, &at))
    });
    router.request::<request::PrepareRenameRequest, _>(|state, at| {
        answer::<request::PrepareRenameRequest>(state, move |snapshot| features::prepare_rename(snapshot, &at))
    });
    router.request::<request::Rename, _>(|state, params| {
        let answer = work_on_pool(state, move |snapshot| rename_at(snapshot, &params));
        async move { answer.await? }
    });
    add_parts(router);
}

/// Adds the requests for symbols, folds, colours, hints and lenses.
fn add_parts(router: &mut Router<State>) {
    router.request::<request::DocumentSymbolRequest, _>(|state, params| {
        let uri = params.text_document.uri;
        answer::<request::DocumentSymbolRequest>(state, move |snapshot| parts::list_symbols(snapshot, &uri))
    });
    router.request::<request::WorkspaceSymbolRequest, _>(|state, params| {
        answer::<request::WorkspaceSymbolRequest>(state, move |snapshot| {
            Some(WorkspaceSymbolResponse::Flat(search_symbols(snapshot, &params.query)))
        })
    });
    router.request::<request::FoldingRangeRequest, _>(|state, params| {
        let uri = params.text_document.uri;
        answer::<request::FoldingRangeRequest>(state, move |snapshot| parts::list_folding_ranges(snapshot, &uri))
    });
    router.request::<request::SemanticTokensFullRequest, _>(|state, params| {
        let uri = params.text_document.uri;
        answer::<request::SemanticTokensFullRequest>(state, move |snapshot| parts::list_semantic_tokens(snapshot, &uri))
    });
    router.request::<request::InlayHintRequest, _>(|state, params| {
        let (uri, range) = (params.text_document.uri, params.range);
        answer::<request::InlayHintRequest>(state, move |snapshot| parts::list_hints(snapshot, &uri, range))
    });
    router.request::<request::CodeLensRequest, _>(|state, params| {
        let uri = params.text_document.uri;
        answer::<request::CodeLensRequest>(state, move |snapshot| parts::list_lenses(snapshot, &uri))
    });
}

/// The answer to a request, when it is complete.
type Answer<T> = BoxFuture<'static, Result<T, ResponseError>>;

/// Answers a request on the pool.
fn answer<R: Request>(state: &State, work: impl FnOnce(&Snapshot) -> R::Result + Send + 'static) -> Answer<R::Result>
where
    R::Result: Send + 'static,
{
    work_on_pool(state, work)
}

fn work_on_pool<T: Send + 'static>(state: &State, work: impl FnOnce(&Snapshot) -> T + Send + 'static) -> Answer<T> {
    let snapshot = state.take_snapshot();
    let places = state.places.clone();
    Box::pin(async move {
        // A request that is cancelled while it waits costs nothing. The semaphore is never closed.
        let _place = places.acquire_owned().await;
        let done = tokio::task::spawn_blocking(move || work(&snapshot)).await;
        done.map_err(|_| ResponseError::new(ErrorCode::INTERNAL_ERROR, "the answer could not be computed"))
    })
}
