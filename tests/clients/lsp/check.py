"""Drives `flowloom lsp` with pygls, as an editor does. Prints what it sees, one line for each thing.

    check.py PROGRAM FOLDER
"""

import asyncio
import json
import sys
from pathlib import Path

from lsprotocol import types
from pygls.lsp.client import LanguageClient

FLOW = """{
  "name": "weather",
  "steps": [
    {"type": "start", "config": {"variables": [{"name": "city", "value": "Oslo"}]}},
    {"type": "llmInstruction", "config": {"instruction": "Weather of ${city}", "resultVariabl": "report"}}
  ]
}
"""
POEM = """---
input:
  topic: {type: text, default: tides}
---

Write about {topic}. {include('style')}

<GenText as="poem" model="scripted:echo" />
"""
SECONDS = 60


class Editor:
    """An editor with one server."""

    def __init__(self):
        self.client = LanguageClient("flowloom-tests", "1")
        self.diagnostics = {}
        self.published = asyncio.Event()
        self.refreshed = asyncio.Event()

        @self.client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def on_diagnostics(params):
            self.diagnostics[params.uri] = params
            self.published.set()

        @self.client.feature(types.WORKSPACE_CODE_LENS_REFRESH)
        def on_refresh(params):
            self.refreshed.set()

        @self.client.feature(types.CLIENT_REGISTER_CAPABILITY)
        def on_register(params):
            print("watches", params.registrations[0].method)

    async def start(self, program, folder):
        self.program = program
        await self.client.start_io(program, "lsp", "--stdio", cwd=str(folder))
        capabilities = types.ClientCapabilities(
            workspace=types.WorkspaceClientCapabilities(
                did_change_watched_files=types.DidChangeWatchedFilesClientCapabilities(dynamic_registration=True),
                code_lens=types.CodeLensWorkspaceClientCapabilities(refresh_support=True),
            )
        )
        answer = await self.client.initialize_async(
            types.InitializeParams(capabilities=capabilities, root_uri=folder.as_uri())
        )
        print("server", answer.server_info.name, "counts in", answer.capabilities.position_encoding)
        self.client.initialized(types.InitializedParams())

    def open(self, path, language, text):
        path.write_text(text)
        item = types.TextDocumentItem(uri=path.as_uri(), language_id=language, version=1, text=text)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(text_document=item))
        return path.as_uri()

    def replace(self, uri, version, line, columns, text):
        start, end = columns
        place = types.Range(start=types.Position(line, start), end=types.Position(line, end))
        change = types.TextDocumentContentChangePartial(range=place, text=text)
        document = types.VersionedTextDocumentIdentifier(uri=uri, version=version)
        self.client.text_document_did_change(
            types.DidChangeTextDocumentParams(text_document=document, content_changes=[change])
        )

    async def wait_for(self, uri, version, title):
        """Waits for the diagnostics of a version."""
        while uri not in self.diagnostics or (self.diagnostics[uri].version or version) < version:
            self.published.clear()
            await self.published.wait()
        found = self.diagnostics[uri].diagnostics
        for one in found:
            message = one.message.splitlines()[0]
            place = f"{one.range.start.line}:{one.range.start.character}"
            page = Path(one.code_description.href).name if one.code_description else "no page"
            print(f"{title}: {one.severity.name} {one.code} at {place}, {page}: {message}")
        if not found:
            print(f"{title}: no problems")


def at(uri, line, column):
    document = types.TextDocumentIdentifier(uri=uri)
    return {"text_document": document, "position": types.Position(line, column)}


