// Asks for the API key of the tab.
import { useState } from "react";
import { changeKey, type KeyReason, storeKey } from "../api/key";
import { t } from "../strings";
import { Button } from "../ui/button";
import { Dialog } from "../ui/dialog";
import { Problem } from "../ui/problem";

export function KeyDialog({ reason }: { reason: KeyReason }) {
  const [key, setKey] = useState("");
  const isOptional = reason === "changing";
  return (
    <Dialog label={t.key.title} onClose={() => isOptional && changeKey(false)}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (key.trim() !== "") storeKey(key.trim());
        }}
      >
        <h2>{t.key.title}</h2>
        {reason === "refused" && <Problem>{t.key.refused}</Problem>}
        <p className="soft">{t.key.help}</p>
        <label className="field">
          <span>{t.key.label}</span>
          <input
            className="input mono"
            type="password"
            autoComplete="off"
            autoFocus
            value={key}
            onChange={(event) => setKey(event.target.value)}
          />
        </label>
        <p className="soft">
          {t.key.make}
          <br />
          <code>{t.key.makeCommand}</code>
        </p>
        <div className="dialog-actions">
          {isOptional && <Button onClick={() => changeKey(false)}>{t.cancel}</Button>}
          <button type="submit" className="button" data-look="main">
            {t.key.submit}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
