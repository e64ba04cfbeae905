// Ready pipelines to choose from, next to the formats.
import { t } from "../strings";
import { Icon } from "../ui/icon";
import { labelOf } from "./context";
import { needsSearch, TEMPLATES, type Template } from "./templates";

type ListProps = { selected: Template | undefined; onSelect: (template: Template) => void };

export function TemplateList({ selected, onSelect }: ListProps) {
  return (
    <fieldset className="format-list">
      <legend>{t.templates.title}</legend>
      <p className="soft format-help">{t.templates.help}</p>
      {TEMPLATES.map((template) => {
        const { name, about } = t.templates.pipelines[template.id];
        return (
          <label key={template.id} className="format" data-selected={template === selected || undefined}>
            <input
              type="radio"
              name="format"
              value={template.id}
              checked={template === selected}
              onChange={() => onSelect(template)}
            />
            <span>
              <b>{name}</b>
              <span className="soft">{about}</span>
              <small className="format-blocks faint">
                {template.nodes.map((node, at) => (
                  <span key={node.id}>
                    {at > 0 && <Icon name="right" />}
                    {labelOf(node.block_id)}
                  </span>
                ))}
              </small>
              {needsSearch(template) && <small className="faint">{t.templates.needsSearch}</small>}
            </span>
          </label>
        );
      })}
    </fieldset>
  );
}
