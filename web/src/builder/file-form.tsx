// The form of a file next to the entry: the prompt of an agent as a text, a block or an agent by its schema.
import { useMemo } from "react";
import type { Json } from "../api/json";
import { t } from "../strings";
import { Problem } from "../ui/problem";
import { type FormSchema, FormScope } from "./context";
import type { NameLists } from "./definition";
import { DONE } from "./edit-queue";
import { useEntry } from "./entry";
import { ChangeFailure, UnknownParts } from "./failures";
import { Properties } from "./fields";
import { shapeOf, unwrapText, type Wrapper, wrapText } from "./files";
import type { Path } from "./path";
import { useBuilder } from "./use-builder";
import "./builder.css";

type FileFormProps = {
  file: string;
  text: string;
  format: string;
  isReadOnly: boolean;
  names: NameLists | undefined;
  onEdit: (file: string, text: string) => void;
};

export function FileForm(props: FileFormProps) {
  const shape = shapeOf(props.file, props.format);
  return (
    <>
      <header className="form-head">
        <h2 className="cut mono" title={props.file}>
          {props.file}
        </h2>
      </header>
      <div className="form-fields">
        {!shape && <p className="soft">{t.build.fileAsSource}</p>}
        {shape?.kind === "text" && <TextFile {...props} />}
        {shape?.kind === "part" && <PartFile {...props} wrapper={shape} />}
      </div>
    </>
  );
}

const MIN_ROWS = 8;
const MAX_ROWS = 28;

function TextFile({ file, text, isReadOnly, onEdit }: FileFormProps) {
  const entry = useEntry(text, (changed) => {
    onEdit(file, changed);
    return DONE;
  });
  return (
    <label className="field">
      <span>{t.build.fileText}</span>
      <textarea
        className="input template-input"
        rows={Math.min(MAX_ROWS, Math.max(MIN_ROWS, text.split("\n").length + 1))}
        value={entry.text}
        readOnly={isReadOnly}
        onChange={(event) => entry.change(event.target.value)}
        onBlur={entry.flush}
      />
    </label>
  );
}

const ENTRY = "definition.json";

/** The form of a file that is a part of a definition. */
export function PartFile({
  file,
  text,
  format,
  isReadOnly,
  names,
  onEdit,
  wrapper,
}: FileFormProps & { wrapper: Wrapper }) {
  const { list, before, after } = wrapper;
  const source = useMemo(
    () => ({ entry: ENTRY, files: { [ENTRY]: wrapText(text, { list, before, after }) } }),
    [text, list, before, after],
  );
  const builder = useBuilder(source, format, (_, changed) => {
    const own = unwrapText(changed, wrapper);
    if (own !== undefined) onEdit(file, own);
  });
  const { inspection, edit } = builder;
  const part = inspection?.parts.find((one) => one.list === list);
  if (!inspection) return <UnknownParts unknown={builder.unknown} />;
  if (!part) {
    return (
      <Problem severity="warning">
        {inspection.problem ? `${inspection.problem}. ` : ""}
        {t.build.unreadable}
      </Problem>
    );
  }
  const scope = {
    isReadOnly,
    edit,
    names,
    own: {},
    variables: inputsOf(part.value),
    last: new Map(),
    problems: [],
  };
  return (
    <FormScope value={scope}>
      <ChangeFailure builder={builder} />
      <Properties
        key={builder.discards}
        schema={(inspection.forms[part.form] ?? {}) as FormSchema}
        value={part.value as Json}
        path={part.path as Path}
      />
    </FormScope>
  );
}

/** What the text of a block can refer to: its inputs. */
export function inputsOf(block: unknown) {
  const value = block as { input_schema?: { properties?: Record<string, { type?: unknown }> } };
  return Object.entries(value.input_schema?.properties ?? {}).map(([name, schema]) => ({
    name,
    type_name: typeof schema?.type === "string" ? schema.type : "",
    origin: "input",
    fields: [],
  }));
}
