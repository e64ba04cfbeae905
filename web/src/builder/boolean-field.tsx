// A truth value: a box to check. Another value, such as a text, stays until a truth value is chosen.
import { useEffect, useId, useState } from "react";
import { t } from "../strings";
import { useForm } from "./context";
import { useStore } from "./entry";
import { type FieldProps, Frame } from "./frame";
import { unlessRefused } from "./unless-refused";

export function BooleanField(props: FieldProps) {
  const { value } = props;
  const isOther = value !== undefined && value !== null && typeof value !== "boolean";
  return isOther ? <OtherValueField {...props} /> : <CheckField {...props} />;
}

function CheckField(props: FieldProps) {
  const { schema, value, label } = props;
  const { isReadOnly } = useForm();
  const id = useId();
  const store = useStore(props);
  const stored = typeof value === "boolean" ? value : schema.default === true;
  const [isChecked, setIsChecked] = useState(stored);
  useEffect(() => setIsChecked(stored), [stored]);
  return (
    <div className="field field-check">
      <input
        id={id}
        type="checkbox"
        checked={isChecked}
        disabled={isReadOnly}
        onChange={(event) => {
          setIsChecked(event.target.checked);
          void unlessRefused(store(event.target.checked), () => setIsChecked(stored));
        }}
      />
      <label htmlFor={id}>
        <b>{label}</b>
        {schema.description && <small className="faint">{schema.description}</small>}
      </label>
    </div>
  );
}

const OTHER = "other";

function OtherValueField(props: FieldProps) {
  const { value } = props;
  const { isReadOnly } = useForm();
  const id = useId();
  const store = useStore(props);
  const [chosen, setChosen] = useState(OTHER);
  return (
    <Frame id={id} props={props}>
      <select
        id={id}
        className="input"
        value={chosen}
        disabled={isReadOnly}
        onChange={(event) => {
          setChosen(event.target.value);
          void unlessRefused(store(event.target.value === "true"), () => setChosen(OTHER));
        }}
      >
        <option value={OTHER} disabled>
          {JSON.stringify(value)}
        </option>
        <option value="true">{t.build.yes}</option>
        <option value="false">{t.build.no}</option>
      </select>
    </Frame>
  );
}
