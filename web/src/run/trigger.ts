// What started a run, for people.
import { t } from "../strings";

export function nameTrigger({ kind, id }: { kind: string; id?: string | null | undefined }): string {
  const name = t.run.triggers[kind] ?? kind;
  return id ? `${name} ${id}` : name;
}