async def check_flow(editor, folder):
    uri = editor.open(folder / "weather.json", "json", FLOW)
    await editor.wait_for(uri, 1, "flow")
    document = types.TextDocumentIdentifier(uri=uri)
    whole = types.Range(start=types.Position(0, 0), end=types.Position(7, 0))
    context = types.CodeActionContext(diagnostics=[])
    actions = await editor.client.text_document_code_action_async(
        types.CodeActionParams(text_document=document, range=whole, context=context)
    )
    for action in actions:
        print("action", action.kind, action.title)
    edit = actions[0].edit.changes[uri][0]
    line, start, end = edit.range.start.line, edit.range.start.character, edit.range.end.character
    editor.replace(uri, 2, line, (start, end), edit.new_text)
    await editor.wait_for(uri, 2, "fixed flow")
    fixed = FLOW.replace("resultVariabl", "resultVariable")
    (folder / "weather.json").write_text(fixed)
    run = await asyncio.create_subprocess_exec(
        editor.program, "run", "weather.json", cwd=folder, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
    )
    print("run ends with", await run.wait())
    column = FLOW.splitlines()[4].index("${city}") + 3
    hover = await editor.client.text_document_hover_async(types.HoverParams(**at(uri, 4, column)))
    print("hover", hover.contents.value.replace("\n\n", " | "))
    edit = await editor.client.text_document_rename_async(types.RenameParams(**at(uri, 4, column), new_name="town"))
    print("rename", sorted((one.range.start.line, one.new_text) for one in edit.changes[uri]))
    found = await editor.client.text_document_references_async(
        types.ReferenceParams(**at(uri, 4, column), context=types.ReferenceContext(include_declaration=True))
    )
    print("references", [place.range.start.line for place in found])
    tokens = await editor.client.text_document_semantic_tokens_full_async(
        types.SemanticTokensParams(text_document=document)
    )
    print("tokens", len(tokens.data) // 5)
    options = types.FormattingOptions(tab_size=2, insert_spaces=True)
    edits = await editor.client.text_document_formatting_async(
        types.DocumentFormattingParams(text_document=document, options=options)
    )
    print("formatting begins with", edits[0].new_text.splitlines()[:2])
    (folder / "tests").mkdir()
    (folder / "tests" / "weather.json").write_text('{"name": "t", "definition": "../weather.json"}')
    lenses = await editor.client.text_document_code_lens_async(types.CodeLensParams(text_document=document))
    print("lenses", [lens.command.title for lens in lenses])
    editor.refreshed.clear()
    again = await asyncio.create_subprocess_exec(
        editor.program, "run", "weather.json", "--budget", "tokens=1", cwd=folder,
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
    )
    print("run ends with", await again.wait())
    while "✗" not in lenses[2].command.title:
        await editor.refreshed.wait()
        editor.refreshed.clear()
        lenses = await editor.client.text_document_code_lens_async(types.CodeLensParams(text_document=document))
    print("lenses again", [lens.command.title for lens in lenses])
    hints = await editor.client.text_document_inlay_hint_async(
        types.InlayHintParams(text_document=document, range=whole)
    )
    print("hints", [hint.label for hint in hints])
    folds = await editor.client.text_document_folding_range_async(types.FoldingRangeParams(text_document=document))
    print("folds", [(fold.start_line, fold.end_line) for fold in folds])
    symbols = await editor.client.text_document_document_symbol_async(
        types.DocumentSymbolParams(text_document=document)
    )
    print("symbols", [(one.name, [child.name for child in one.children]) for one in symbols])


async def check_markdown(editor, folder):
    style = editor.open(folder / "style.mdx", "mdx", "Rhyme about {topic}.\n")
    uri = editor.open(folder / "poem.mdx", "mdx", POEM)
    await editor.wait_for(uri, 1, "poem")
    # What is open counts, not what is on the disk.
    editor.replace(style, 2, 0, (12, 19), "{topics}")
    while not editor.diagnostics.get(style) or not editor.diagnostics[style].diagnostics:
        editor.published.clear()
        await editor.published.wait()
    print("included", editor.diagnostics[style].diagnostics[0].message.splitlines()[0])
    editor.replace(style, 3, 0, (12, 20), "{topic}")
    while editor.diagnostics[style].diagnostics:
        editor.published.clear()
        await editor.published.wait()
    edit = await editor.client.text_document_rename_async(types.RenameParams(**at(uri, 5, 14), new_name="subject"))
    print("rename", sorted((Path(file).name, len(edits)) for file, edits in edit.changes.items()))
    items = await editor.client.text_document_completion_async(types.CompletionParams(**at(uri, 5, 13)))
    print("completion", [item.label for item in items][:2])


def graph(name):
    node = {"id": "n", "nodeType": "AGENT", "nodeName": "Sorter", "agentId": "sorter"}
    edge = {"id": "e", "sourceNodeId": "n", "targetNodeId": None, "conditionType": "ALWAYS"}
    return json.dumps({"id": name, "name": name, "entrypointNodeId": "n", "nodes": [node], "edges": [edge]}, indent=2)


async def check_graphs(editor, folder):
    agent = folder / "agents" / "sorter"
    agent.mkdir(parents=True)
    (agent / "systemPrompt.md").write_text("Sort what people ask.\n")
    (agent / "jsonSchema.json").write_text('{"agentId": "sorter", "tools": []}\n')
    (folder / "other.json").write_text(graph("other"))
    uri = editor.open(folder / "desk.json", "json", graph("desk"))
    await editor.wait_for(uri, 1, "graph")
    line, text = next((at, one) for at, one in enumerate(graph("desk").splitlines()) if "agentId" in one)
    column = text.index("sorter")
    found = await editor.client.text_document_definition_async(types.DefinitionParams(**at(uri, line, column)))
    print("agent is in", Path(found[0].uri).parent.name)
    edit = await editor.client.text_document_rename_async(types.RenameParams(**at(uri, line, column), new_name="triage"))
    for change in edit.document_changes:
        if isinstance(change, types.RenameFile):
            print("renames", Path(change.old_uri).name, "to", Path(change.new_uri).name)
        else:
            print("changes", Path(change.text_document.uri).name, [one.new_text for one in change.edits])


async def check_others(editor, folder):
    text = '{"name": "x", "steps": [ // nothing\n{"type": "webScraping", "config": {"url": "http://a"}}]}'
    uri = editor.open(folder / "page.jsonc", "jsonc", text)
    await editor.wait_for(uri, 1, "JSON with comments")
    uri = editor.open(folder / "package.json", "json", '{"name": "x", "version": "1", "scripts": {},}')
    await editor.wait_for(uri, 1, "other JSON")
    uri = editor.open(folder / "README.md", "markdown", "# Hello {world\n")
    await editor.wait_for(uri, 1, "other Markdown")


async def main(program, folder):
    editor = Editor()
    await editor.start(program, folder)
    await check_flow(editor, folder)
    await check_markdown(editor, folder)
    await check_graphs(editor, folder)
    await check_others(editor, folder)
    await editor.client.shutdown_async(None)
    editor.client.exit(None)
    await editor.client.stop()


asyncio.run(asyncio.wait_for(main(sys.argv[1], Path(sys.argv[2]).resolve()), SECONDS))
