// The list of keyboard shortcuts.
import { t } from "../strings";
import { Button } from "../ui/button";
import { Dialog } from "../ui/dialog";

export function KeyList({ onClose }: { onClose: () => void }) {
  return (
    <Dialog label={t.keys.title} onClose={onClose} className="keys">
      <div className="dialog-body">
        <h2>{t.keys.title}</h2>
        {t.keys.groups.map((group) => (
          <section key={group.title}>
            <h3>{group.title}</h3>
            <dl>
              {group.keys.map(([keys, what]) => (
                <div key={keys} style={{ display: "contents" }}>
                  <dt>
                    <kbd>{keys}</kbd>
                  </dt>
                  <dd>{what}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
        <div className="dialog-actions">
          <Button onClick={onClose}>{t.close}</Button>
        </div>
      </div>
    </Dialog>
  );
}
