import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasEnded, listLines, type RunRecord } from './record';

const RUN: RunRecord = {
  run_id: '0199-a',
  status: 'failed',
  usage: { input_tokens: 10, output_tokens: 2, micro_usd: 1500 },
  error: { code: 'FL1003', message: 'the server did not answer' },
  steps: [
    { path: '/report', phase: 'succeeded', kind: 'http', output: { text: 'rain' } },
    { path: '/sum', phase: 'failed', kind: 'generate', error: { message: 'no answer' } },
  ],
};

test('a run has a line for itself and one for each step', () => {
  assert.deepEqual(
    listLines(RUN).map((line) => `${line.icon} ${line.label}: ${line.description}`),
    [
      'error 0199-a: failed, 12 tokens, $0.0015',
      'pass /report: { "text": "rain" }',
      'error /sum: no answer',
    ],
  );
});

test('a run that waits has not ended', () => {
  assert.equal(hasEnded(RUN), true);
  assert.equal(hasEnded({ ...RUN, status: 'waiting' }), false);
});
