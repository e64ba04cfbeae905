// The views of a workflow, and the buttons that take changes back.
import type { Depths, History } from "../../builder/history";
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
};

export function ViewBar({ view, onChoose, isReadOnly, history, depths }: ViewBarProps) {
  useKeys((event) => {
    if (view !== "build" || !(event.ctrlKey || event.metaKey) || isWriting(event)) return;
    const isRedo = event.key === "y" || (event.key.toLowerCase() === "z" && event.shiftKey);
    if (!isRedo && event.key !== "z") return;
    event.preventDefault();
    if (isRedo) history?.redo();
    else history?.undo();
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
          <IconButton
            icon="undo"
            label={t.build.undo}
            disabled={!depths.canUndo}
            onClick={() => history?.undo()}
          />
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
