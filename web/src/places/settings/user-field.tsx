// The user whose data a section shows: that of the key, or one that is entered if the key may act for every user.
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { callerQuery } from "../../api/caller";
import { t } from "../../strings";

/** The user of a server without users. */
const LOCAL = "local";

export type ChosenUser = {
  name: string;
  /** Undefined if the key acts for one user only. */
  choose: ((name: string) => void) | undefined;
};

/** The user of a section; undefined until the server has said for whom the key acts. */
export function useChosenUser(): ChosenUser | undefined {
  const { data, isPending } = useQuery(callerQuery);
  const [chosen, setChosen] = useState(LOCAL);
  if (isPending) return undefined;
  return data?.user ? { name: data.user, choose: undefined } : { name: chosen, choose: setChosen };
}

export function UserField({ user }: { user: ChosenUser }) {
  const { choose } = user;
  if (!choose) return null;
  return (
    <label className="field settings-user">
      <span>{t.settings.user}</span>
      <input className="input" value={user.name} onChange={(event) => choose(event.target.value)} />
    </label>
  );
}
