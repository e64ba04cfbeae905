// Runs the selected part alone, or says why that is not possible.
import { lazy, Suspense, useId, useState } from "react";
import { t } from "../strings";
import { Button } from "../ui/button";
import type { Part } from "./definition";

const StepAloneDialog = lazy(() =>
  import("../places/run/step-alone").then((part) => ({ default: part.StepAloneDialog })),
);

type RunAloneProps = { part: Part; workflow: string; isUnsaved: boolean };

export function RunAlone({ part, workflow, isUnsaved }: RunAloneProps) {
  const [isOpen, setIsOpen] = useState(false);
  const id = useId();
  const { step } = part;
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
            run="last"
            isUnsaved={isUnsaved}
            onClose={() => setIsOpen(false)}
          />
        </Suspense>
      )}
    </div>
  );
}
