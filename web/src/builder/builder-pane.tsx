// The builder: the parts of a definition, the graph of its nodes, and the form of the selected part.
import { useEffect, useMemo, useRef, useState } from "react";
import { useMay } from "../api/caller";
import type { Schemas } from "../api/client";
import type { UnsavedChanges } from "../places/workflow/run-dialog";
import type { Graph } from "../run/graph";
import { t } from "../strings";
import { Button } from "../ui/button";
import { Problem } from "../ui/problem";
import { Tabs } from "../ui/tabs";
import { AddPart } from "./add-part";
import { mapSteps } from "./build-graph";
import { type FormSchema, FormScope } from "./context";
import type { Edit, Inspection, NameLists, Part, Source } from "./definition";
import { ChangeFailure, UnknownParts } from "./failures";
import { FileForm } from "./file-form";
import { FileList } from "./file-list";
import { groupProblems } from "./marks";
import { pastePart, usePartActions, usePartKeys } from "./part-actions";
import { ConnectForm, PartForm } from "./part-form";
import { PartGraph } from "./part-graph";
import { type PartActions, PartList, WHOLE } from "./part-list";
import { titleOf } from "./part-name";
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
  /** What is said instead of a graph that is missing. */
  whyNoGraph: string;
  problems: Schemas["Diagnostic"][];
  step: string | undefined;
  onStep: (step: string | undefined) => void;
  onEdit: (file: string, text: string) => void;
  /** Called with the file whose form is shown: its editor keeps the history. */
  onFile: (file: string) => void;
};

type Column = "parts" | "graph" | "form";

/** The selection: a part, the whole definition, or a file next to the entry, whose form is shown instead. */
function useSelection({ builder, source, step, onStep, onFile }: BuilderPaneProps) {
  const { inspection } = builder;
  const [selected, setSelected] = useState<string>(WHOLE);
  const [file, setFile] = useState<string>();
  const find = (key: string) => inspection?.parts.find((one) => keyOf(one.path as Path) === key);
  const showFile = (chosen: string | undefined) => {
    setFile(chosen);
    onFile(chosen ?? source.entry);
  };
  // A step of the address is selected when the page opens, and when the cursor of the source moves to it.
  const followed = useRef<string | undefined>(undefined);
  const show = (key: string, address: string | undefined) => {
    showFile(undefined);
    setSelected(key);
    followed.current = address;
    onStep(address);
  };
  useEffect(() => {
    if (!inspection || step === followed.current) return;
    followed.current = step;
    const found = step === undefined ? undefined : mapSteps(inspection.parts).get(step);
    if (found) setSelected(keyOf(found.path as Path));
  }, [step, inspection]);
  const part = file === undefined ? find(selected) : undefined;
  return { selected, part, file, showFile, show, stepOf: (key: string) => find(key)?.step ?? undefined };
}

export default function BuilderPane(props: BuilderPaneProps) {
  const { source, format, workflow, isReadOnly, builder, problems } = props;
  const { inspection } = builder;
  const [adding, setAdding] = useState<string>();
  const [notice, setNotice] = useState<string>();
  const [column, setColumn] = useState<Column>("parts");
  const selection = useSelection(props);
  const { selected, part, file, show } = selection;
  const scope = useScope({ source, format, workflow, inspection, part });
  const select = (key: string) => {
    setNotice(undefined);
    show(key, selection.stepOf(key));
  };
  const change = async (edits: Edit[]) => {
    setNotice(undefined);
    const outcome = await builder.edit(edits);
    if (outcome.state === "done" && outcome.part) show(keyOf(outcome.part), undefined);
    return outcome;
  };
  const actions = usePartActions({ inspection, source, format, change, show, setAdding, setNotice });
  const paste = (text: string) =>
    void pastePart(text, { inspection, source, format, part, change, setNotice });
  usePartKeys({ part, isReadOnly, actions, paste });
  const grouped = useMemo(() => groupProblems(inspection, problems), [inspection, problems]);
  if (!inspection) return <UnknownParts unknown={builder.unknown} />;
  if (inspection.problem) return <Unreadable problem={inspection.problem} />;
  const own = grouped.messages.get(part && keyOf(part.path as Path)) ?? [];
  const shared = { inspection, selected, marked: grouped.marks, isReadOnly, onSelect: select, change };
  return (
    <FormScope value={{ isReadOnly, edit: change, problems: own, ...scope }}>
      <ColumnTabs column={column} onSelect={setColumn} />
      <div className="builder" data-column={column}>
        <PartsColumn
          {...shared}
          selected={file === undefined ? selected : undefined}
          source={source}
          file={file}
          actions={actions}
          onFile={selection.showFile}
          onForm={() => setColumn("form")}
          paste={paste}
          onNotice={setNotice}
        />
        <section className="builder-graph" aria-label={t.workflow.graph}>
          <PartGraph
            {...shared}
            graph={props.graph}
            whyNoGraph={props.whyNoGraph}
            format={format}
            hasOldSteps={builder.hasOldSteps}
          />
        </section>
        <FormColumn {...props} {...shared} part={part} file={file} notice={notice} names={scope.names} />
      </div>
      {adding && (
        <AddPart
          inspection={inspection}
          list={adding}
          part={part}
          change={change}
          onClose={() => setAdding(undefined)}
          onAdd={() => setColumn("form")}
        />
      )}
    </FormScope>
  );
}

