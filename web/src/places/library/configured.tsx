// Functions and MCP servers of the configuration. They are changed in flowloom.toml.
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useMay } from "../../api/caller";
import { api, read, type Schemas } from "../../api/client";
import type { Json } from "../../api/json";
import { t } from "../../strings";
import { Button } from "../../ui/button";
import { ErrorBox } from "../../ui/problem";
import type { Schema } from "../../ui/schema-form";
import { ValueView } from "../../ui/value";
import { listQuery } from "./entries";
import { TryFunction } from "./try-part";

export function FunctionDetails({ id }: { id: string }) {
  const { data, error } = useQuery(listQuery("functions"));
  const mayRun = useMay("run");
  const found = data?.find((entry) => entry.id === id)?.function;
  return (
    <>
      <header className="library-head">
        <h2 className="mono cut">{id}</h2>
        {found?.needs_approval && <span className="badge">{t.library.approval}</span>}
      </header>
      {error && <ErrorBox error={error} />}
      <p>{found?.description}</p>
      {found?.target && (
        <p>
          <span className="soft">{t.library.target}:</span> <code>{found.target}</code>
        </p>
      )}
      {found && mayRun && <TryOrWhyNot entry={found} />}
      {found?.parameters && <ValueView value={found.parameters as Json} label={t.library.parameters} />}
    </>
  );
}

/** A function that is called like a tool. Built-in ones without parameters are steps of step lists, or of the planner. */
function TryOrWhyNot({ entry }: { entry: Schemas["FunctionInfo"] }) {
  if (entry.is_built_in && !entry.parameters) return <p className="soft">{t.library.onlySteps}</p>;
  return <TryFunction id={entry.id} parameters={(entry.parameters ?? undefined) as Schema | undefined} />;
}

export function ServerDetails({ name }: { name: string }) {
  const [isAsked, setIsAsked] = useState(false);
  const mayRun = useMay("run");
  const { data, error, isFetching } = useQuery({
    queryKey: ["library", "servers", name, "tools"],
    queryFn: () => read(api.GET("/api/v1/servers/{name}/tools", { params: { path: { name } } })),
    enabled: isAsked,
    retry: false,
  });
  return (
    <>
      <header className="library-head">
        <h2 className="mono cut">{name}</h2>
      </header>
      {!isAsked && <Button onClick={() => setIsAsked(true)}>{t.library.loadTools}</Button>}
      {isFetching && <p className="soft">{t.loading}</p>}
      {error && <ErrorBox error={error} />}
      {data?.items.map((tool) => (
        <section key={tool.name} className="library-section panel library-try" aria-label={tool.name}>
          <h3 className="mono">{`${name}::${tool.name}`}</h3>
          <p>{tool.description}</p>
          <ValueView value={tool.parameters as Json} label={t.library.parameters} />
          {mayRun && (
            <details>
              <summary>{t.library.try}</summary>
              <TryFunction id={`${name}::${tool.name}`} parameters={tool.parameters as Schema} />
            </details>
          )}
        </section>
      ))}
    </>
  );
}
