// The files next to the entry of a definition, below its parts.
import { t } from "../strings";
import { Icon } from "../ui/icon";

type FileListProps = { files: string[]; selected: string | undefined; onSelect: (file: string) => void };

export function FileList({ files, selected, onSelect }: FileListProps) {
  if (files.length === 0) return null;
  return (
    <nav className="part-list" aria-label={t.workflow.files}>
      <div className="part-head">
        <h2>
          {t.workflow.files} <span className="faint number">{files.length}</span>
        </h2>
      </div>
      <ol>
        {files.map((file) => (
          <li key={file} className="part-item">
            <button
              type="button"
              className="part"
              aria-current={file === selected || undefined}
              onClick={() => onSelect(file)}
            >
              <Icon name={file.endsWith(".json") ? "code" : "edit"} />
              <span className="part-text">
                <span className="part-title cut">{file.split("/").at(-1)}</span>
                <span className="part-kind cut" title={file}>
                  {file}
                </span>
              </span>
            </button>
          </li>
        ))}
      </ol>
    </nav>
  );
}