function Unreadable({ problem }: { problem: string }) {
  return (
    <div className="builder-problem">
      <Problem severity="warning">
        {problem}. {t.build.unreadable}
      </Problem>
    </div>
  );
}

/** Chooses the column where only one has room. */
function ColumnTabs({ column, onSelect }: { column: Column; onSelect: (column: Column) => void }) {
  return (
    <div className="builder-tabs">
      <Tabs
        label={t.build.build}
        selected={column}
        onSelect={onSelect}
        tabs={[
          { name: "parts", title: t.build.parts },
          { name: "graph", title: t.workflow.graph },
          { name: "form", title: t.build.form },
        ]}
      />
    </div>
  );
}

type PartsColumnProps = {
  inspection: Inspection;
  source: Source;
  selected: string | undefined;
  file: string | undefined;
  marked: ReturnType<typeof groupProblems>["marks"];
  isReadOnly: boolean;
  actions: PartActions;
  onSelect: (key: string) => void;
  onFile: (file: string) => void;
  /** Shows the column of the form, where only one has room. */
  onForm: () => void;
  paste: (text: string) => void;
  onNotice: (text: string) => void;
};

function PartsColumn(props: PartsColumnProps) {
  const { inspection, source, selected, file, marked, isReadOnly, actions, onSelect, onForm } = props;
  const mayWrite = useMay("write");
  return (
    <div className="builder-parts">
      {isReadOnly && <p className="soft builder-note">{mayWrite ? t.build.readOnly : t.key.noWrite}</p>}
      <PartList
        inspection={inspection}
        selected={selected}
        marked={marked}
        isReadOnly={isReadOnly}
        actions={actions}
        onSelect={onSelect}
        onOpen={(key) => {
          onSelect(key);
          onForm();
        }}
      />
      <FileList
        files={otherFiles(source)}
        selected={file}
        onSelect={(chosen) => {
          props.onFile(chosen);
          onForm();
        }}
      />
      {!isReadOnly && inspection.lists.length > 0 && (
        <PasteButton onPaste={props.paste} onNotice={props.onNotice} />
      )}
    </div>
  );
}

type FormColumnProps = BuilderPaneProps & {
  inspection: Inspection;
  selected: string;
  part: Part | undefined;
  file: string | undefined;
  notice: string | undefined;
  names: NameLists | undefined;
  onSelect: (key: string) => void;
  change: (edits: Edit[]) => ReturnType<Builder["edit"]>;
};

/** The form of what is selected, and what went wrong. */
function FormColumn(props: FormColumnProps) {
  const { inspection, selected, part, file, notice, builder } = props;
  return (
    <section className="builder-form" aria-label={t.build.form}>
      <ChangeFailure builder={builder} />
      {notice && <Problem severity="warning">{notice}</Problem>}
      {file === undefined ? (
        <PartForm
          key={`${selected} ${builder.discards}`}
          inspection={inspection}
          part={part}
          onSelect={props.onSelect}
        />
      ) : (
        <OpenFile key={file} {...props} file={file} />
      )}
      {part && <PartExtras {...props} part={part} />}
    </section>
  );
}

type OpenFileProps = BuilderPaneProps & { file: string; names: NameLists | undefined };

function OpenFile({ file, names, source, format, isReadOnly, onEdit }: OpenFileProps) {
  const text = source.files[file] ?? "";
  return (
    <FileForm file={file} text={text} format={format} isReadOnly={isReadOnly} names={names} onEdit={onEdit} />
  );
}

type PartExtrasProps = BuilderPaneProps & {
  inspection: Inspection;
  part: Part;
  change: (edits: Edit[]) => ReturnType<Builder["edit"]>;
};

/** The lists of the parts that can run; others only describe such parts. */
const RUNNABLE = ["steps", "nodes", "elements"];

/** What can be done with a part below its form: run it alone, and connect it. */
function PartExtras(props: PartExtrasProps) {
  const { inspection, part, change, workflow, unsaved, format, isReadOnly, problems } = props;
  return (
    <>
      {workflow && mayRunAlone(part, problems) && (
        <RunAlone
          part={part}
          form={(inspection.forms[part.form] ?? {}) as FormSchema}
          name={titleOf(part, inspection)}
          workflow={workflow}
          unsaved={unsaved}
        />
      )}
      {part.list === "nodes" && !isReadOnly && format !== "steps" && (
        <ConnectForm inspection={inspection} part={part} change={change} canEnd={format === "graph"} />
      )}
    </>
  );
}

/** Whether a part is one that runs. What is a step is unknown while the definition has errors. */
function mayRunAlone({ step, list }: Part, problems: Schemas["Diagnostic"][]): boolean {
  const hasErrors = problems.some(({ severity }) => severity !== "warning");
  return step != null || (hasErrors && RUNNABLE.includes(list));
}

/** The files next to the entry. */
function otherFiles(source: Source): string[] {
  return Object.keys(source.files)
    .filter((file) => file !== source.entry)
    .sort();
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
