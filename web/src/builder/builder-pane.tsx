// The builder: the parts of a definition, the graph of its nodes, and the form of the selected part.
import { useEffect, useMemo, useRef, useState } from "react";
import { useMay } from "../api/caller";
import type { Schemas } from "../api/client";
import type { Json } from "../api/json";
import { ByteMap } from "../places/workflow/bytes";
import type { UnsavedChanges } from "../places/workflow/run-dialog";
import type { Graph } from "../run/graph";
import { t } from "../strings";
import { Button } from "../ui/button";
import { copyText } from "../ui/copy";
import { isTyping, useKeys } from "../ui/keyboard";
import { Problem } from "../ui/problem";
import { Tabs } from "../ui/tabs";
import { AddDialog } from "./add-dialog";
import { readCopied, writeCopied } from "./clipboard";
import { type FormSchema, FormScope } from "./context";
import { type Edit, END, type Inspection, type Part, type Source } from "./definition";
import type { Outcome } from "./edit-queue";
import { Properties } from "./fields";
import { FileForm } from "./file-form";
import { FileList } from "./file-list";
import { groupProblems } from "./marks";
import { PartGraph } from "./part-graph";
import { type PartActions, PartList, WHOLE } from "./part-list";
import { nameNodeWithId, subtitleOf, titleOf } from "./part-name";
import { keyOf, type Path } from "./path";
import { RunAlone } from "./run-alone";
import type { Builder } from "./use-builder";
import { useScope } from "./use-scope";
import "./builder.css";

type BuilderPaneProps = {
  source: Source;
  format: string;
  workflow: string | undefined;
  isReadOnly: boolean;
  unsaved: UnsavedChanges | undefined;
  builder: Builder;
  /** The graph of the plan, for formats whose steps run in their order. */
  graph: Graph | undefined;
  problems: Schemas["Diagnostic"][];
  step: string | undefined;
  onStep: (step: string | undefined) => void;
  onEdit: (file: string, text: string) => void;
  /** Called with the file whose form is shown: its editor keeps the history. */
  onFile: (file: string) => void;
};

type Column = "parts" | "graph" | "form";

