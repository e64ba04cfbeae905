// The runs that were forked from the same first run, as a tree.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { api, read, type Schemas } from "../../api/client";
import type { RunStatus } from "../../run/record";
import { t } from "../../strings";
import { formatAge, shortenId } from "../../ui/format";
import { Icon } from "../../ui/icon";
import { StatusMark } from "../../ui/state";

type Member = Schemas["FamilyMember"];

/** Forks appear after this time. */
const REFRESH_MS = 5000;

export function useFamily(run: string) {
  return useQuery({
    queryKey: ["runs", "family", run],
    enabled: run !== "",
    refetchInterval: REFRESH_MS,
    queryFn: () => read(api.GET("/api/v1/runs/{id}/family", { params: { path: { id: run } } })),
  });
}

type FamilyTreeProps = { run: string; shown: string[] };

/** The family of a run; nothing if it has no relatives. */
export function FamilyTree({ run, shown }: FamilyTreeProps) {
  const { data } = useFamily(run);
  const members = data?.members ?? [];
  const [first] = members;
  if (!first || members.length < 2) return null;
  return (
    <section className="panel family" aria-label={t.family.title}>
      <h2>{t.family.title}</h2>
      <p className="faint">{t.family.help}</p>
      <ul className="family-tree">
        <Branch member={first} members={members} shown={shown} />
      </ul>
      {data?.has_more && <p className="faint">{t.family.more}</p>}
    </section>
  );
}

type BranchProps = { member: Member; members: Member[]; shown: string[] };

function Branch({ member, members, shown }: BranchProps) {
  const forks = members.filter((one) => one.forked_from === member.run_id);
  const isShown = shown.includes(member.run_id);
  return (
    <li>
      <div className="family-run" data-shown={isShown || undefined}>
        <StatusMark status={member.status as RunStatus} />
        <Link to="/runs/$run" params={{ run: member.run_id }} className="mono">
          {shortenId(member.run_id)}
        </Link>
        {member.at && <span className="mono soft cut">{t.family.at(member.at)}</span>}
        <span className="faint">{formatAge(member.created_at)}</span>
        {isShown && <span className="badge">{t.family.shown}</span>}
        {member.forked_from && (
          <Link
            to="/runs/compare"
            search={{ left: member.forked_from, right: member.run_id }}
            className="button family-compare"
            data-look="quiet"
          >
            <Icon name="branch" />
            {t.family.compare}
          </Link>
        )}
      </div>
      {forks.length > 0 && (
        <ul>
          {forks.map((fork) => (
            <Branch key={fork.run_id} member={fork} members={members} shown={shown} />
          ))}
        </ul>
      )}
    </li>
  );
}
