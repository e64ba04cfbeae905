// What can be done with a run: what it needs most as a button, and everything as a menu.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type ReactNode, useRef, useState } from "react";
import { useMay } from "../../api/caller";
import { api, read } from "../../api/client";
import { formatJson, type Json } from "../../api/json";
import { runQuery } from "../../api/queries";
import { isFinal } from "../../run/record";
import { t } from "../../strings";
import { Button } from "../../ui/button";
import { useCommands } from "../../ui/commands";
import { copyText } from "../../ui/copy";
import { ConfirmDialog } from "../../ui/dialog";
import { downloadText } from "../../ui/download";
import { isTyping, useKeys } from "../../ui/keyboard";
import { Menu, type MenuItem } from "../../ui/menu";
import { ErrorBox } from "../../ui/problem";
import { ForkDialog } from "./fork-dialog";
import { SaveTestDialog, toFileName } from "./save-test";
import type { RunView } from "./use-run";

/** What a dialog is open for. */
type Asked = "cancel" | "delete" | "fork" | "test";

type ActionsProps = { view: RunView; isInterrupted: boolean };

export function RunActions({ view, isInterrupted }: ActionsProps) {
  const { newest, at } = view;
  const [isOpen, setIsOpen] = useState(false);
  const [asked, setAsked] = useState<Asked>();
  const { said, say } = useSaid();
  const calls = useCalls(view, say);
  const { created } = newest;
  const links = useLinks(view, say);
  const isLive = at === undefined;
  const isEnded = isFinal(newest.status);
  const mayRun = useMay("run");
  const canRetry = mayRun && isEnded && newest.status !== "succeeded";
  const canCancel = mayRun && !isEnded;
  const canResume = mayRun && (isInterrupted || newest.status === "quarantined");
  useKeys((event) => {
    if (event.key !== "." || isTyping(event) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    setIsOpen(true);
  });
  const needsEnd = { isDisabled: !isEnded, hint: isEnded ? undefined : t.run.actions.notEnded };
  const fork: MenuItem = { title: t.fork.inputsOpen, icon: "branch", run: () => setAsked("fork") };
  const retry: MenuItem = { title: t.run.actions.retry, icon: "undo", run: () => calls.retry.mutate() };
  const resume: MenuItem = { title: t.run.actions.resume, icon: "play", run: () => calls.resume.mutate() };
  const cancel: MenuItem = {
    title: t.run.actions.cancel,
    icon: "stop",
    look: "danger",
    run: () => setAsked("cancel"),
  };
  const isOutermost = created?.parent === undefined;
  const remove: MenuItem = {
    title: t.run.actions.remove,
    icon: "trash",
    look: "danger",
    ...needsEnd,
    run: () => setAsked("delete"),
  };
  const replay: MenuItem = {
    title: t.run.actions.replay,
    icon: "check",
    ...needsEnd,
    run: () => calls.replay.mutate(),
  };
  const save: MenuItem = { title: t.tests.save, icon: "tests", ...needsEnd, run: () => setAsked("test") };
  const groups = [
    [canRetry && retry, canResume && resume, mayRun && fork],
    [replay, save, links.compare],
    [links.openWorkflow, links.copyLink, links.copyId, links.saveEvents],
    [canCancel && cancel, mayRun && isOutermost && remove],
  ];
  const live = {
    title: isEnded ? t.run.goEnd : t.run.goLive,
    icon: "last",
    run: () => view.seek(undefined),
  } as const;
  useCommands([!isLive && live, ...groups.flat().filter((one) => one && !one.isDisabled)]);
  return (
    <div className="run-actions">
      <span role="status" className="soft">
        {said ?? (calls.replay.isPending && t.run.actions.replaying)}
      </span>
      {canRetry && <ActionButton item={retry} isBusy={calls.retry.isPending} />}
      {canResume && <ActionButton item={resume} isBusy={calls.resume.isPending} />}
      {canCancel && <ActionButton item={cancel} isBusy={calls.cancel.isPending} />}
      <Menu label={t.run.actions.open} shortcut="." groups={groups} isOpen={isOpen} onOpen={setIsOpen} />
      {calls.error && <ErrorBox error={calls.error} />}
      {asked && <AskedDialog asked={asked} view={view} calls={calls} onClose={() => setAsked(undefined)} />}
    </div>
  );
}

type AskedProps = { asked: Asked; view: RunView; calls: ReturnType<typeof useCalls>; onClose: () => void };

function AskedDialog({ asked, view, calls, onClose }: AskedProps) {
  const { created } = view.newest;
  const { run } = view.follower;
  switch (asked) {
    case "test":
      return (
        <SaveTestDialog run={run} name={created?.name ?? ""} workflow={created?.workflow} onClose={onClose} />
      );
    case "fork":
      return <ForkDialog run={run} inputs={created?.inputs ?? null} onClose={onClose} />;
    case "delete":
      return (
        <ConfirmDialog
          title={t.run.confirmDelete}
          help={t.run.confirmDeleteHelp}
          confirm={t.run.actions.remove}
          onConfirm={() => calls.remove.mutate()}
          onClose={onClose}
        />
      );
    case "cancel":
      return (
        <ConfirmDialog
          title={t.run.confirmCancel}
          help={t.run.confirmCancelHelp}
          confirm={t.run.actions.cancel}
          keep={t.run.keep}
          onConfirm={() => calls.cancel.mutate()}
          onClose={onClose}
        />
      );
  }
}

function ActionButton({ item, isBusy }: { item: MenuItem; isBusy: boolean }): ReactNode {
  return (
    <Button look={item.look} icon={item.icon} disabled={isBusy} onClick={item.run}>
      {item.title}
    </Button>
  );
}

/** How long the result of an action is shown. */
const SAID_MS = 4000;

/** A short message about the last action. */
function useSaid() {
  const [said, setSaid] = useState<string>();
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const say = (text: string) => {
    clearTimeout(timer.current);
    setSaid(text);
    timer.current = setTimeout(() => setSaid(undefined), SAID_MS);
  };
  return { said, say };
}

/** The actions of the server. */
function useCalls(view: RunView, say: (text: string) => void) {
  const { follower } = view;
  const id = follower.run;
  const queries = useQueryClient();
  const navigate = useNavigate();
  const params = { params: { path: { id } } };
  const onSuccess = () => {
    view.seek(undefined);
    follower.refresh();
  };
  const cancel = useMutation({
    mutationFn: () => read(api.POST("/api/v1/runs/{id}/cancel", params)),
    onSuccess,
  });
  const retry = useMutation({
    mutationFn: () => read(api.POST("/api/v1/runs/{id}/retry", params)),
    onSuccess,
  });
  const resume = useMutation({
    mutationFn: () => read(api.POST("/api/v1/runs/{id}/resume", params)),
    onSuccess: () => {
      onSuccess();
      void queries.invalidateQueries({ queryKey: runQuery(id).queryKey });
    },
  });
  const remove = useMutation({
    mutationFn: () => read(api.DELETE("/api/v1/runs/{id}", params)),
    // This page would ask for the run again.
    onSuccess: async () => {
      await navigate({ to: "/runs" });
      await queries.invalidateQueries({ queryKey: ["runs"] });
    },
  });
  const replay = useMutation({
    mutationFn: () => read(api.POST("/api/v1/runs/{id}/replay", params)),
    onSuccess: ({ events }) => say(t.run.replayed(events)),
  });
  // Someone else was faster, or the run has just ended: what was asked for is done.
  const cancelError = isFinal(view.newest.status) ? null : cancel.error;
  const error = cancelError ?? retry.error ?? resume.error ?? replay.error ?? remove.error;
  return { cancel, retry, resume, replay, remove, error };
}

/** The actions of this page: links to other pages, and downloads. */
function useLinks(view: RunView, say: (text: string) => void) {
  const { follower, newest } = view;
  const navigate = useNavigate();
  const id = follower.run;
  const workflow = newest.created?.workflow;
  const copy = (text: string) =>
    void copyText(text).then((isCopied) => say(isCopied ? t.copied : t.notCopied));
  const save = () => {
    const record = { run: id, events: follower.history.listRecords() } as unknown as Json;
    downloadText(toFileName(`${newest.created?.name ?? ""} ${id}`), `${formatJson(record)}\n`);
  };
  const compare: MenuItem = {
    title: t.run.actions.compare,
    icon: "swap",
    run: () => void navigate({ to: "/runs/compare", search: { right: id } }),
  };
  const openWorkflow: MenuItem | undefined =
    workflow === undefined
      ? undefined
      : {
          title: t.run.actions.openWorkflow,
          icon: "open",
          run: () => void navigate({ to: "/workflows/$workflow", params: { workflow } }),
        };
  const copyLink: MenuItem = {
    title: t.run.actions.copyLink,
    icon: "link",
    run: () => copy(window.location.href),
  };
  const copyId: MenuItem = { title: t.run.actions.copyId, icon: "copy", run: () => copy(id) };
  const saveEvents: MenuItem = { title: t.run.actions.export, icon: "download", run: save };
  return { compare, openWorkflow, copyLink, copyId, saveEvents };
}
