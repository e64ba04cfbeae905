// The form of the selected part, and that of its connections.
import { useState } from "react";
import type { Json } from "../api/json";
import { t } from "../strings";
import { Button } from "../ui/button";
import type { FormSchema } from "./context";
import type { Edit, Inspection, Part } from "./definition";
import type { Outcome } from "./edit-queue";
import { Properties } from "./fields";
import { findNeeded } from "./needed";
import { nameNodeWithId, subtitleOf, titleOf } from "./part-name";
import { keyOf, type Path } from "./path";

type PartFormProps = {
  inspection: Inspection;
  part: Part | undefined;
  onSelect: (key: string) => void;
};

export function PartForm({ inspection, part, onSelect }: PartFormProps) {
  const form = (part ? inspection.forms[part.form] : inspection.form) as FormSchema | null | undefined;
  const agent = part && findNeeded(inspection, part).find((one) => one.list === "agents");
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

type ConnectFormProps = {
  inspection: Inspection;
  part: Part;
  canEnd: boolean;
  change: (edits: Edit[]) => Promise<Outcome>;
};

const END_VALUE = "end";

/** Connects a node without a mouse. */
export function ConnectForm({ inspection, part, canEnd, change }: ConnectFormProps) {
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
