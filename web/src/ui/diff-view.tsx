// The difference of two texts, line by line.
import { diffLines } from "./diff";

const MARKS = { same: " ", removed: "-", added: "+" };

export function DiffView({ before, after }: { before: string; after: string }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls is reached by the keyboard.
    <pre className="diff" tabIndex={0}>
      {diffLines(before, after).map((line, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: lines have no identity but their position.
        <span key={at} data-change={line.change}>
          {`${MARKS[line.change]} ${line.text}\n`}
        </span>
      ))}
    </pre>
  );
}