export default function BuilderPane(props: BuilderPaneProps) {
  const { source, format, workflow, isReadOnly, builder, problems, step, onStep } = props;
  const { inspection, edit, problem, retry, dismiss } = builder;
  const mayWrite = useMay("write");
  const [selected, setSelected] = useState<string>(WHOLE);
  const [adding, setAdding] = useState<string>();
  const [notice, setNotice] = useState<string>();
  const [column, setColumn] = useState<Column>("parts");
  // A file beside the entry, whose form is shown instead of that of a part.
  const [file, setFile] = useState<string>();
  const shown = inspection?.parts.find((one) => keyOf(one.path as Path) === selected);
  const part = file === undefined ? shown : undefined;
  const scope = useScope({ source, format, workflow, inspection, part });
  const showFile = (chosen: string | undefined) => {
    setFile(chosen);
    props.onFile(chosen ?? source.entry);
  };
  const show = (key: string, address: string | undefined) => {
    showFile(undefined);
    setSelected(key);
    followed.current = address;
    onStep(address);
  };
  const select = (key: string) => {
    setNotice(undefined);
    show(key, inspection?.parts.find((one) => keyOf(one.path as Path) === key)?.step ?? undefined);
  };
  // A step of the address is selected when the page opens, and when the cursor of the source moves to it.
  const followed = useRef<string | undefined>(undefined);
  useEffect(() => {
    if (!inspection || step === followed.current) return;
    followed.current = step;
    const found = inspection.parts.find((one) => step !== undefined && one.step === step);
    if (found) setSelected(keyOf(found.path as Path));
  }, [step, inspection]);
  const change = async (edits: Edit[]) => {
    setNotice(undefined);
    const outcome = await edit(edits);
    if (outcome.state === "done" && outcome.part) show(keyOf(outcome.part), undefined);
    return outcome;
  };
  const actions = usePartActions({ inspection, source, format, change, show, setAdding, setNotice });
  const paste = (text: string) => {
    const copied = readCopied(text);
    if (!copied) {
      setNotice(t.build.pasteNothing);
    } else if (copied.format !== format) {
      const name = (id: string) => t.build.formats[id]?.name ?? id;
      setNotice(t.build.pasteOther(name(copied.format), name(format)));
    } else {
      const at = part && part.list === copied.list ? positionOf(inspection, part) + 1 : END;
      void change([{ do: "paste", list: listOf(part, copied.list), at, text: copied.text }]);
    }
  };
  usePartKeys({ part, isReadOnly, actions, paste });
  const grouped = useMemo(() => groupProblems(inspection, problems), [inspection, problems]);
  if (!inspection) return <p className="empty">{t.loading}</p>;
  if (inspection.problem) {
    return (
      <div className="builder-problem">
        <Problem severity="warning">
          {inspection.problem}. {t.build.unreadable}
        </Problem>
      </div>
    );
  }
  const kinds = inspection.kinds.filter((kind) => canAdd(kind.name, kind.list, adding, part));
  const own = grouped.messages.get(part && keyOf(part.path as Path)) ?? [];
  return (
    <FormScope value={{ isReadOnly, edit: change, problems: own, ...scope }}>
      <div className="builder-tabs">
        <Tabs
          label={t.build.build}
          selected={column}
          onSelect={setColumn}
          tabs={[
            { name: "parts", title: t.build.parts },
            { name: "graph", title: t.workflow.graph },
            { name: "form", title: t.build.form },
          ]}
        />
      </div>
      <div className="builder" data-column={column}>
        <div className="builder-parts">
          {isReadOnly && <p className="soft builder-note">{mayWrite ? t.build.readOnly : t.key.noWrite}</p>}
          <PartList
            inspection={inspection}
            selected={file === undefined ? selected : undefined}
            marked={grouped.marks}
            isReadOnly={isReadOnly}
            actions={actions}
            onSelect={select}
            onOpen={(key) => {
              select(key);
              setColumn("form");
            }}
          />
          <FileList
            files={otherFiles(source)}
            selected={file}
            onSelect={(chosen) => {
              showFile(chosen);
              setColumn("form");
            }}
          />
          {!isReadOnly && inspection.lists.length > 0 && <PasteButton onPaste={paste} onNotice={setNotice} />}
        </div>
        <section className="builder-graph" aria-label={t.workflow.graph}>
          <PartGraph
            graph={props.graph}
            format={format}
            isReadOnly={isReadOnly}
            inspection={inspection}
            selected={selected}
            marked={grouped.marks}
            onSelect={select}
            change={change}
          />
        </section>
        <section className="builder-form" aria-label={t.build.form}>
          {problem && (
            <Problem>
              {t.build.failed} {problem}{" "}
              <Button onClick={retry ?? dismiss}>{retry ? t.retryLoading : t.close}</Button>
            </Problem>
          )}
          {notice && <Problem severity="warning">{notice}</Problem>}
          {file === undefined ? (
            <PartForm key={selected} inspection={inspection} part={part} onSelect={select} />
          ) : (
            <FileForm
              key={file}
              file={file}
              text={source.files[file] ?? ""}
              format={format}
              isReadOnly={isReadOnly}
              names={scope.names}
              onEdit={props.onEdit}
            />
          )}
          {part && workflow && (
            <RunAlone
              part={part}
              form={(inspection.forms[part.form] ?? {}) as FormSchema}
              name={titleOf(part, inspection)}
              workflow={workflow}
              unsaved={props.unsaved}
            />
          )}
          {part?.list === "nodes" && !isReadOnly && format !== "steps" && (
            <ConnectForm inspection={inspection} part={part} change={change} canEnd={format === "graph"} />
          )}
        </section>
      </div>
      {adding && (
        <AddDialog
          kinds={kinds}
          onClose={() => setAdding(undefined)}
          onAdd={(kind) => {
            setAdding(undefined);
            setColumn("form");
            const isInside = kind.list === "elements" && part && CONTAINERS.includes(part.kind);
            const list: Path = isInside ? (part.path as Path) : listOf(part, kind.list);
            const at = !isInside && part && part.list === kind.list ? positionOf(inspection, part) + 1 : END;
            void change([{ do: "add", list, at, kind: kind.name }]);
          }}
        />
      )}
    </FormScope>
  );
}

