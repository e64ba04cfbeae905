// Formatted text. Until the part that reads Markdown is loaded, the text is shown as it is.

import { lazy, Suspense } from "react";
import { showDirections } from "./bidi";

const MarkdownView = lazy(() => import("./markdown-view"));

export function Markdown(props: { text: string }) {
  const text = showDirections(props.text);
  return (
    <div className="markdown" dir="auto">
      <Suspense fallback={<p>{text}</p>}>
        <MarkdownView text={text} />
      </Suspense>
    </div>
  );
}
