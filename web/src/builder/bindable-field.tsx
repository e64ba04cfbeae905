// A field whose value can also be a reference, which is entered as a text in place of the field.
import { type ReactNode, useState } from "react";
import { t } from "../strings";
import { Button } from "../ui/button";
import { useForm } from "./context";
import { isBound, isEmptyData } from "./data-text";
import { useStore } from "./entry";
import type { FieldProps } from "./frame";
import { TemplateField } from "./template-field";
import { unlessRefused } from "./unless-refused";

/** `children` is the field for values that are no reference. */
export function BindableField({ children, ...props }: FieldProps & { children: ReactNode }) {
  const { schema, value, label } = props;
  const { isReadOnly } = useForm();
  const store = useStore(props);
  const bound = isBound(schema, value);
  const [wasBound, setWasBound] = useState(bound);
  const isCompound = schema.type === "array" || schema.type === "object";
  // A list without items is most often to become a reference.
  const [isText, setIsText] = useState(bound || (isCompound && isEmptyData(value)));
  const [isListOpen, setIsListOpen] = useState(false);
  if (bound !== wasBound) {
    setWasBound(bound);
    if (bound) setIsText(true);
  }
  const leaveText = () => {
    setIsText(false);
    setIsListOpen(false);
    if (bound) void unlessRefused(store(undefined), () => setIsText(true));
  };
  const turn = (name: string, action: () => void) => (
    <Button look="quiet" aria-label={`${name}: ${label}`} onClick={action}>
      {name}
    </Button>
  );
  if (isText) {
    const back = isCompound ? t.build.enterRows : t.build.chooseValue;
    return (
      <TemplateField {...props} isListOpen={isListOpen}>
        {turn(back, leaveText)}
      </TemplateField>
    );
  }
  const bind = () => {
    setIsText(true);
    setIsListOpen(true);
  };
  return (
    <div className="bindable">
      {children}
      {!isReadOnly && turn(t.build.useVariable, bind)}
    </div>
  );
}
