// A run in short, next to another one.
import { Link } from "@tanstack/react-router";
import type { RunState } from "../../run/fold";
import { nameRun } from "../../run/name";
import { isFinal } from "../../run/record";
import { t } from "../../strings";
import { formatCost, formatDuration, formatNumber, formatTime } from "../../ui/format";
import { StatusMark } from "../../ui/state";

/** A run in short. With `base`, its numbers are shown with the difference from that run. */
export function RunCard({ run, state, base }: { run: string; state: RunState; base?: RunState }) {
  const tokens = (one: RunState) => one.usage.input_tokens + one.usage.output_tokens;
  // A run that is in progress, or waits, takes until now.
  const endOf = (one: RunState) => one.finishedAt ?? (isFinal(one.status) ? one.at : Date.now());
  const duration = (one: RunState) => endOf(one) - one.createdAt;
  const change = (of: (one: RunState) => number, format: (amount: number) => string) => {
    const amount = base ? of(state) - of(base) : 0;
    return amount === 0 ? "" : ` (${amount > 0 ? "+" : "−"}${format(Math.abs(amount))})`;
  };
  const cost = state.usage.micro_usd;
  const costOf = (one: RunState) => one.usage.micro_usd ?? 0;
  const isCostKnown = base === undefined || base.usage.micro_usd !== undefined;
  return (
    <section className="panel compare-run">
      <h2>
        <Link to="/runs/$run" params={{ run }}>
          {state.created && nameRun(state.created.name)}
        </Link>
      </h2>
      <StatusMark status={state.status} />
      <dl className="facts number">
        <div>
          <dt>{t.run.started}</dt>
          <dd>{formatTime(state.createdAt)}</dd>
        </div>
        <div>
          <dt>{t.run.elapsed}</dt>
          <dd>{formatDuration(duration(state)) + change(duration, formatDuration)}</dd>
        </div>
        <div>
          <dt>{t.run.tokens}</dt>
          <dd>{formatNumber(tokens(state)) + change(tokens, formatNumber)}</dd>
        </div>
        <div>
          <dt>{t.run.cost}</dt>
          <dd>
            {cost === undefined
              ? t.run.unknownCost
              : formatCost(cost) + (isCostKnown ? change(costOf, formatCost) : "")}
          </dd>
        </div>
      </dl>
    </section>
  );
}
