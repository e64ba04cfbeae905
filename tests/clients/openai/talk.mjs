// Talks to workflows with OpenAI's own client for Node, and with the AI SDK, and prints `ok` if everything was as
// expected.
//
//   node talk.mjs FOLDER_OF_CLIENTS BASE_URL
import assert from "node:assert/strict";
import { createRequire } from "node:module";

const [clients, baseURL] = process.argv.slice(2);
const { resolve } = createRequire(`${clients}/package.json`);
const { default: OpenAI } = await import(resolve("openai"));
const { generateText, jsonSchema, stepCountIs, streamText, tool } = await import(resolve("ai"));
const { createOpenAICompatible } = await import(resolve("@ai-sdk/openai-compatible"));

const client = new OpenAI({ baseURL, apiKey: "sk-anything", maxRetries: 0 });
const user = (content) => [{ role: "user", content }];

async function chat() {
  const ids = [];
  for await (const model of client.models.list()) ids.push(model.id);
  assert.deepEqual(ids, ["ask-a-person", "fails", "hello", "talk"]);
  const answer = await client.chat.completions.create({ model: "hello", messages: user("hi") });
  assert.equal(answer.choices[0].message.content, "LLM(Say hi)");
  const stream = await client.chat.completions.create({
    model: "hello", messages: user("hi"), stream: true, stream_options: { include_usage: true },
  });
  let text = "", usage;
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta.content ?? "";
    usage = chunk.usage ?? usage;
  }
  assert.equal(text, "LLM(Say hi)");
  assert.ok(usage.total_tokens > 0);
}

async function tools() {
  const weather = { type: "function", function: {
    name: "weather", parse: JSON.parse, parameters: { type: "object" }, function: ({ city }) => `sunny in ${city}`,
  } };
  const runner = client.chat.completions.runTools({ model: "talk", stream: true, messages: user("How is it?"), tools: [weather] });
  assert.equal(await runner.finalContent(), "Fine.");
}

async function errors() {
  const create = (body) => client.chat.completions.create({ messages: user("hi"), ...body });
  await assert.rejects(create({ model: "nope" }), (error) => error instanceof OpenAI.NotFoundError && error.code === "FL1507");
  await assert.rejects(create({ model: "fails" }), (error) => error.status === 422 && /boom/.test(error.message));
  const stream = await create({ model: "fails", stream: true });
  await assert.rejects(async () => { for await (const _ of stream); }, (error) => error.code === "FL1010");
}

async function responses() {
  const answer = await client.responses.create({ model: "hello", input: "hi" });
  assert.equal(answer.output_text, "LLM(Say hi)");
  const stream = client.responses.stream({ model: "hello", input: "hi" });
  let text = "";
  stream.on("response.output_text.delta", ({ delta }) => { text += delta; });
  assert.equal((await stream.finalResponse()).output_text, text);
  const asked = await client.responses.stream({ model: "talk", input: "How is it?" }).finalResponse();
  const call = asked.output.find((item) => item.type === "function_call");
  const input = [{ type: "function_call_output", call_id: call.call_id, output: "sunny" }];
  const told = await client.responses.create({ model: "talk", input, previous_response_id: asked.id });
  assert.equal(told.output_text, "Fine.");
}

async function another() {
  const flowloom = createOpenAICompatible({ name: "flowloom", baseURL, apiKey: "sk-anything", includeUsage: true });
  const { text, usage } = await generateText({ model: flowloom("hello"), prompt: "hi" });
  assert.equal(text, "LLM(Say hi)");
  assert.ok(usage.totalTokens > 0);
  const weather = tool({
    inputSchema: jsonSchema({ type: "object", properties: { city: { type: "string" } } }),
    execute: async ({ city }) => `sunny in ${city}`,
  });
  const stream = streamText({ model: flowloom("talk"), prompt: "How is it?", tools: { weather }, stopWhen: stepCountIs(3) });
  let said = "";
  for await (const piece of stream.textStream) said += piece;
  assert.ok(said.endsWith("Fine."), said);
  await assert.rejects(generateText({ model: flowloom("nope"), prompt: "x", maxRetries: 0 }), /there is no workflow nope/);
}

await chat();
await tools();
await errors();
await responses();
await another();
console.log("ok");
