// The client of the server's API. Routes and types come from its OpenAPI description.
import createClient from "openapi-fetch";
import { type Json, parseJson } from "./json";
import { keyHeaders, requestKey } from "./key";
import type { components, paths } from "./schema.gen";

/** The address of the server, with the prefix under which it is reached. It ends with a slash. */
export const SERVER = new URL(document.baseURI);

export type Schemas = components["schemas"];

/** A request that the server refused, with its error code and all problems that it found. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly problems: Schemas["Diagnostic"][] = [],
  ) {
    super(message);
  }
}

/** Whether the server refused a request for its key. */
export function isKeyRefusal(error: unknown): error is ApiError {
  return error instanceof ApiError && error.status === 401;
}

export const api = createClient<paths>({
  baseUrl: SERVER.href.replace(/\/$/, ""),
  headers: { accept: "application/json" },
});

api.use({
  onRequest({ request }) {
    for (const [name, value] of Object.entries(keyHeaders())) request.headers.set(name, value);
    return request;
  },
  onResponse({ response }) {
    if (response.status === 401) requestKey();
  },
});

type Answer<Data> = { data?: Data; error?: unknown; response: Response };

/** The body of a response; throws an `ApiError` if the request was refused. */
export async function read<Data>(request: Promise<Answer<Data>>): Promise<Data> {
  const { data, error, response } = await request;
  if (!response.ok) throw toApiError(response, error);
  return data as Data;
}

/** A run that was started. */
type StartedRun = { run_id: string };

/** The run that a request has started. The server answers with 409 if the outcome of a step is uncertain; the run exists. */
export async function readStarted(request: Promise<Answer<unknown>>): Promise<StartedRun> {
  const { data, error, response } = await request;
  if (response.ok) return data as StartedRun;
  if (response.status === 409 && isStartedRun(error)) return error;
  throw toApiError(response, error);
}

function isStartedRun(body: unknown): body is StartedRun {
  return (
    typeof body === "object" && body !== null && "run_id" in body && "status" in body && !("code" in body)
  );
}

/** The error of a response that the server refused, from its problem document. */
export function toApiError(response: { status: number; statusText: string }, problem: unknown): ApiError {
  const document = (typeof problem === "object" && problem ? problem : {}) as Partial<Schemas["Problem"]>;
  const message = document.detail || document.title || response.statusText || `${response.status}`;
  return new ApiError(response.status, document.code ?? "", message, document.errors ?? []);
}

/** Requests JSON whose numbers must not be rounded. */
export async function readExactly(path: string, signal?: AbortSignal): Promise<Json> {
  const headers = { accept: "application/json", ...keyHeaders() };
  const response = await fetch(new URL(path, SERVER), { headers, ...(signal && { signal }) });
  if (response.status === 401) requestKey();
  const text = await response.text();
  if (!response.ok) throw toApiError(response, safeParse(text));
  return parseJson(text);
}

export function safeParse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
