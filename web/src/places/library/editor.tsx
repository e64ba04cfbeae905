// The definition of a stored part while it is edited: as a form, or as JSON.
import { lazy, Suspense, useState } from "react";
import { shapeOf } from "../../builder/files";
import { usePending } from "../../builder/pending";
import { t } from "../../strings";
import { Tabs } from "../../ui/tabs";
import type { StoredKind } from "./entries";

// The builder is large, and most of the library does not need it.
const PartForm = lazy(async () => ({ default: (await import("../../builder/file-form")).PartFile }));

/** The file in which a definition holds such a part. Tools have no form. */
const FILES: Partial<Record<StoredKind, { format: string; file: string }>> = {
  blocks: { format: "pipeline", file: "blocks/part.json" },
  agents: { format: "graph", file: "agents/part/jsonSchema.json" },
};

type EditorProps = {
  kind: StoredKind;
  text: string;
  isReadOnly: boolean;
  onChange: (text: string) => void;
  onSave: () => void;
};

const VIEWS = ["form", "json"] as const;

export function Editor(props: EditorProps) {
  const [view, show] = useState<(typeof VIEWS)[number]>("form");
  const pending = usePending();
  const known = FILES[props.kind];
  const shape = known && shapeOf(known.file, known.format);
  if (!known || shape?.kind !== "part") return <JsonEditor {...props} />;
  return (
    <>
      <Tabs
        label={t.library.source}
        selected={view}
        // The other view has what was just entered.
        onSelect={(name) => void pending.settle().then((isSettled) => isSettled && show(name))}
        tabs={VIEWS.map((name) => ({ name, title: t.library.views[name] }))}
      />
      {view === "json" ? (
        <JsonEditor {...props} />
      ) : (
        <Suspense fallback={<p className="soft">{t.loading}</p>}>
          <div className="form-fields">
            <PartForm
              {...known}
              text={props.text}
              isReadOnly={props.isReadOnly}
              names={undefined}
              wrapper={shape}
              onEdit={(_, text) => props.onChange(text)}
            />
          </div>
        </Suspense>
      )}
    </>
  );
}

function JsonEditor({ text, isReadOnly, onChange, onSave }: EditorProps) {
  return (
    <textarea
      className="input mono library-source"
      rows={16}
      spellCheck={false}
      aria-label={t.library.source}
      value={text}
      readOnly={isReadOnly}
      onChange={(event) => onChange(event.target.value)}
      onKeyDown={(event) => {
        if (!(event.ctrlKey || event.metaKey) || event.key !== "s") return;
        event.preventDefault();
        if (!isReadOnly) onSave();
      }}
    />
  );
}
