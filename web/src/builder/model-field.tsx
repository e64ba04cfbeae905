// A model: chosen from those that are configured and known, or entered as text.
import { useQuery } from "@tanstack/react-query";
import { type KeyboardEvent, type RefObject, useEffect, useId, useRef, useState } from "react";
import { findModelProblem } from "../api/models";
import { modelsQuery } from "../api/queries";
import { t } from "../strings";
import { IconButton } from "../ui/button";
import { useForm } from "./context";
import { useEntry, useStore } from "./entry";
import { type FieldProps, Frame } from "./frame";
import { findModels, listModels, type ModelChoice } from "./models";
import { useListPlace } from "./place-list";
import "./model-field.css";

export function ModelField(props: FieldProps) {
  const { schema, value, label, isRequired } = props;
  const { isReadOnly, names } = useForm();
  const id = useId();
  const store = useStore(props);
  const models = useQuery({ ...modelsQuery, enabled: !isReadOnly });
  const shown = value === undefined || value === null ? "" : String(value);
  const entry = useEntry(
    shown,
    (text) => store(text.trim() === "" && !isRequired ? undefined : text.trim()),
    label,
  );
  const choices = listModels(names?.models, models.data);
  const input = useRef<HTMLInputElement>(null);
  const list = useModelList(choices, entry.text, (choice) => {
    entry.change(choice.name);
    entry.flush();
    input.current?.focus();
  });
  const { isOpen, found, at, open, close } = list;
  return (
    <Frame
      id={id}
      props={props}
      error={entry.refusal}
      warning={isOpen ? undefined : findModelProblem(shown, models.data)}
    >
      <div className="model-field">
        <input
          id={id}
          ref={input}
          className="input mono"
          role="combobox"
          aria-expanded={isOpen}
          aria-autocomplete="list"
          aria-controls={isOpen ? `${id}-list` : undefined}
          aria-activedescendant={found[at] ? `${id}-${at}` : undefined}
          aria-describedby={schema.description ? `${id}-help` : undefined}
          autoComplete="off"
          spellCheck={false}
          placeholder={models.data?.default ? t.build.byDefault(models.data.default) : ""}
          value={entry.text}
          readOnly={isReadOnly}
          onChange={(event) => {
            entry.change(event.target.value);
            open(event.target.value);
          }}
          onKeyDown={isReadOnly ? undefined : list.onKeyDown}
          onBlur={() => {
            entry.flush();
            close();
          }}
        />
        {!isReadOnly && <ListButton list={list} field={input} />}
        {isOpen && found.length > 0 && (
          <ModelList
            {...{ id, label, at }}
            field={input}
            choices={found}
            onPoint={list.point}
            onChoose={list.choose}
          />
        )}
        {isOpen && list.search === "" && choices.length === 0 && <NoModels field={input} />}
      </div>
    </Frame>
  );
}

type ListButtonProps = { list: ReturnType<typeof useModelList>; field: RefObject<HTMLInputElement | null> };

/** Opens and closes the list; the field keeps the focus. */
function ListButton({ list: { isOpen, open, close }, field }: ListButtonProps) {
  return (
    <IconButton
      icon="down"
      label={t.build.models.open}
      aria-expanded={isOpen}
      onMouseDown={(event) => event.preventDefault()}
      onClick={() => {
        if (isOpen) close();
        else open("");
        field.current?.focus();
      }}
    />
  );
}

/** The list of models below the field: whether it is open, what it shows, and its keys. */
function useModelList(choices: ModelChoice[], entered: string, onChoose: (choice: ModelChoice) => void) {
  // Text that was typed since the list was opened narrows it; the present model does not.
  const [search, setSearch] = useState<string>();
  const [at, setAt] = useState(-1);
  const isOpen = search !== undefined;
  const found = isOpen ? findModels(choices, search) : [];
  const open = (text: string) => {
    setSearch(text);
    setAt(text === "" ? choices.findIndex((one) => one.name === entered) : -1);
  };
  const close = () => setSearch(undefined);
  const choose = (choice: ModelChoice) => {
    close();
    onChoose(choice);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined) {
      event.preventDefault();
      if (!isOpen) open("");
      else if (found.length > 0) setAt((at + step + found.length) % found.length);
    } else if (event.key === "Enter" && found[at]) {
      event.preventDefault();
      choose(found[at]);
    } else if (event.key === "Escape" && isOpen) {
      event.preventDefault();
      event.stopPropagation();
      close();
    }
  };
  return { search, at, isOpen, found, open, close, choose, point: setAt, onKeyDown };
}

function NoModels({ field }: Pick<ListProps, "field">) {
  const place = useListPlace(field);
  return (
    <p className="model-list soft" style={place}>
      {t.build.models.none}
    </p>
  );
}

type ListProps = {
  id: string;
  label: string;
  field: RefObject<HTMLElement | null>;
  choices: ModelChoice[];
  at: number;
  onPoint: (at: number) => void;
  onChoose: (choice: ModelChoice) => void;
};

function ModelList({ id, label, field, choices, at, onPoint, onChoose }: ListProps) {
  const place = useListPlace(field);
  const chosen = useRef<HTMLDivElement>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: another option is chosen.
  useEffect(() => chosen.current?.scrollIntoView({ block: "nearest" }), [at]);
  const groups = [...new Set(choices.map((choice) => choice.group))];
  return (
    <div
      className="model-list"
      style={place}
      role="listbox"
      id={`${id}-list`}
      aria-label={label}
      tabIndex={-1}
    >
      {groups.map((group) => (
        // biome-ignore lint/a11y/useSemanticElements: a listbox has groups.
        <div key={group} role="group" aria-label={t.build.models.groups[group]}>
          <span className="model-group" aria-hidden="true">
            {t.build.models.groups[group]}
          </span>
          {choices.map((choice, index) =>
            choice.group === group ? (
              // biome-ignore lint/a11y/useKeyWithClickEvents: the keys are those of the field.
              <div
                key={choice.name}
                id={`${id}-${index}`}
                ref={index === at ? chosen : undefined}
                role="option"
                tabIndex={-1}
                aria-selected={index === at}
                className="model-option"
                // The field keeps the focus.
                onMouseDown={(event) => event.preventDefault()}
                onPointerMove={() => onPoint(index)}
                onClick={() => onChoose(choice)}
              >
                <span className="mono cut">{choice.name}</span>
                <small className="cut" title={choice.problem}>
                  {choice.problem ? t.build.models.notReady : choice.detail}
                </small>
              </div>
            ) : null,
          )}
        </div>
      ))}
    </div>
  );
}