/** The files beside the entry. */
function otherFiles(source: Source): string[] {
  return Object.keys(source.files)
    .filter((file) => file !== source.entry)
    .sort();
}

/** Actions of Markdown with actions inside. */
const CONTAINERS = ["Loop", "Cond", "Else"];

function canAdd(kind: string, list: string, adding: string | undefined, part: Part | undefined): boolean {
  if (list !== adding) return false;
  return kind !== "Else" || part?.kind === "Cond";
}

/** The list to which a part is added: next to the selected one. */
function listOf(part: Part | undefined, list: string): Path {
  if (part?.list !== list || part.parent == null) return [list];
  return list === "elements" ? ["elements", part.parent] : (part.path.slice(0, -1) as Path);
}

/** The position of a part among those around which there is the same part. */
function positionOf(inspection: Inspection | undefined, part: Part): number {
  const siblings =
    inspection?.parts.filter((one) => one.list === part.list && one.parent === part.parent) ?? [];
  return siblings.findIndex((one) => keyOf(one.path as Path) === keyOf(part.path as Path));
}

type ActionInput = {
  inspection: Inspection | undefined;
  source: Source;
  format: string;
  change: (edits: Edit[]) => Promise<Outcome>;
  show: (key: string, address: string | undefined) => void;
  setAdding: (list: string) => void;
  setNotice: (text: string) => void;
};

function usePartActions({
  inspection,
  source,
  format,
  change,
  show,
  setAdding,
  setNotice,
}: ActionInput): PartActions {
  const pathOf = (part: Part) => part.path as Path;
  const siblings = (part: Part) =>
    inspection?.parts.filter((one) => one.list === part.list && one.parent === part.parent) ?? [];
  const move = (part: Part, to: number) => {
    if (to < 0 || to >= siblings(part).length) return;
    void change([{ do: "move", path: pathOf(part), at: to }]);
  };
  return {
    add: setAdding,
    move: (part, by) => move(part, positionOf(inspection, part) + by),
    moveTo: (part, target) => move(part, positionOf(inspection, target)),
    duplicate: (part) => void change([{ do: "duplicate", path: pathOf(part) }]),
    remove: (part) => {
      show(WHOLE, undefined);
      void change([{ do: "remove", path: pathOf(part) }]);
    },
    copy: (part) => {
      const text = source.files[source.entry] ?? "";
      const map = new ByteMap(text);
      const copied = textOfPart(text, map, inspection, part);
      const written = writeCopied({ format, list: part.list, text: copied });
      void copyText(written).then((isCopied) =>
        setNotice(isCopied ? t.build.copiedPart(titleOf(part)) : t.notCopied),
      );
    },
  };
}

/** The text of a part. That of an action begins with the text in front of it. */
function textOfPart(text: string, map: ByteMap, inspection: Inspection | undefined, part: Part): string {
  const end = map.toUnit(part.start + part.length);
  if (part.list !== "elements") return text.slice(map.toUnit(part.start), end);
  const before = (part.value as { text?: Json }).text;
  const own = text.slice(map.toUnit(part.start), end);
  return inspection && typeof before === "string" && before !== "" ? `${before}\n\n${own}` : own;
}

type KeyInput = {
  part: Part | undefined;
  isReadOnly: boolean;
  actions: PartActions;
  paste: (text: string) => void;
};

