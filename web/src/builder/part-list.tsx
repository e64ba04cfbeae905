// The parts of a definition as lists. A part is moved by dragging, with buttons, or with Alt and the arrow keys.
import { type DragEvent, Fragment, type KeyboardEvent, useState } from "react";
import { t } from "../strings";
import { Button, IconButton } from "../ui/button";
import { Icon } from "../ui/icon";
import { type Mark, ProblemMark } from "../ui/state";
import type { Inspection, Part } from "./definition";
import { iconOf, subtitleOf, titleOf } from "./part-name";
import { keyOf } from "./path";

/** The part that is the definition itself. */
export const WHOLE = "";

export type PartActions = {
  add: (list: string) => void;
  move: (part: Part, by: number) => void;
  moveTo: (part: Part, target: Part) => void;
  duplicate: (part: Part) => void;
  remove: (part: Part) => void;
  copy: (part: Part) => void;
};

type PartListProps = {
  inspection: Inspection;
  selected: string | undefined;
  marked: ReadonlyMap<string, Mark>;
  isReadOnly: boolean;
  actions: PartActions;
  onSelect: (key: string) => void;
  /** Called instead when a part is clicked, rather than passed with the arrow keys. */
  onOpen: (key: string) => void;
};

export function PartList(props: PartListProps) {
  const { inspection, selected, isReadOnly, actions, onSelect, onOpen } = props;
  const [dragged, setDragged] = useState<Part>();
  const lists = inspection.lists.map((list) => ({
    name: list.name,
    parts: inspection.parts.filter((part) => part.list === list.name),
    canAdd: inspection.kinds.some((kind) => kind.list === list.name),
  }));
  const order = [WHOLE, ...lists.flatMap((list) => list.parts.map((part) => keyOf(part.path as never)))];
  const onKeyDown = (event: KeyboardEvent<HTMLElement>) => {
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (step !== undefined && !event.altKey) {
      event.preventDefault();
      event.stopPropagation();
      const next = order[Math.min(order.length - 1, Math.max(0, order.indexOf(selected ?? WHOLE) + step))];
      if (next === undefined) return;
      onSelect(next);
      event.currentTarget.querySelector<HTMLElement>(`[data-part="${CSS.escape(next)}"]`)?.focus();
    }
  };
  return (
    <nav className="part-list" aria-label={t.build.parts} onKeyDown={onKeyDown}>
      <WholeItem isSelected={selected === WHOLE} onOpen={() => onOpen(WHOLE)} />
      {lists.map((list) => (
        <Fragment key={list.name}>
          <div className="part-head">
            <h2>
              {t.build.list(list.name)} <span className="faint number">{list.parts.length}</span>
            </h2>
            {list.canAdd && !isReadOnly && (
              <Button icon="plus" look="quiet" onClick={() => actions.add(list.name)}>
                <span>
                  {t.build.add}
                  <span className="only-read"> {t.build.one(list.name)}</span>
                </span>
              </Button>
            )}
          </div>
          {list.parts.length > 0 && (
            <ol>
              {list.parts.map((part) => {
                const key = keyOf(part.path as never);
                return (
                  <PartItem
                    key={key}
                    {...props}
                    id={key}
                    part={part}
                    isSelected={key === selected}
                    dragged={dragged}
                    onDrag={setDragged}
                  />
                );
              })}
            </ol>
          )}
        </Fragment>
      ))}
    </nav>
  );
}

/** The definition itself: its name, description and settings. */
function WholeItem({ isSelected, onOpen }: { isSelected: boolean; onOpen: () => void }) {
  return (
    <button
      type="button"
      className="part"
      data-part={WHOLE}
      aria-current={isSelected || undefined}
      onClick={onOpen}
    >
      <Icon name="settings" />
      <span className="part-text">
        <span className="part-title cut">{t.build.whole}</span>
        <span className="part-kind cut">{t.build.wholeHelp}</span>
      </span>
    </button>
  );
}

type PartItemProps = PartListProps & {
  id: string;
  part: Part;
  isSelected: boolean;
  dragged: Part | undefined;
  onDrag: (part: Part | undefined) => void;
};

function PartItem(props: PartItemProps) {
  const { inspection, id, part, isSelected, marked, isReadOnly, actions, dragged, onDrag, onOpen } = props;
  const drop = (event: DragEvent) => {
    event.preventDefault();
    if (dragged && dragged !== part) actions.moveTo(dragged, part);
    onDrag(undefined);
  };
  return (
    <li
      className="part-item"
      data-depth={Math.min(depthOf(inspection, part), 4)}
      data-dragged={dragged === part || undefined}
      draggable={!isReadOnly}
      onDragStart={() => onDrag(part)}
      onDragEnd={() => onDrag(undefined)}
      onDragOver={(event) => canDrop(dragged, part) && event.preventDefault()}
      onDrop={drop}
    >
      <button
        type="button"
        className="part"
        data-part={id}
        aria-current={isSelected || undefined}
        onClick={() => onOpen(id)}
      >
        <Icon name={iconOf(part)} />
        <span className="part-text">
          <span className="part-title cut">{titleOf(part, inspection)}</span>
          <span className="part-kind cut">{subtitleOf(part)}</span>
        </span>
        <ProblemMark mark={marked.get(id)} />
      </button>
      {isSelected && !isReadOnly && <PartTools part={part} actions={actions} />}
    </li>
  );
}

function PartTools({ part, actions }: { part: Part; actions: PartActions }) {
  return (
    <div className="part-tools">
      <IconButton icon="up" label={t.build.moveUp} onClick={() => actions.move(part, -1)} />
      <IconButton icon="down" label={t.build.moveDown} onClick={() => actions.move(part, 1)} />
      <IconButton icon="duplicate" label={t.build.duplicate} onClick={() => actions.duplicate(part)} />
      <IconButton icon="copy" label={t.build.copyPart} onClick={() => actions.copy(part)} />
      <IconButton icon="trash" label={t.build.remove} onClick={() => actions.remove(part)} />
    </div>
  );
}

/** The number of parts around a part. */
function depthOf(inspection: Inspection, part: Part): number {
  let depth = 0;
  let parent = part.parent;
  while (parent != null && depth < 8) {
    depth += 1;
    parent = inspection.parts[parent]?.parent;
  }
  return depth;
}

/** Whether a part can take the place of another one: both have the same list, and the same part around them. */
export function canDrop(dragged: Part | undefined, target: Part): boolean {
  return dragged !== undefined && dragged.list === target.list && dragged.parent === target.parent;
}
