// Asks for the API key of the tab.
import { useState } from "react";
import { storeKey } from "../api/key";
import { t } from "../strings";
import { Dialog } from "../ui/dialog";

export function KeyDialog() {
  const [key, setKey] = useState("");
  return (
    <Dialog label={t.key.title} onClose={() => undefined}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (key.trim() !== "") storeKey(key.trim());
        }}
      >
        <h2>{t.key.title}</h2>
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
          <button type="submit" className="button" data-look="main">
            {t.key.submit}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
