// Trials of blocks and functions, as pipelines of one node, and of agents, as conversations: each is an ordinary run.
import { useMutation } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { api, read } from "../../api/client";
import type { Json } from "../../api/json";
import { t } from "../../strings";
import type { Schema } from "../../ui/schema-form";
import type { Part } from "./entries";
import { type Trial, TryForm } from "./try-form";

/** The id of the node; its pipeline has no other. */
const NODE = "block";
/** A block that calls the function that is tried. */
const CALLER = "called_function";
/** An answer is waited for so long; the run continues. */
const WAIT_S = 60;

type Answer = { run_id: string; results?: { [node: string]: Json }; errors?: Json };
type Tried = { id: string; block: string; blocks?: object[] };

/** Runs a pipeline of one node. */
function useNodeTrial({ id, block, blocks }: Tried) {
  return useMutation({
    mutationFn: async (inputs: Json): Promise<Trial> => {
      const node = { id: NODE, block_id: block, inputs };
      const pipeline = { id: `try-${id.replaceAll("::", "-")}`, name: id, nodes: [node], edges: [] };
      const body = { pipeline, ...(blocks && { blocks }) } as never;
      const answer = (await read(api.POST("/api/pipeline/run", { body }))) as unknown as Answer;
      const hasErrors = answer.errors != null && Object.keys(answer.errors).length > 0;
      return {
        run: answer.run_id,
        output: answer.results?.[NODE],
        error: hasErrors ? answer.errors : undefined,
      };
    },
  });
}

export function TryBlock({ part }: { part: Part }) {
  const schema = (part.definition as { input_schema?: Schema }).input_schema;
  const trial = useNodeTrial({ id: part.id, block: part.id });
  return (
    <TryForm
      help={t.library.tryHelp}
      schema={schema?.properties ? schema : { properties: {} }}
      start={trial.mutate}
      isRunning={trial.isPending}
      trial={trial.data}
      failure={trial.error}
    />
  );
}

type FunctionProps = { id: string; parameters: Schema | undefined };

/** Calls a function, or a tool of an MCP server. */
export function TryFunction({ id, parameters }: FunctionProps) {
  const block = {
    id: CALLER,
    name: id,
    execution_type: "function",
    function_id: id,
    ...(parameters && { input_schema: parameters }),
  };
  const trial = useNodeTrial({ id, block: CALLER, blocks: [block] });
  return (
    <TryForm
      help={t.library.tryFunctionHelp}
      schema={parameters}
      start={trial.mutate}
      isRunning={trial.isPending}
      trial={trial.data}
      failure={trial.error}
    />
  );
}

type ToolRecord = {
  function?: { name?: string; parameters?: Schema };
  name?: string;
  parameters?: Schema;
  functionId?: string;
  internalApiPath?: string;
};

/** Calls the function behind a tool. A request of a tool has the rights of an agent, which has to send it. */
export function TryTool({ part }: { part: Part }) {
  const tool = part.definition as ToolRecord;
  const name = tool.functionId ?? tool.function?.name ?? tool.name;
  if (tool.internalApiPath !== undefined || name === undefined) {
    return (
      <section className="library-section panel library-try" aria-label={t.library.try}>
        <h3>{t.library.try}</h3>
        <p className="soft">{t.library.tryRequest}</p>
        <div className="library-actions">
          <Link to="/library" search={{ kind: "agents" }} className="button">
            {t.library.kinds.agents}
          </Link>
        </div>
      </section>
    );
  }
  return <TryFunction id={name} parameters={tool.function?.parameters ?? tool.parameters} />;
}

const MESSAGE: Schema = {
  type: "object",
  properties: { message: { type: "string", title: t.library.message } },
  required: ["message"],
};

/** Sends a message to an agent, in a conversation of its own that can be continued. */
export function TryAgent({ id }: { id: string }) {
  const [thread] = useState(() => `try-${Date.now().toString(36)}`);
  const talk = useMutation({
    mutationFn: async (inputs: Json): Promise<Trial> => {
      const { message } = inputs as { message: string };
      const params = { path: { name: id }, query: { wait: WAIT_S } };
      const run = await read(
        api.POST("/api/v1/agents/{name}/chat", { params, body: { message, thread, keep: 0 } }),
      );
      const isEnded = run.status === "succeeded";
      return {
        run: run.run_id,
        output: isEnded ? (run.output as Json) : t.library.notYet(t.status[run.status as never]),
        error: (run.error as Json | null) ?? undefined,
      };
    },
  });
  return (
    <TryForm
      help={t.library.tryAgentHelp}
      schema={MESSAGE}
      start={talk.mutate}
      isRunning={talk.isPending}
      trial={talk.data}
      failure={talk.error}
    >
      {talk.data && (
        <Link to="/chat" search={{ with: `agent:${id}`, thread }} className="button" data-look="quiet">
          {t.library.continueInChat}
        </Link>
      )}
    </TryForm>
  );
}
