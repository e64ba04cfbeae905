// The view of a run: its steps, read again until the run has ended.

import { execFile } from 'node:child_process';
import * as vscode from 'vscode';
import { hasEnded, listLines, type RunLine, type RunRecord } from './record';

/** Time between two readings of a run that has not ended, in milliseconds. */
const POLL_INTERVAL_MS = 1000;
const MAX_OUTPUT_BYTES = 64 << 20;

export class RunView implements vscode.TreeDataProvider<RunLine>, vscode.Disposable {
  private readonly changed = new vscode.EventEmitter<void>();
  readonly onDidChangeTreeData = this.changed.event;
  private lines: RunLine[] = [];
  private timer: NodeJS.Timeout | undefined;

  constructor(private readonly program: () => string) {}

  getTreeItem(line: RunLine): vscode.TreeItem {
    const item = new vscode.TreeItem(line.label);
    item.description = line.description;
    item.tooltip = line.detail;
    item.iconPath = new vscode.ThemeIcon(line.icon);
    return item;
  }

  getChildren(): RunLine[] {
    return this.lines;
  }

  /** Shows a run, and follows it until it ends. */
  show(run: string, folder: string): void {
    clearTimeout(this.timer);
    const options = { cwd: folder, maxBuffer: MAX_OUTPUT_BYTES };
    execFile(this.program(), ['show', run, '--json'], options, (error, stdout, stderr) => {
      if (error && !stdout) {
        void vscode.window.showErrorMessage(`Flowloom: ${stderr || error.message}`);
        return;
      }
      const record = JSON.parse(stdout) as RunRecord;
      this.lines = listLines(record);
      void vscode.commands.executeCommand('setContext', 'flowloom.hasRun', true);
      this.changed.fire();
      if (!hasEnded(record)) {
        this.timer = setTimeout(() => this.show(run, folder), POLL_INTERVAL_MS);
      }
    });
  }

  dispose(): void {
    clearTimeout(this.timer);
    this.changed.dispose();
  }
}
