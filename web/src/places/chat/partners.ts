// The partners of conversations: graphs, agents with a definition, stored agents, and an agent that has every workflow.
import { queryOptions, useQuery } from "@tanstack/react-query";
import { attemptHeader } from "../../api/attempt";
import { api, read, type Schemas } from "../../api/client";
import { workflowsQuery } from "../../api/queries";
import { t } from "../../strings";

export type Partner = {
  /** The id under which its conversations are stored. */
  id: string;
  title: string;
  about: string;
  format: string;
  /** The name of an agent that is no workflow. */
  agent?: string;
};

export type ThreadInfo = Schemas["ThreadInfo"];

/** The agent that has every active workflow. */
const EVERYTHING = "default";
const AGENT_PREFIX = "agent:";

export const threadsQuery = queryOptions({
  queryKey: ["threads"],
  queryFn: async () => (await read(api.GET("/api/v1/threads"))).items,
});

const agentsQuery = queryOptions({
  queryKey: ["agents"],
  queryFn: async () => (await read(api.GET("/api/v1/agents"))).items,
});

/** Everyone who answers, or undefined while the lists are loaded. */
export function usePartners(): Partner[] | undefined {
  const workflows = useQuery(workflowsQuery).data;
  const agents = useQuery(agentsQuery).data;
  if (!workflows || !agents) return undefined;
  const isTalk = (format: string) => format === "graph" || format === "agent";
  const defined = workflows
    .filter((workflow) => isTalk(workflow.format) && !workflow.is_refused)
    .map(({ id, name, description, format }) => ({
      id,
      title: name || id,
      about: description ?? "",
      format,
    }));
  const ids = new Set(defined.map((partner) => partner.id));
  const stored = agents.filter(({ id }) => !ids.has(id)).map(({ id }) => toAgent(id, id, ""));
  return [...defined, ...stored, toAgent(EVERYTHING, t.chat.everything, t.chat.everythingHelp)];
}

function toAgent(name: string, title: string, about: string): Partner {
  return { id: AGENT_PREFIX + name, title, about, format: "agent", agent: name };
}

/** The name of a new conversation: unique, and in the order of time. */
export function newThreadName(): string {
  return `t${Date.now().toString(36)}-${Math.random().toString(36).slice(2, 8)}`;
}

export type AttachedFile = Schemas["AttachedFile"];
export type Said = {
  text: string;
  files: AttachedFile[];
  /** So many messages before it stay; it replaces the others. */
  keep?: number;
  /** The key of an earlier attempt to send the same. */
  attempt?: string | undefined;
};

/** Sends a message; returns the run that answers it. */
export async function sendMessage(partner: Partner, thread: string, said: Said): Promise<string> {
  const { text, files, keep, attempt } = said;
  const body = { message: text, ...(files.length > 0 && { files }), ...(keep !== undefined && { keep }) };
  const headers = attemptHeader(attempt);
  const answer =
    partner.agent === undefined
      ? await read(
          api.POST("/api/v1/threads/{workflow}/{thread}", {
            params: { path: { workflow: partner.id, thread } },
            body,
            headers,
          }),
        )
      : await read(
          api.POST("/api/v1/agents/{name}/chat", {
            params: { path: { name: partner.agent } },
            body: { ...body, thread },
            headers,
          }),
        );
  return answer.run_id;
}
