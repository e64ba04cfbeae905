import { isolateHistory, undo } from "@codemirror/commands";
import { EditorState, type Transaction } from "@codemirror/state";
import { expect, test } from "vitest";
import { endlessHistory } from "./history";

const CHANGES = 1000;

test("every change can be taken back, however many there are", () => {
  let state = EditorState.create({ doc: "start", extensions: [endlessHistory] });
  for (let at = 0; at < CHANGES; at++) {
    const changes = { from: state.doc.length, insert: ` ${at}` };
    state = state.update({ changes, annotations: isolateHistory.of("full") }).state;
  }
  const dispatch = (transaction: Transaction) => {
    state = transaction.state;
  };
  for (let at = 0; at < CHANGES; at++) expect(undo({ state, dispatch })).toBe(true);
  expect(state.doc.toString()).toBe("start");
  expect(undo({ state, dispatch })).toBe(false);
});
