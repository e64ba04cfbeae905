// A model for the tests: it speaks OpenAI's protocol, streams word by word, and does what the prompt asks for:
// `quick:` answers at once, `outage:` always fails, `unsteady:` fails once, `repeat:` returns the rest of the prompt.
import { createServer } from "node:http";

const ANSWERS = [
  [/happy, neutral or angry/, "angry"],
  [/three words/, "a broken lamp"],
  [/Which language/, "in english"],
  [
    /Draft a reply/,
    "Dear customer, we are sorry that the lamp arrived broken. A new one leaves our warehouse today, and you do not need to return the old one.",
  ],
  [
    /Improve this reply/,
    "Dear Ada, we are sorry that your lamp arrived broken. A replacement leaves our warehouse today, free of charge. Please keep or recycle the old one.",
  ],
  [/"on its way"/, "Order 4711 has left our warehouse. It should reach you tomorrow."],
  [
    /as Markdown/,
    "# Support request\n\n- **Mood:** angry\n- **Topic:** a broken lamp\n- **Result:** replacement sent, see `orders/4711`",
  ],
];

/** The tool that a message asks for, if the model is offered it: an order is looked up, a person is called, a topic echoed. */
const CALLS = [
  [/order (\d+)/, "order_status", ([, order]) => ({ order })],
  [/order \d+/, "router", () => ({ next_node: "Orders" })],
  [/speak to a person/, "router", () => ({ next_node: "human_handoff" })],
  [/echo (\w+)/, "echo_a_topic", ([, topic]) => ({ topic })],
];

function callFor({ messages, tools = [] }) {
  const last = messages.at(-1);
  if (last?.role !== "user") return undefined;
  const offered = new Set(tools.map((tool) => tool.function.name));
  for (const [pattern, name, toArguments] of CALLS) {
    const found = pattern.exec(textOf(last));
    if (found && offered.has(name)) return { name, arguments: JSON.stringify(toArguments(found)) };
  }
  return undefined;
}

function textOf({ content }) {
  if (typeof content === "string") return content;
  return (content ?? []).map((part) => part.text ?? `[${part.type}]`).join(" ");
}

/** Starts the server. `pauseMs` is the time between two words. */
export async function startModelServer(pauseMs = 12) {
  const failedOnce = new Set();
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const piece of request) body += piece;
    if (request.url.startsWith("/shop/")) {
      response.writeHead(200, { "content-type": "application/json" });
      response.end(JSON.stringify({ order: JSON.parse(body).order, state: "on its way" }));
      return;
    }
    const { messages = [], tools, stream } = JSON.parse(body || "{}");
    const prompt = messages.length > 0 ? textOf(messages.at(-1)) : "";
    const isFirst = prompt.includes("unsteady:") && !failedOnce.has(prompt);
    failedOnce.add(prompt);
    if (prompt.includes("outage:") || isFirst) {
      response.writeHead(500, { "content-type": "application/json" });
      response.end(JSON.stringify({ error: { message: "the model is overloaded", type: "server_error" } }));
      return;
    }
    const call = callFor({ messages, tools });
    const answer = call ? "" : answerTo(prompt);
    const pause = prompt.includes("quick:") ? 0 : pauseMs;
    if (stream) await sendStream(response, { prompt, answer, call }, pause);
    else sendWhole(response, prompt, answer);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { port: server.address().port, close: () => server.closeAllConnections() ?? server.close() };
}

function answerTo(prompt) {
  const repeated = /repeat: ([\s\S]*)/.exec(prompt);
  if (repeated) return repeated[1];
  return (
    ANSWERS.find(([pattern]) => pattern.test(prompt))?.[1] ?? "The sea is calm today, and the light is soft."
  );
}

function usageOf(prompt, answer) {
  const count = (text) => Math.ceil(text.length / 4);
  return {
    prompt_tokens: count(prompt),
    completion_tokens: count(answer),
    total_tokens: count(prompt + answer),
  };
}

function sendWhole(response, prompt, answer) {
  const message = { role: "assistant", content: answer };
  response.writeHead(200, { "content-type": "application/json" });
  response.end(
    JSON.stringify({
      id: "1",
      object: "chat.completion",
      created: 1,
      model: "small",
      choices: [{ index: 0, message, finish_reason: "stop" }],
      usage: usageOf(prompt, answer),
    }),
  );
}

async function sendStream(response, { prompt, answer, call }, pauseMs) {
  response.writeHead(200, { "content-type": "text/event-stream" });
  const send = (fields) => {
    const chunk = { id: "1", object: "chat.completion.chunk", created: 1, model: "small", ...fields };
    response.write(`data: ${JSON.stringify(chunk)}\n\n`);
  };
  for (const word of answer.match(/\S+\s*|\s+/g) ?? []) {
    if (pauseMs > 0) await new Promise((resolve) => setTimeout(resolve, pauseMs));
    send({ choices: [{ index: 0, delta: { role: "assistant", content: word }, finish_reason: null }] });
  }
  if (call) {
    const calls = [{ index: 0, id: `call_${Date.now()}`, type: "function", function: call }];
    send({ choices: [{ index: 0, delta: { role: "assistant", tool_calls: calls }, finish_reason: null }] });
  }
  send({ choices: [{ index: 0, delta: {}, finish_reason: call ? "tool_calls" : "stop" }] });
  send({ choices: [], usage: usageOf(prompt, answer) });
  response.end("data: [DONE]\n\n");
}
