// The inputs of a step that runs alone, while its text is changed: the server knows the saved text only.
import type { Schemas } from "../../api/client";
import type { Json } from "../../api/json";
import type { Values } from "../../run/values";

type StepAlone = Schemas["StepAlone"];

/** The variables that the changed text refers to, and the values of the newest run. */
export type EditedStep = { references: readonly string[]; last: ReadonlyMap<string, Json> };

export function valuesOf(step: StepAlone): Values {
  return (step.values ?? {}) as Values;
}

/** A step with the inputs that its changed text adds, and with the values that are known of them. */
export function addEdited(step: StepAlone, edited: EditedStep | undefined): StepAlone {
  if (!edited) return step;
  const known = new Set(step.inputs.map(({ name }) => name));
  const added = edited.references.filter((name) => !known.has(name));
  const inputs = [
    ...step.inputs,
    ...added.map((name) => ({ name, kind: "any", is_file: false, required: false })),
  ];
  const values = { ...valuesOf(step) };
  for (const { name } of inputs) {
    const value = values[name] ?? edited.last.get(name);
    if (value !== undefined) values[name] = value;
  }
  return { ...step, inputs, values };
}

/**
 * The inputs for a step that was saved meanwhile: the entries for the step that was shown, and the known values of
 * inputs that were not. Undefined if one of these has none.
 */
export function completeInputs(saved: StepAlone, shown: StepAlone, entered: Values): Values | undefined {
  const seen = new Set(shown.inputs.map(({ name }) => name));
  const complete: Values = {};
  for (const { name } of saved.inputs) {
    const value = seen.has(name) ? entered[name] : valuesOf(saved)[name];
    if (value !== undefined) complete[name] = value;
    else if (!seen.has(name)) return undefined;
  }
  return complete;
}

/** The entries, without those that the step does not read. */
export function pickInputs(step: StepAlone, entered: Values): Values {
  return Object.fromEntries(
    Object.entries(entered).filter(([name]) => step.inputs.some((input) => input.name === name)),
  );
}
