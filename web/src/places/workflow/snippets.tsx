// Copy-ready calls of a workflow from other programs.
import { useState } from "react";
import { type Schemas, SERVER } from "../../api/client";
import { readKey } from "../../api/key";
import { t } from "../../strings";
import { Button, CopyButton } from "../../ui/button";
import { Dialog } from "../../ui/dialog";
import { Tabs } from "../../ui/tabs";

const LANGUAGES = ["curl", "python", "typescript", "openai", "mcp"] as const;
type Language = (typeof LANGUAGES)[number];

const TITLES: Record<Language, string> = {
  curl: "curl",
  python: "Python",
  typescript: "TypeScript",
  openai: "OpenAI",
  mcp: "MCP",
};

/** Placeholder of the viewer's key: snippets are pasted into places that are not secret. */
const KEY_PLACE = "$FLOWLOOM_KEY";

type SnippetsProps = { workflow: Schemas["WorkflowInfo"]; onClose: () => void };

export function SnippetsDialog({ workflow, onClose }: SnippetsProps) {
  const [language, setLanguage] = useState<Language>("curl");
  const text = writeSnippet(language, workflow, SERVER.href.replace(/\/$/, ""), readKey() !== null);
  return (
    <Dialog label={t.workflow.use} onClose={onClose} className="snippets">
      <div className="dialog-body">
        <h2>{t.workflow.use}</h2>
        <Tabs
          label={t.workflow.snippets}
          selected={language}
          onSelect={setLanguage}
          tabs={LANGUAGES.map((name) => ({ name, title: TITLES[name] }))}
        />
        {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls is reached by the keyboard. */}
        <pre className="diff" tabIndex={0}>
          {text}
        </pre>
        <div className="dialog-actions">
          <CopyButton text={() => text} />
          <Button onClick={onClose}>{t.close}</Button>
        </div>
      </div>
    </Dialog>
  );
}

/** A call in a language. */
export function writeSnippet(
  language: Language,
  workflow: Schemas["WorkflowInfo"],
  server: string,
  hasKey: boolean,
): string {
  const inputs = exampleInputs(workflow);
  const body = JSON.stringify({ workflow: workflow.id, inputs });
  const id = JSON.stringify(workflow.id);
  const message = JSON.stringify(typeof inputs === "string" ? inputs : "Hello");
  switch (language) {
    case "curl":
      return [
        `curl --json ${quoteForShell(body)} \\`,
        ...(hasKey ? [`     -H "Authorization: Bearer ${KEY_PLACE}" \\`] : []),
        `     '${server}/api/v1/runs?wait=60'`,
      ].join("\n");
    case "python":
      return [
        hasKey ? "import json, os, urllib.request" : "import json, urllib.request",
        "",
        `body = json.dumps(${writePython({ workflow: workflow.id, inputs })}).encode()`,
        `headers = {"Content-Type": "application/json"${hasKey ? ', "Authorization": "Bearer " + os.environ["FLOWLOOM_KEY"]' : ""}}`,
        `request = urllib.request.Request("${server}/api/v1/runs?wait=60", body, headers)`,
        "with urllib.request.urlopen(request) as response:",
        '    print(json.load(response)["output"])',
      ].join("\n");
    case "typescript":
      return [
        `const response = await fetch("${server}/api/v1/runs?wait=60", {`,
        '  method: "POST",',
        `  headers: { "Content-Type": "application/json"${hasKey ? ', Authorization: "Bearer " + process.env.FLOWLOOM_KEY' : ""} },`,
        `  body: JSON.stringify(${body}),`,
        "});",
        "console.log((await response.json()).output);",
      ].join("\n");
    case "openai":
      return [
        "from openai import OpenAI",
        "",
        `client = OpenAI(base_url="${server}/v1", api_key="${hasKey ? "fl_…" : "none"}")`,
        `answer = client.chat.completions.create(model=${id}, messages=[{"role": "user", "content": ${message}}])`,
        "print(answer.choices[0].message.content)",
      ].join("\n");
    case "mcp": {
      const headers = hasKey ? { headers: { Authorization: "Bearer fl_…" } } : {};
      return JSON.stringify(
        { mcpServers: { flowloom: { type: "http", url: `${server}/mcp`, ...headers } } },
        null,
        2,
      );
    }
  }
}

/** A value as a literal of Python. */
export function writePython(value: unknown): string {
  if (value === null || value === undefined) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) return `[${value.map(writePython).join(", ")}]`;
  if (typeof value !== "object") return JSON.stringify(value);
  const entries = Object.entries(value).map(([key, one]) => `${JSON.stringify(key)}: ${writePython(one)}`);
  return `{${entries.join(", ")}}`;
}

function exampleInputs(workflow: Schemas["WorkflowInfo"]): unknown {
  if (workflow.format === "steps") return "Hello";
  const values = { number: 1, boolean: true, list: [] as never[] } as Record<string, unknown>;
  const example = (input: Schemas["InputInfo"]) => input.options?.[0] ?? values[input.kind] ?? "…";
  return Object.fromEntries(workflow.inputs.map((input) => [input.name, example(input)]));
}

function quoteForShell(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
