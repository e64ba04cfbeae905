// Runs the selected part alone, or shows why that is not possible.
import { lazy, Suspense, useId, useState } from "react";
import type { Json } from "../api/json";
import type { EditedStep } from "../places/run/alone-inputs";
import type { UnsavedChanges } from "../places/workflow/run-dialog";
import { t } from "../strings";
import { Button } from "../ui/button";
import { type FormSchema, useForm } from "./context";
import type { Part } from "./definition";
import { listReferences } from "./references";

const StepAloneDialog = lazy(() =>
  import("../places/run/step-alone").then((part) => ({ default: part.StepAloneDialog })),
);

type RunAloneProps = {
  part: Part;
  /** The form of the part, which defines where it refers to variables. */
  form: FormSchema;
  name: string;
  workflow: string;
  unsaved: UnsavedChanges | undefined;
};

export function RunAlone({ part, form, name, workflow, unsaved }: RunAloneProps) {
  const [isOpen, setIsOpen] = useState(false);
  const id = useId();
  const { step } = part;
  const { variables, last } = useForm();
  const readEdited = (): EditedStep => {
    const known = new Set(variables.map((variable) => variable.name));
    const references = listReferences(form, part.value as Json).filter((name) => known.has(name));
    return { references, last };
  };
  return (
    <div className="run-alone">
      <Button
        icon="play"
        disabled={!step}
        aria-describedby={step ? undefined : id}
        onClick={() => setIsOpen(true)}
      >
        {t.alone.open}
      </Button>
      {!step && (
        <small id={id} className="faint">
          {t.alone.noStep}
        </small>
      )}
      {isOpen && step && (
        <Suspense>
          <StepAloneDialog
            workflow={workflow}
            path={step}
            name={name}
            run="last"
            unsaved={unsaved}
            edited={unsaved && readEdited()}
            onClose={() => setIsOpen(false)}
          />
        </Suspense>
      )}
    </div>
  );
}