function usePartKeys({ part, isReadOnly, actions, paste }: KeyInput): void {
  useKeys((event) => {
    if (isReadOnly || isTyping(event) || !part) return;
    const isCommand = event.ctrlKey || event.metaKey;
    const done = () => event.preventDefault();
    if (event.altKey && (event.key === "ArrowUp" || event.key === "ArrowDown")) {
      done();
      actions.move(part, event.key === "ArrowUp" ? -1 : 1);
    } else if (event.key === "Delete") {
      done();
      actions.remove(part);
    } else if (isCommand && event.key === "d") {
      done();
      actions.duplicate(part);
    } else if (isCommand && event.key === "c" && window.getSelection()?.isCollapsed !== false) {
      done();
      actions.copy(part);
    }
  });
  useEffect(() => {
    const listen = (event: ClipboardEvent) => {
      const target = event.composedPath()[0];
      const isField =
        target instanceof HTMLElement &&
        (target.isContentEditable || /^(INPUT|TEXTAREA)$/.test(target.tagName));
      const text = event.clipboardData?.getData("text/plain");
      if (isReadOnly || isField || !text) return;
      event.preventDefault();
      paste(text);
    };
    window.addEventListener("paste", listen);
    return () => window.removeEventListener("paste", listen);
  });
}

type PasteButtonProps = { onPaste: (text: string) => void; onNotice: (text: string) => void };

function PasteButton({ onPaste, onNotice }: PasteButtonProps) {
  const read = async () => {
    try {
      onPaste(await navigator.clipboard.readText());
    } catch {
      onNotice(t.build.pasteBlocked);
    }
  };
  return (
    <Button look="quiet" icon="paste" onClick={() => void read()}>
      {t.build.paste}
    </Button>
  );
}

type PartFormProps = {
  inspection: Inspection;
  part: Part | undefined;
  onSelect: (key: string) => void;
};

function PartForm({ inspection, part, onSelect }: PartFormProps) {
  const form = (part ? inspection.forms[part.form] : inspection.form) as FormSchema | null | undefined;
  const agent = part && agentOf(inspection, part);
  return (
    <>
      <header className="form-head">
        <h2 className="cut">{part ? titleOf(part, inspection) : t.build.whole}</h2>
        {part && <span className="badge">{subtitleOf(part)}</span>}
      </header>
      <div className="form-fields">
        <Properties
          schema={form ?? {}}
          value={(part ? part.value : inspection.value) as Json}
          path={(part ? part.path : inspection.root) as Path}
        />
        {agent && (
          <Button look="quiet" icon="agent" onClick={() => onSelect(keyOf(agent.path as Path))}>
            {t.build.agentOf}: {titleOf(agent)}
          </Button>
        )}
      </div>
    </>
  );
}

/** The agent of a node, if it is in the definition. */
function agentOf(inspection: Inspection, part: Part): Part | undefined {
  if (part.list !== "nodes") return undefined;
  const value = part.value as Record<string, unknown>;
  const id = value.agentId ?? value.agent_id;
  return inspection.parts.find((one) => {
    const own = one.value as Record<string, unknown>;
    return one.list === "agents" && typeof id === "string" && (own.id === id || own.agentId === id);
  });
}

type ConnectFormProps = {
  inspection: Inspection;
  part: Part;
  canEnd: boolean;
  change: (edits: Edit[]) => Promise<Outcome>;
};

const END_VALUE = "end";

/** Connects a node without a mouse. */
function ConnectForm({ inspection, part, canEnd, change }: ConnectFormProps) {
  const [target, setTarget] = useState("");
  const nodes = inspection.parts.filter((one) => one.list === "nodes" && one !== part);
  const connect = async () => {
    const to = nodes.find((one) => keyOf(one.path as Path) === target);
    await change([{ do: "connect", path: part.path as Path, target: to ? (to.path as Path) : null }]);
    setTarget("");
  };
  return (
    <div className="connect-form">
      <label>
        <b>{t.build.connectTo}</b>
        <select className="input" value={target} onChange={(event) => setTarget(event.target.value)}>
          <option value="" />
          {nodes.map((node) => (
            <option key={keyOf(node.path as Path)} value={keyOf(node.path as Path)}>
              {nameNodeWithId(node)}
            </option>
          ))}
          {canEnd && <option value={END_VALUE}>{t.build.connectEnd}</option>}
        </select>
      </label>
      <Button disabled={target === ""} onClick={() => void connect()}>
        {t.build.connect}
      </Button>
    </div>
  );
}
