// Follows a run with an EventSource, as a page in a browser does, and prints the number of each event. Connections that
// break are the EventSource's own affair. Ends with the run.
//
//   node events.mjs FOLDER_OF_CLIENTS ADDRESS
import { createRequire } from "node:module";

const [clients, address] = process.argv.slice(2);
const { EventSource } = await import(createRequire(`${clients}/package.json`).resolve("eventsource"));

const names = [
  "run_created", "run_started", "step_started", "step_finished", "step_failed", "step_skipped", "evaluated",
  "step_aborted", "edge_taken", "asked", "answered", "timer_set", "step_uncertain", "resolved", "cancel_requested",
  "run_suspended", "run_finished",
];
const source = new EventSource(address);
for (const name of names) {
  source.addEventListener(name, ({ lastEventId, data }) => console.log(`${lastEventId} ${data}`));
}
source.addEventListener("done", ({ data }) => {
  console.log(`done ${data}`);
  source.close();
});
