// The extension: starts the language server, and performs the commands of its code lenses.

import * as path from 'node:path';
import * as vscode from 'vscode';
import { LanguageClient, TransportKind } from 'vscode-languageclient/node';
import { RunView } from './runView';

const LANGUAGES = ['json', 'jsonc', 'markdown', 'mdx', 'flowloom-mdx'];

let client: LanguageClient | undefined;

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  const program = () => vscode.workspace.getConfiguration('flowloom').get<string>('path', 'flowloom');
  const view = new RunView(program);
  context.subscriptions.push(
    view,
    vscode.window.registerTreeDataProvider('flowloom.run', view),
    vscode.commands.registerCommand('flowloom.run', (uri?: string) => runDefinition(program(), uri)),
    vscode.commands.registerCommand('flowloom.showRun', (run?: string) => view.show(run ?? 'last', findFolder())),
    vscode.commands.registerCommand('flowloom.test', (tests?: string[]) => runTests(program(), tests)),
    vscode.commands.registerCommand('flowloom.debug', debugRun),
    vscode.debug.registerDebugAdapterDescriptorFactory('flowloom', {
      createDebugAdapterDescriptor: () => new vscode.DebugAdapterExecutable(program(), ['dap']),
    }),
    vscode.commands.registerCommand('flowloom.restart', () => client?.restart()),
  );
  client = new LanguageClient(
    'flowloom',
    'Flowloom',
    { command: program(), args: ['lsp'], transport: TransportKind.stdio },
    { documentSelector: LANGUAGES.flatMap((language) => ['file', 'untitled'].map((scheme) => ({ scheme, language }))) },
  );
  await client.start();
}

export async function deactivate(): Promise<void> {
  await client?.stop();
}

/** Runs a definition in a terminal, where it asks for its inputs. */
function runDefinition(program: string, uri?: string): void {
  const target = uri ? vscode.Uri.parse(uri) : vscode.window.activeTextEditor?.document.uri;
  if (!target) return;
  const terminal = vscode.window.createTerminal({
    name: `Flowloom: ${path.basename(target.fsPath)}`,
    cwd: path.dirname(target.fsPath),
    shellPath: program,
    shellArgs: ['run', target.fsPath],
  });
  terminal.show();
}

/** Runs tests in a terminal: those of a lens, or those of the project. */
function runTests(program: string, tests: string[] = []): void {
  const terminal = vscode.window.createTerminal({
    name: 'Flowloom: tests',
    cwd: findFolder(),
    shellPath: program,
    shellArgs: ['test', ...tests],
  });
  terminal.show();
}

/** Steps through a recorded run of a definition: the last one, if none is named. */
async function debugRun(played?: { definition: string; run: string }): Promise<void> {
  const target = played ? vscode.Uri.parse(played.definition) : vscode.window.activeTextEditor?.document.uri;
  if (!target) return;
  const name = `Run of ${path.basename(target.fsPath)}`;
  const run = played?.run ?? 'last';
  const options = { type: 'flowloom', request: 'launch', name, definition: target.fsPath, run };
  await vscode.debug.startDebugging(vscode.workspace.getWorkspaceFolder(target), options);
}

/** The folder in which a run is looked for: that of the open document. */
function findFolder(): string {
  const document = vscode.window.activeTextEditor?.document.uri;
  if (document?.scheme === 'file') return path.dirname(document.fsPath);
  return vscode.workspace.workspaceFolders?.[0]?.uri.fsPath ?? '.';
}
