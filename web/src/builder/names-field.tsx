// A truth value for all or none of some things, such as the tools that need approval, or the names of some of them.
import { type ComponentType, useEffect, useId, useState } from "react";
import type { Json } from "../api/json";
import { t } from "../strings";
import { useForm } from "./context";
import { useStore } from "./entry";
import { type FieldProps, Frame } from "./frame";
import { unlessRefused } from "./unless-refused";

/** What each choice stores; the choices without a value here show that the value is unset, or another one. */
const VALUES = new Map<string, Json>([
  ["none", false],
  ["all", true],
  ["some", []],
]);

function choiceOf(value: Json | undefined): string {
  if (value === undefined || value === null) return "";
  if (Array.isArray(value)) return "some";
  return typeof value === "boolean" ? (value ? "all" : "none") : "other";
}

/** `rows` is the field of a list. */
export function NamesField({ rows: Rows, ...props }: FieldProps & { rows: ComponentType<FieldProps> }) {
  const { schema, value, isRequired } = props;
  const { isReadOnly } = useForm();
  const id = useId();
  const store = useStore(props);
  const stored = choiceOf(value);
  const [chosen, setChosen] = useState(stored);
  useEffect(() => setChosen(stored), [stored]);
  const names = schema.anyOf?.find((one) => one.type === "array");
  return (
    <>
      <Frame id={id} props={props}>
        <select
          id={id}
          className="input"
          value={chosen}
          disabled={isReadOnly}
          onChange={(event) => {
            setChosen(event.target.value);
            void unlessRefused(store(VALUES.get(event.target.value)), () => setChosen(stored));
          }}
        >
          {(!isRequired || chosen === "") && <option value="">{t.build.unset}</option>}
          {chosen === "other" && <option value="other">{JSON.stringify(value)}</option>}
          <option value="none">{t.build.noneOf}</option>
          <option value="all">{t.build.allOf}</option>
          <option value="some">{t.build.someOf}</option>
        </select>
      </Frame>
      {names && Array.isArray(value) && <Rows {...props} schema={names} label={t.build.names} />}
    </>
  );
}
