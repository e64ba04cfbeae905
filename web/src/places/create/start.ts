// Starts the planner. Its events are those of its run, so the page follows the run.
import { attemptHeader } from "../../api/attempt";
import { safeParse, toApiError } from "../../api/client";
import { readEvents, StreamRefused } from "../../api/event-stream";

/** Starts the planner for a goal; returns the id of its run. */
export async function startPlanner(intent: string): Promise<string> {
  const abort = new AbortController();
  let run: string | undefined;
  const request = {
    method: "POST",
    headers: { "content-type": "application/json", ...attemptHeader() },
    body: JSON.stringify({ intent }),
  };
  try {
    await readEvents(
      "api/create-agent/stream",
      abort.signal,
      ([first]) => {
        // The id of an event is that of the run, and the number of the event.
        run ??= first?.id?.split(":")[0];
        if (run) abort.abort();
      },
      request,
    );
  } catch (error) {
    if (error instanceof StreamRefused) {
      throw toApiError({ status: error.status, statusText: error.message }, safeParse(error.body));
    }
    if (run === undefined) throw error;
  }
  if (run === undefined) throw new Error("the server sent no event");
  return run;
}
