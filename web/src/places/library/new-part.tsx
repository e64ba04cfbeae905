// Creates a block, agent or tool from a definition that is complete enough to be stored.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { t } from "../../strings";
import { Button } from "../../ui/button";
import { Dialog } from "../../ui/dialog";
import { ErrorBox, Problem } from "../../ui/problem";
import { listQuery, type StoredKind, storePart } from "./entries";

/** What a new part begins with. */
const STARTS: Record<StoredKind, (id: string) => object> = {
  blocks: (id) => ({
    id,
    name: id,
    description: "Repeats a text.",
    category: "process",
    execution_type: "python",
    input_schema: { type: "object", properties: { text: { type: "string" } }, required: ["text"] },
    output_schema: { type: "object", properties: { text: { type: "string" } }, required: ["text"] },
    source_code: 'async def execute(inputs, context):\n    return {"text": inputs["text"]}\n',
  }),
  agents: (id) => ({
    agentId: id,
    name: id,
    description: "",
    systemPrompt: "You help people. Answer in one friendly sentence.",
    tools: [],
  }),
  tools: (id) => ({
    toolId: id,
    type: "function",
    function: { name: id, description: "", parameters: { type: "object", properties: {} } },
    internalApiPath: `/${id}`,
  }),
};

export function NewPart({ kind }: { kind: StoredKind }) {
  const [isOpen, setIsOpen] = useState(false);
  const [id, setId] = useState("");
  const navigate = useNavigate({ from: "/library" });
  const queries = useQueryClient();
  const create = useMutation({
    mutationFn: () => storePart(kind, id, STARTS[kind](id), null),
    onSuccess: async () => {
      setIsOpen(false);
      await queries.invalidateQueries({ queryKey: ["library", kind] });
      void navigate({ search: { kind, item: id } });
    },
  });
  const title = t.library.newOf[kind];
  const { data } = useQuery(listQuery(kind));
  const known = data?.find((entry) => entry.id === id);
  const isOwn = known?.origin === t.library.own;
  return (
    <>
      <Button icon="plus" onClick={() => setIsOpen(true)}>
        {t.library.new}
      </Button>
      {isOpen && (
        <Dialog label={title} onClose={() => setIsOpen(false)}>
          <form
            onSubmit={(event) => {
              event.preventDefault();
              create.mutate();
            }}
          >
            <h2>{title}</h2>
            <label className="field">
              <span>{t.library.newId}</span>
              <input
                className="input mono"
                required
                value={id}
                onChange={(event) => setId(event.target.value)}
              />
              <small>{t.library.newHelp}</small>
            </label>
            {known && (
              <Problem severity={isOwn ? "error" : "warning"}>
                {isOwn ? t.library.exists(id) : t.library.replaces(id, known.origin)}
              </Problem>
            )}
            {create.error && <ErrorBox error={create.error} />}
            <div className="dialog-actions">
              <Button onClick={() => setIsOpen(false)}>{t.cancel}</Button>
              <button type="submit" className="button" data-look="main" disabled={create.isPending || isOwn}>
                {t.library.create}
              </button>
            </div>
          </form>
        </Dialog>
      )}
    </>
  );
}
