// Formatted text. Until the part that reads Markdown is loaded, the text is shown as it is.
import { lazy, Suspense } from "react";

const MarkdownView = lazy(() => import("./markdown-view"));

export function Markdown({ text }: { text: string }) {
  return (
    <div className="markdown" dir="auto">
      <Suspense fallback={<p>{text}</p>}>
        <MarkdownView text={text} />
      </Suspense>
    </div>
  );
}
