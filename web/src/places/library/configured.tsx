// Functions and MCP servers of the configuration. They are changed in flowloom.toml.
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, read } from "../../api/client";
import type { Json } from "../../api/json";
import { t } from "../../strings";
import { Button } from "../../ui/button";
import { ErrorBox } from "../../ui/problem";
import { ValueView } from "../../ui/value";
import { listQuery } from "./entries";

export function FunctionDetails({ id }: { id: string }) {
  const { data, error } = useQuery(listQuery("functions"));
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
      {found?.parameters && <ValueView value={found.parameters as Json} label={t.library.parameters} />}
    </>
  );
}

export function ServerDetails({ name }: { name: string }) {
  const [isAsked, setIsAsked] = useState(false);
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
        </section>
      ))}
    </>
  );
}
