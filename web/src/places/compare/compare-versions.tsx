// Compares two workflows, or two versions of one: what differs in their meaning, and in their text.

import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useId, useState } from "react";
import { api, read, type Schemas } from "../../api/client";
import { workflowsQuery } from "../../api/queries";
import { t } from "../../strings";
import { IconButton } from "../../ui/button";
import { DiffView } from "../../ui/diff-view";
import { ErrorBox } from "../../ui/problem";
import { Tabs } from "../../ui/tabs";
import { useTitle } from "../../ui/title";
import { joinFiles, type Source } from "../workflow/use-draft";
import { parseSide, type Side, writeSide } from "./side";
import "./compare.css";

type Differences = Schemas["DefinitionDifferences"];
type FieldDifference = Schemas["FieldDifference"];
type View = "meaning" | "text";

export function CompareVersions() {
  useTitle(t.versionDiff.title);
  const { a = "", b = "" } = useSearch({ from: "/compare" });
  const navigate = useNavigate({ from: "/compare" });
  const [view, setView] = useState<View>("meaning");
  const sides = { a: parseSide(a), b: parseSide(b) };
  const choose = (which: "a" | "b", side: Side) =>
    void navigate({ search: (before) => ({ ...before, [which]: writeSide(side) }), replace: true });
  const isChosen = sides.a.workflow !== "" && sides.b.workflow !== "";
  return (
    <div className="page">
      <header className="page-head">
        <h1>{t.versionDiff.title}</h1>
      </header>
      <div className="version-sides">
        <SideFields label={t.versionDiff.first} side={sides.a} onChange={(side) => choose("a", side)} />
        <IconButton
          icon="swap"
          label={t.versionDiff.swap}
          onClick={() => void navigate({ search: { a: b, b: a }, replace: true })}
        />
        <SideFields label={t.versionDiff.second} side={sides.b} onChange={(side) => choose("b", side)} />
      </div>
      {!isChosen && <p className="soft">{t.versionDiff.choose}</p>}
      {isChosen && (
        <>
          <Tabs
            label={t.versionDiff.title}
            selected={view}
            onSelect={setView}
            tabs={[
              { name: "meaning", title: t.versionDiff.meaning },
              { name: "text", title: t.versionDiff.text },
            ]}
          />
          {view === "meaning" ? <Meanings {...sides} /> : <Texts {...sides} />}
        </>
      )}
    </div>
  );
}

type SideFieldsProps = { label: string; side: Side; onChange: (side: Side) => void };

function SideFields({ label, side, onChange }: SideFieldsProps) {
  const id = useId();
  const workflows = useQuery(workflowsQuery);
  const stored = workflows.data?.find((one) => one.id === side.workflow);
  const versions = useQuery({
    queryKey: ["workflows", side.workflow, "versions"],
    enabled: stored?.version != null,
    queryFn: () =>
      read(api.GET("/api/v1/workflows/{id}/versions", { params: { path: { id: side.workflow } } })),
  });
  return (
    <fieldset className="version-side">
      <legend>{label}</legend>
      <label className="unseen" htmlFor={`${id}-workflow`}>
        {t.versionDiff.workflow}
      </label>
      <select
        id={`${id}-workflow`}
        className="input"
        value={side.workflow}
        onChange={(event) => onChange({ workflow: event.target.value })}
      >
        <option value="" />
        {workflows.data?.map((one) => (
          <option key={one.id} value={one.id}>
            {one.name || one.id}
          </option>
        ))}
      </select>
      <label className="unseen" htmlFor={`${id}-version`}>
        {t.versionDiff.version}
      </label>
      <select
        id={`${id}-version`}
        className="input"
        value={side.version ?? ""}
        onChange={(event) => {
          const version = Number(event.target.value);
          onChange({ workflow: side.workflow, ...(version > 0 && { version }) });
        }}
      >
        <option value="">{t.versionDiff.current}</option>
        {versions.data?.items.map((one) => (
          <option key={one.version} value={one.version}>
            {t.workflow.version(one.version)}
          </option>
        ))}
      </select>
    </fieldset>
  );
}

type SidesProps = { a: Side; b: Side };

function Meanings({ a, b }: SidesProps) {
  const { data, error } = useQuery({
    queryKey: ["workflows", "diff", writeSide(a), writeSide(b)],
    queryFn: () => read(api.POST("/api/v1/diff", { body: { a, b } })),
  });
  if (error) return <ErrorBox error={error} />;
  if (!data) return <p className="soft">{t.loading}</p>;
  const count = data.inputs.length + data.steps.length + (data.fields.length > 0 ? 1 : 0);
  return (
    <>
      <p className="state" data-state={data.same ? "succeeded" : "waiting"} role="status">
        {data.same ? t.versionDiff.same : t.versionDiff.differs(count)}
      </p>
      <Changes differences={data} />
    </>
  );
}

function Changes({ differences: { fields, inputs, steps } }: { differences: Differences }) {
  return (
    <div className="version-changes">
      {fields.length > 0 && (
        <section className="panel version-change" aria-label={t.versionDiff.whole}>
          <header>
            <h2>{t.versionDiff.whole}</h2>
          </header>
          <Fields fields={fields} />
        </section>
      )}
      {inputs.map((input) => (
        <section key={input.name} className="panel version-change" aria-label={input.name}>
          <header>
            <h2>{t.versionDiff.input(input.name)}</h2>
          </header>
          <Fields fields={input.fields} />
        </section>
      ))}
      {steps.map((step) => {
        const name = nameOf(step);
        return (
          <section key={name} className="panel version-change" aria-label={name}>
            <header>
              <h2 className="mono">{name}</h2>
              <span className="badge">{t.kind(step.kind)}</span>
              {step.changes.map((change) => (
                <span key={change} className="badge" data-change={change}>
                  {t.versionDiff.changes[change] ?? change}
                </span>
              ))}
            </header>
            <Fields fields={step.fields} />
          </section>
        );
      })}
    </div>
  );
}

function nameOf({ a, b }: Schemas["StepDifference"]): string {
  return a != null && b != null && a !== b ? t.versionDiff.renamed(a, b) : (b ?? a ?? "");
}

function Fields({ fields }: { fields: FieldDifference[] }) {
  return fields.map((field) => (
    <div key={field.name}>
      <h3>{field.name}</h3>
      <DiffView before={field.before ?? ""} after={field.after ?? ""} />
    </div>
  ));
}

function Texts({ a, b }: SidesProps) {
  const one = useSource(a);
  const other = useSource(b);
  const error = one.error ?? other.error;
  if (error) return <ErrorBox error={error} />;
  if (!one.data || !other.data) return <p className="soft">{t.loading}</p>;
  return <DiffView before={joinFiles(one.data)} after={joinFiles(other.data)} />;
}

function useSource({ workflow, version }: Side) {
  return useQuery({
    queryKey: ["workflows", workflow, "source", version ?? "current"],
    queryFn: async () => {
      const params = { path: { id: workflow }, query: version === undefined ? {} : { version } };
      return (await read(api.GET("/api/v1/workflows/{id}/source", { params }))) as Source;
    },
  });
}
