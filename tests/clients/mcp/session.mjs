// What both generations of the TypeScript SDK do with the server: each line that is printed is one thing that they saw.

const say = (what, seen) => console.log(JSON.stringify({ [what]: seen }));

const shown = ({ structuredContent, content, isError }) => ({
  structured: structuredContent,
  text: content[0].text,
  error: isError ?? false,
});

export async function session(client, { how, rest, Http, Stdio, onElicit, call }) {
  const headers = process.env.KEY ? { authorization: `Bearer ${process.env.KEY}` } : {};
  const transport =
    how === "http"
      ? new Http(new URL(rest[0]), { requestInit: { headers } })
      : new Stdio({ command: rest[0], args: rest.slice(1), env: process.env });
  onElicit(async (request) => {
    say("asked", request.params.message);
    return { action: "accept", content: { answer: "tea" } };
  });
  try {
    await client.connect(transport);
    const { tools } = await client.listTools();
    say("tools", Object.fromEntries(tools.map((tool) => [tool.name, tool.inputSchema])));
  } catch (error) {
    say("refused", error.message);
    return;
  }

  say("hello", shown(await call({ name: "hello", arguments: { input: "hi" } })));
  say("wrong", shown(await call({ name: "hello", arguments: { output: "hi" } })));
  say("unknown", await call({ name: "nothing", arguments: {} }).catch((error) => error.code));
  say("failed", shown(await call({ name: "fails", arguments: { input: "x" } })));
  say("answered", shown(await call({ name: "ask-a-person", arguments: { input: "x" } })));

  const stop = new AbortController();
  const stopped = { signal: stop.signal, onprogress: () => stop.abort() };
  say("cancelled", await call({ name: "two_calls", arguments: {} }, stopped).then(shown, () => true));

  const told = [];
  const onprogress = ({ progress, message }) => {
    if (told.length === 0) say("progress", message);
    told.push(progress);
  };
  const slow = await call({ name: "two_calls", arguments: { a: "2" } }, { onprogress });
  say("slow", { ...shown(slow), grows: told.every((one, index) => index === 0 || one > told[index - 1]) });
  await client.close();
}
