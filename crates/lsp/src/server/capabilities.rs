//! The capabilities that the server announces to an editor. Only working features are listed.

use lsp_types::{
    ClientCapabilities, CodeActionKind, CodeActionOptions, CodeActionProviderCapability, CodeLensOptions,
    CompletionOptions, FoldingRangeProviderCapability, HoverProviderCapability, InitializeResult, OneOf,
    PositionEncodingKind, RenameOptions, SaveOptions, SemanticTokenModifier, SemanticTokenType,
    SemanticTokensFullOptions, SemanticTokensLegend, SemanticTokensOptions, ServerCapabilities, ServerInfo,
    TextDocumentSyncCapability, TextDocumentSyncKind, TextDocumentSyncOptions, TextDocumentSyncSaveOptions,
    WorkDoneProgressOptions, WorkspaceFoldersServerCapabilities, WorkspaceServerCapabilities,
};

use crate::analysis::lines::ColumnUnit;
use crate::analysis::tokens::TOKEN_KINDS;

/// The unit of columns that both sides know; UTF-8, if the editor can, because the texts are.
pub(super) fn choose_unit(client: &ClientCapabilities) -> ColumnUnit {
    let known = client.general.as_ref().and_then(|general| general.position_encodings.as_ref());
    let has_utf8 = known.is_some_and(|known| known.contains(&PositionEncodingKind::UTF8));
    if has_utf8 { ColumnUnit::Utf8 } else { ColumnUnit::Utf16 }
}

/// The answer to an editor's first message.
pub(super) fn describe_server(unit: ColumnUnit) -> InitializeResult {
    let sync = TextDocumentSyncOptions {
        open_close: Some(true),
        change: Some(TextDocumentSyncKind::INCREMENTAL),
        save: Some(TextDocumentSyncSaveOptions::SaveOptions(SaveOptions { include_text: Some(false) })),
        ..TextDocumentSyncOptions::default()
    };
    let actions = CodeActionOptions {
        code_action_kinds: Some(vec![CodeActionKind::QUICKFIX, CodeActionKind::SOURCE_FIX_ALL]),
        ..CodeActionOptions::default()
    };
    let capabilities = ServerCapabilities {
        position_encoding: Some(match unit {
            ColumnUnit::Utf8 => PositionEncodingKind::UTF8,
            ColumnUnit::Utf16 => PositionEncodingKind::UTF16,
        }),
        text_document_sync: Some(TextDocumentSyncCapability::Options(sync)),
        code_action_provider: Some(CodeActionProviderCapability::Options(actions)),
        completion_provider: Some(CompletionOptions {
            trigger_characters: Some(["\"", "{", ".", "<", ":", "$"].map(str::to_owned).into()),
            ..CompletionOptions::default()
        }),
        hover_provider: Some(HoverProviderCapability::Simple(true)),
        definition_provider: Some(OneOf::Left(true)),
        references_provider: Some(OneOf::Left(true)),
        document_highlight_provider: Some(OneOf::Left(true)),
        rename_provider: Some(OneOf::Right(RenameOptions {
            prepare_provider: Some(true),
            work_done_progress_options: WorkDoneProgressOptions::default(),
        })),
        document_formatting_provider: Some(OneOf::Left(true)),
        document_symbol_provider: Some(OneOf::Left(true)),
        workspace_symbol_provider: Some(OneOf::Left(true)),
        workspace: Some(WorkspaceServerCapabilities {
            workspace_folders: Some(WorkspaceFoldersServerCapabilities {
                supported: Some(true),
                change_notifications: Some(OneOf::Left(true)),
            }),
            ..WorkspaceServerCapabilities::default()
        }),
        folding_range_provider: Some(FoldingRangeProviderCapability::Simple(true)),
        semantic_tokens_provider: Some(describe_tokens().into()),
        inlay_hint_provider: Some(OneOf::Left(true)),
        code_lens_provider: Some(CodeLensOptions { resolve_provider: Some(false) }),
        ..ServerCapabilities::default()
    };
    let version = Some(env!("CARGO_PKG_VERSION").to_owned());
    InitializeResult { capabilities, server_info: Some(ServerInfo { name: "flowloom".to_owned(), version }) }
}

/// The kinds of semantic tokens, by their numbers.
fn describe_tokens() -> SemanticTokensOptions {
    SemanticTokensOptions {
        legend: SemanticTokensLegend {
            token_types: TOKEN_KINDS.map(SemanticTokenType::new).into(),
            token_modifiers: vec![SemanticTokenModifier::DECLARATION],
        },
        full: Some(SemanticTokensFullOptions::Bool(true)),
        ..SemanticTokensOptions::default()
    }
}
