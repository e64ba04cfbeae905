// The call that an approval is about. The engine asks in one sentence (`crates/runtime/src/interpret/tool.rs`).
import { type Json, parseJson } from "../api/json";
import { t } from "../strings";

export type Approval = { tool: string; arguments: Json };

const SENTENCE = /^Allow (\S+) with (.*)\?$/s;

/** The tool and the arguments in the question of an approval; undefined if it is another question. */
export function readApproval(question: string): Approval | undefined {
  const [, tool, text] = SENTENCE.exec(question) ?? [];
  if (tool === undefined || text === undefined) return undefined;
  try {
    return { tool, arguments: parseJson(text) };
  } catch {
    return undefined;
  }
}

/** A question in one line. */
export function describeQuestion(question: string): string {
  const approval = readApproval(question);
  return approval ? t.answer.allow(approval.tool) : question;
}

/** The step in which a model chose the call whose approval has this path. */
export function findTurn(path: string): string {
  return path.split("/").slice(0, -2).join("/");
}
