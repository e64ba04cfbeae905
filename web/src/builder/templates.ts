// Ready pipelines of built-in blocks: what AgentFlow proposes to people who create their first one, and more.
import type { t } from "../strings";

export type TemplateId = keyof typeof t.templates.pipelines;

type Node = { id: string; block_id: string; inputs: { [name: string]: unknown } };

export type Template = { id: TemplateId; nodes: Node[]; memoryKeys?: string[] };

const PAGE = "https://example.com/";

/** One question to the model about something. */
function ask(id: string, about: unknown, template: string): Node {
  return { id, block_id: "for_each", inputs: { items: [about], template, ask_model: true } };
}

function search(id: string, query: string, count: number): Node {
  return { id, block_id: "web_search", inputs: { query, count } };
}

function notify(id: string, title: string, body: string): Node {
  return { id, block_id: "notify_push", inputs: { title, body } };
}

export const TEMPLATES: readonly Template[] = [
  {
    id: "page-digest",
    nodes: [
      { id: "page", block_id: "web_scrape", inputs: { url: PAGE } },
      ask("digest", "{{page.content}}", "Sum up this page in three sentences:\n\n{item}"),
      notify("tell", "Digest of a page", "{{digest.results.0}}"),
    ],
  },
  {
    id: "page-news",
    memoryKeys: ["page_news"],
    nodes: [
      { id: "before", block_id: "memory_read", inputs: { key: "page_news" } },
      { id: "page", block_id: "web_scrape", inputs: { url: PAGE } },
      ask(
        "news",
        { before: "{{before.value}}", now: "{{page.content}}" },
        "A page said the last time:\n\n{item.before}\n\nNow it says:\n\n{item.now}\n\nWhat is new? Answer in a few short lines.",
      ),
      { id: "keep", block_id: "memory_write", inputs: { key: "page_news", value: "{{page.content}}" } },
      notify("tell", "What is new", "{{news.results.0}}"),
    ],
  },
  {
    id: "top-posts",
    nodes: [
      {
        id: "posts",
        block_id: "http_request",
        inputs: { url: "https://hn.algolia.com/api/v1/search?tags=front_page&hitsPerPage=5" },
      },
      {
        id: "lines",
        block_id: "for_each",
        inputs: {
          items: "{{posts.body.hits}}",
          template: "Explain in one sentence what this post is about: {item.title} ({item.url})",
          ask_model: true,
        },
      },
      ask(
        "digest",
        "{{lines.results}}",
        "Write these sentences as a list, the most interesting first:\n\n{item}",
      ),
      notify("tell", "Top posts of Hacker News", "{{digest.results.0}}"),
    ],
  },
  {
    id: "topic-news",
    nodes: [
      search("found", "news about artificial intelligence", 5),
      {
        id: "lines",
        block_id: "for_each",
        inputs: {
          items: "{{found.results}}",
          template:
            "Sum up in one sentence, with the address at the end: {item.title}. {item.snippet} {item.url}",
          ask_model: true,
        },
      },
      ask("digest", "{{lines.results}}", "Write these sentences as a list:\n\n{item}"),
      notify("tell", "News of the morning", "{{digest.results.0}}"),
    ],
  },
  {
    id: "ranked-stories",
    nodes: [
      search("found", "top stories today BBC CNN Reuters", 15),
      ask(
        "ranked",
        "{{found.results}}",
        "Give each of these stories a score from 1 to 10 for its importance, and list the best five with their scores:\n\n{item}",
      ),
      notify("tell", "Top stories", "{{ranked.results.0}}"),
    ],
  },
  {
    id: "price-check",
    nodes: [
      search("found", "AirPods price", 5),
      ask(
        "price",
        "{{found.results}}",
        "What does it cost, according to these results? Answer with one line:\n\n{item}",
      ),
      ask(
        "verdict",
        { price: "{{price.results.0}}", budget: 200 },
        "Price: {item.price}\nTo spend in a month: {item.budget} dollars\n\nMake a small budget of this month, and say whether it fits.",
      ),
      notify("tell", "Does it fit the budget?", "{{verdict.results.0}}"),
    ],
  },
];

const REFERENCE = /\{\{(\w+)\.[\w.]+\}\}/g;

/** The connections of a pipeline: from each node to those that refer to it. */
export function listEdges(nodes: readonly Node[]): { from: string; to: string }[] {
  return nodes.flatMap(({ id, inputs }) => {
    const sources = [...JSON.stringify(inputs).matchAll(REFERENCE)].map((found) => found[1] ?? "");
    return [...new Set(sources)].map((from) => ({ from, to: id }));
  });
}

/** The definition of a template as a file. */
export function writeTemplate(template: Template, id: string, name: string): string {
  const { nodes, memoryKeys } = template;
  const pipeline = { id, name, user_prompt: "", nodes, edges: listEdges(nodes) };
  const whole = memoryKeys ? { ...pipeline, memory_keys: memoryKeys } : pipeline;
  return `${JSON.stringify(whole, null, 2)}\n`;
}

/** Whether a template calls the provider of searches, which has to be configured. */
export function needsSearch(template: Template): boolean {
  return template.nodes.some((node) => node.block_id === "web_search");
}
