// What a workflow can use at most, what its runs have used, and what has no bound.
import { useQuery } from "@tanstack/react-query";
import { useEffect, useMemo, useState } from "react";
import { api, read, type Schemas } from "../../api/client";
import type { Json } from "../../api/json";
import { parseJson } from "../../api/json";
import { t } from "../../strings";
import { formatCost, formatDuration, formatNumber } from "../../ui/format";
import { ErrorBox } from "../../ui/problem";
import { TableHead } from "../../ui/table-head";
import type { Source } from "../workflow/use-draft";
import "./cost.css";

type Estimate = Schemas["CostEstimate"];

/** The subject of an estimate: a stored workflow, or a source that is being written. */
export type CostRequest = { workflow?: string; source?: Source; inputs?: Json };

/** An estimate is asked for after this time without a change. */
const ESTIMATE_DELAY_MS = 400;

/** What a workflow can cost, a moment after it was changed. The last estimate stays meanwhile. */
export function useEstimate(request: CostRequest) {
  const key = useMemo(() => JSON.stringify(request), [request]);
  const [settled, setSettled] = useState(key);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(key), ESTIMATE_DELAY_MS);
    return () => clearTimeout(timer);
  }, [key]);
  return useQuery({
    queryKey: ["estimate", settled],
    placeholderData: (before) => before,
    queryFn: () => read(api.POST("/api/v1/estimate", { body: parseJson(settled) as never })),
  });
}

type CostPlanProps = { request: CostRequest; onStep?: (path: string) => void };

export function CostPlan({ request, onStep }: CostPlanProps) {
  const { data, error } = useEstimate(request);
  if (error) return <ErrorBox error={error} />;
  if (!data) return <p className="soft">{t.loading}</p>;
  if (!data.is_compiled) return <p className="soft">{t.cost.refused}</p>;
  return (
    <div className="cost-plan">
      <Figures estimate={data} />
      <OpenEnds estimate={data} onStep={onStep} />
      {data.models.length > 0 && <Models estimate={data} />}
      <Counts
        title={t.cost.requests}
        name={t.cost.address}
        rows={data.requests.map((one) => [
          `${one.method === "*" ? t.cost.anyMethod : one.method} ${one.host === "*" ? t.cost.anyHost : one.host}`,
          one.count ?? null,
        ])}
      />
      <Counts title={t.cost.functions} name={t.cost.functions} rows={Object.entries(data.functions)} />
    </div>
  );
}

/** The costs in one line, for a summary. */
export function summarizeCost(estimate: Estimate): string {
  const text = describeCost(estimate);
  return estimate.usd == null ? text : t.cost.atMost(text);
}

function describeCost(estimate: Estimate): string {
  if (estimate.usd != null) return formatCost(estimate.usd * 1e6);
  return estimate.prices_known ? t.cost.noBound : t.cost.unknownPrice;
}

function formatCount(count: number | null | undefined): string {
  return count == null ? t.cost.noBound : formatNumber(count);
}

/** The sum of counts; null if one of them has no bound. */
function sumOf(counts: (number | null | undefined)[]): number | null {
  return counts.reduce<number | null>((sum, one) => (sum === null || one == null ? null : sum + one), 0);
}

type FigureRow = { name: string; worst: string; typical: string; isHidden?: boolean };

