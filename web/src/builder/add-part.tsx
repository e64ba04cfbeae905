// Adds a part of the chosen kind: after the selected one, or inside it.
import { AddDialog } from "./add-dialog";
import type { Edit, Inspection, Part } from "./definition";
import type { Outcome } from "./edit-queue";
import type { Path } from "./path";
import { END, listOf, positionOf } from "./siblings";

/** Actions of Markdown with actions inside. */
const CONTAINERS = ["Loop", "Cond", "Else"];

function canAdd(kind: string, list: string, adding: string | undefined, part: Part | undefined): boolean {
  if (list !== adding) return false;
  return kind !== "Else" || part?.kind === "Cond";
}

type AddPartProps = {
  inspection: Inspection;
  /** The list to which a part is added. */
  list: string;
  part: Part | undefined;
  onClose: () => void;
  onAdd: () => void;
  change: (edits: Edit[]) => Promise<Outcome>;
};

export function AddPart({ inspection, list, part, onClose, onAdd, change }: AddPartProps) {
  return (
    <AddDialog
      kinds={inspection.kinds.filter((kind) => canAdd(kind.name, kind.list, list, part))}
      onClose={onClose}
      onAdd={(kind) => {
        onClose();
        onAdd();
        const isInside = kind.list === "elements" && part && CONTAINERS.includes(part.kind);
        const target: Path = isInside ? (part.path as Path) : listOf(part, kind.list);
        const at = !isInside && part && part.list === kind.list ? positionOf(inspection, part) + 1 : END;
        void change([{ do: "add", list: target, at, kind: kind.name }]);
      }}
    />
  );
}
