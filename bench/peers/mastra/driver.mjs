// Mastra on the workloads of `bench`: see bench/peers/README.md. Its packages are in the folder that PEER_FOLDER names.
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

const packages = `${process.env.PEER_FOLDER}/node_modules`;
const load = (file) => import(pathToFileURL(`${packages}/${file}`));
const { version } = JSON.parse(readFileSync(`${packages}/@mastra/core/package.json`, 'utf8'));
const { createWorkflow, createStep } = await load('@mastra/core/dist/workflows/index.js');
const { Mastra } = await load('@mastra/core/dist/mastra/index.js');
const { z } = await load('zod/index.js');

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const Count = z.object({ count: z.number() });
const Counts = z.array(Count);
const Messages = z.object({ messages: z.array(z.string()) });
const unstored = { options: { validateInputs: true, shouldPersistSnapshot: () => false } };

const step = (id, schema, execute) => createStep({ id, inputSchema: schema, outputSchema: schema, execute });
const countStep = (id, ms = 0) =>
  step(id, Count, async ({ inputData }) => {
    if (ms) await sleep(ms);
    return { count: inputData.count + 1 };
  });
const workflow = (schema, storage, id = 'bench') =>
  createWorkflow({ id, inputSchema: schema, outputSchema: schema, ...(storage ? {} : unstored) });

// Returns a function that runs the workflow once and checks its result.
function runner(flow, inputData, isRight, storage) {
  new Mastra({ logger: false, workflows: { bench: flow }, ...(storage ? { storage } : {}) });
  return async () => {
    const run = await flow.createRun();
    const result = await run.start({ inputData });
    if (result.status !== 'success' || !isRight(result.result)) throw new Error(JSON.stringify(result).slice(0, 300));
  };
}

function chain(n, ms = 0, storage) {
  let flow = workflow(Count, storage);
  for (let index = 0; index < n; index += 1) flow = flow.then(countStep(`n${index}`, ms));
  return runner(flow.commit(), { count: 0 }, ({ count }) => count === n, storage);
}

function cycle(n) {
  const turn = workflow(Count, undefined, 'turn').then(countStep('one')).then(countStep('other')).commit();
  const flow = workflow(Count).dountil(turn, async ({ inputData }) => inputData.count >= n);
  return runner(flow.commit(), { count: 0 }, ({ count }) => count === n);
}

function fan(n, ms = 0) {
  const execute = async () => Array.from({ length: n }, (_, count) => ({ count }));
  const begin = createStep({ id: 'begin', inputSchema: Count, outputSchema: Counts, execute });
  const count = async ({ inputData }) => ({ count: inputData.length });
  const collect = createStep({ id: 'collect', inputSchema: Counts, outputSchema: Count, execute: count });
  const flow = workflow(Count).then(begin).foreach(countStep('part', ms), { concurrency: n }).then(collect);
  return runner(flow.commit(), { count: 0 }, (result) => result.count === n);
}

function crowd(n) {
  const once = chain(10, 20);
  return () => Promise.all(Array.from({ length: n }, once));
}

function grow(n, storage) {
  const add = step('add', Messages, async ({ inputData }) => ({ messages: [...inputData.messages, 'm'.repeat(1024)] }));
  const flow = workflow(Messages, storage).dountil(add, async ({ inputData }) => inputData.messages.length >= n);
  return runner(flow.commit(), { messages: [] }, ({ messages }) => messages.length === n, storage);
}

async function sqlite() {
  const { LibSQLStore } = await load('@mastra/libsql/dist/index.js');
  return new LibSQLStore({ id: 'bench', url: 'file:mastra.db' });
}

const workloads = {
  W1: (n) => chain(n),
  W2: cycle,
  W3: (n) => fan(n),
  W4: (n) => fan(n, 50),
  W5: crowd,
  'W6-sqlite': async (n) => chain(n, 0, await sqlite()),
  W8: (n) => grow(n),
  'W8-sqlite': async (n) => grow(n, await sqlite()),
};

const [name, n] = process.argv.slice(2);
if (name === 'W7') {
  await chain(1)();
  process.exit(0);
}
const once = await workloads[name](Number(n));
console.log(version);
for await (const _ of createInterface({ input: process.stdin })) {
  const since = performance.now();
  await once();
  console.log((performance.now() - since) / 1e3);
}
process.exit(0);