/** The figures of the worst case, each with that of the typical case. */
function listFigures(estimate: Estimate): FigureRow[] {
  const { models, typical } = estimate;
  const names = t.cost.figures;
  const shown = (count: number | null | undefined) => (count === 0 ? { isHidden: true } : {});
  const requests = sumOf(estimate.requests.map((one) => one.count));
  const usual = (text: (usual: NonNullable<typeof typical>) => string) => (typical ? text(typical) : "");
  return [
    {
      name: names.cost,
      worst: describeCost(estimate),
      typical: usual((one) => (one.usd == null ? t.cost.unknownPrice : formatCost(one.usd * 1e6))),
    },
    {
      name: names.calls,
      worst: formatCount(sumOf(models.map((one) => one.calls))),
      typical: usual((one) => formatNumber(one.model_calls)),
    },
    {
      name: names.input,
      worst: formatCount(sumOf(models.map((one) => one.input_tokens))),
      typical: usual((one) => formatNumber(one.input_tokens)),
    },
    {
      name: names.output,
      worst: formatCount(sumOf(models.map((one) => one.output_tokens))),
      typical: usual((one) => formatNumber(one.output_tokens)),
    },
    {
      name: names.requests,
      worst: formatCount(requests),
      typical: usual((one) => formatNumber(one.requests)),
      ...shown(requests),
    },
    { name: names.blocks, worst: formatCount(estimate.blocks), typical: "", ...shown(estimate.blocks) },
    { name: names.writes, worst: formatCount(estimate.writes), typical: "", ...shown(estimate.writes) },
    {
      name: names.questions,
      worst: formatCount(estimate.questions),
      typical: "",
      ...shown(estimate.questions),
    },
    {
      name: names.time,
      worst: estimate.longest_chain_ms == null ? t.cost.noBound : formatDuration(estimate.longest_chain_ms),
      typical: usual((one) => formatDuration(one.duration_ms)),
    },
  ];
}

function Figures({ estimate }: { estimate: Estimate }) {
  const { typical } = estimate;
  return (
    <>
      <table className="table cost-figures">
        <TableHead
          columns={[t.cost.figure, t.cost.worst, ...(typical ? [t.cost.typical(typical.runs)] : [])]}
        />
        <tbody>
          {listFigures(estimate)
            .filter((row) => !row.isHidden)
            .map((row) => (
              <tr key={row.name}>
                <th scope="row">{row.name}</th>
                <td className="number" data-open={row.worst === t.cost.noBound || undefined}>
                  {row.worst}
                </td>
                {typical && <td className="number">{row.typical || "–"}</td>}
              </tr>
            ))}
        </tbody>
      </table>
      {!typical && <p className="faint">{t.cost.noTypical}</p>}
    </>
  );
}

type OpenEndsProps = { estimate: Estimate; onStep: ((path: string) => void) | undefined };

function OpenEnds({ estimate, onStep }: OpenEndsProps) {
  const { unbounded } = estimate;
  if (unbounded.length === 0) {
    return (
      <p className="state" data-state="succeeded">
        {t.cost.bounded}
      </p>
    );
  }
  return (
    <section>
      <h2>{t.cost.unbounded}</h2>
      {onStep && <p className="faint">{t.cost.unboundedHelp}</p>}
      <ul className="cost-open">
        {unbounded.map((end) => (
          <li key={`${end.path} ${end.reason}`}>
            {onStep ? (
              <button type="button" className="text-button mono" onClick={() => onStep(end.path)}>
                {nameOf(end.path)}
              </button>
            ) : (
              <span className="mono">{nameOf(end.path)}</span>
            )}
            <span className="soft">{end.reason}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** The path of a step; that of the whole workflow is meaningless to people. */
function nameOf(path: string): string {
  return path === "/" ? t.cost.whole : path;
}

function Models({ estimate }: { estimate: Estimate }) {
  return (
    <section className="cost-scroll">
      <h2>{t.cost.models}</h2>
      <table className="table">
        <TableHead
          columns={[
            t.cost.model,
            t.cost.calls,
            t.cost.figures.input,
            t.cost.figures.output,
            t.cost.figures.cost,
          ]}
        />
        <tbody>
          {estimate.models.map((one) => (
            <tr key={one.model}>
              <td className="mono">{one.model === "*" ? t.cost.anyModel : one.model}</td>
              <td className="number">{formatCount(one.calls)}</td>
              <td className="number">{formatCount(one.input_tokens)}</td>
              <td className="number">{formatCount(one.output_tokens)}</td>
              <td className="number">
                {!one.price_known
                  ? t.cost.unknownPrice
                  : one.usd == null
                    ? t.cost.noBound
                    : formatCost(one.usd * 1e6)}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

type CountsProps = { title: string; name: string; rows: [string, number | null][] };

function Counts({ title, name, rows }: CountsProps) {
  if (rows.length === 0) return null;
  return (
    <section className="cost-scroll">
      <h2>{title}</h2>
      <table className="table">
        <TableHead columns={[name, t.cost.count]} />
        <tbody>
          {rows.map(([label, count]) => (
            <tr key={label}>
              <td className="mono">{label}</td>
              <td className="number">{formatCount(count)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
