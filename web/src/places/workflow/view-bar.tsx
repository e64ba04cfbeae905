// The views of a workflow, and the buttons that take changes back.
import type { Depths, History } from "../../builder/history";
import type { KeptChanges } from "../../builder/use-builder";
import type { View } from "../../builder/view";
import { t } from "../../strings";
import { IconButton } from "../../ui/button";
import { isWriting, useKeys } from "../../ui/keyboard";
import { Tabs } from "../../ui/tabs";

type ViewBarProps = {
  view: View;
  onChoose: (view: View) => void;
  isReadOnly: boolean;
  history: History | undefined;
  depths: Depths;
  /** The changes that are not in the history, because they could not be made. Undo takes them back first. */
  kept: KeptChanges | undefined;
};

export function ViewBar({ view, onChoose, isReadOnly, history, depths, kept }: ViewBarProps) {
  const undo = () => (kept ? kept.discard() : history?.undo());
  useKeys((event) => {
    if (view !== "build" || !(event.ctrlKey || event.metaKey) || isWriting(event)) return;
    const isRedo = event.key === "y" || (event.key.toLowerCase() === "z" && event.shiftKey);
    if (!isRedo && event.key !== "z") return;
    event.preventDefault();
    if (isRedo) history?.redo();
    else undo();
  });
  return (
    <div className="view-bar">
      <Tabs
        label={t.build.view}
        selected={view}
        onSelect={onChoose}
        tabs={[
          { name: "build", title: t.build.build },
          { name: "source", title: t.build.source },
          { name: "cost", title: t.cost.title },
        ]}
      />
      {!isReadOnly && (
        <div className="view-history">
          <IconButton icon="undo" label={t.build.undo} disabled={!depths.canUndo && !kept} onClick={undo} />
          <IconButton
            icon="redo"
            label={t.build.redo}
            disabled={!depths.canRedo}
            onClick={() => history?.redo()}
          />
        </div>
      )}
    </div>
  );
}
