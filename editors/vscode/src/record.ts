// What the view and the debugger show of a run: the output of `flowloom show RUN --json`, without the editor.

/** A step in the output of `flowloom show`. */
export interface StepSummary {
  path: string;
  phase: string;
  kind?: string;
  target?: string;
  output?: unknown;
  error?: { code?: string; message?: string } | null;
}

/** The parts of the output of `flowloom show` that are used. */
export interface RunRecord {
  run_id: string;
  status: string;
  output?: unknown;
  usage?: { input_tokens?: number; output_tokens?: number; micro_usd?: number };
  error?: { code?: string; message?: string } | null;
  steps: StepSummary[];
}

/** A line of the view. */
export interface RunLine {
  label: string;
  description: string;
  /** The value in full, for a tooltip. */
  detail: string;
  icon: 'pass' | 'error' | 'sync' | 'circle-outline' | 'info';
}

const MAX_DESCRIPTION_CHARS = 80;
const ENDED = ['succeeded', 'failed', 'cancelled', 'timed_out', 'budget_exceeded', 'quarantined'];

/** Whether nothing more happens to a run. */
export function hasEnded(record: RunRecord): boolean {
  return ENDED.includes(record.status);
}

/** The lines of a run: the run itself, and its steps in the order of the record. */
export function listLines(record: RunRecord): RunLine[] {
  const tokens = (record.usage?.input_tokens ?? 0) + (record.usage?.output_tokens ?? 0);
  const cost = record.usage?.micro_usd ? `, $${(record.usage.micro_usd / 1e6).toFixed(4)}` : '';
  const head: RunLine = {
    label: record.run_id,
    description: record.status + (tokens > 0 ? `, ${tokens} tokens${cost}` : ''),
    detail: record.error?.message ?? showValue(record.output),
    icon: findIcon(record.status),
  };
  return [head, ...record.steps.map(showStep)];
}

function showStep(step: StepSummary): RunLine {
  const value = step.error?.message ?? showValue(step.output);
  return {
    label: step.path,
    description: shorten(value),
    detail: [step.kind, step.target, value].filter(Boolean).join('\n\n'),
    icon: findIcon(step.phase),
  };
}

function findIcon(phase: string): RunLine['icon'] {
  if (phase === 'succeeded') return 'pass';
  if (phase === 'running' || phase === 'waiting') return 'sync';
  if (phase === 'skipped' || phase === 'queued') return 'circle-outline';
  return ENDED.includes(phase) ? 'error' : 'info';
}

function showValue(value: unknown): string {
  if (value === undefined || value === null) return '';
  return typeof value === 'string' ? value : JSON.stringify(value, null, 2);
}

function shorten(text: string): string {
  const line = text.replace(/\s+/g, ' ');
  return line.length > MAX_DESCRIPTION_CHARS ? `${line.slice(0, MAX_DESCRIPTION_CHARS)}…` : line;
}
