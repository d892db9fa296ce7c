// Small parts that every view uses.

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Problem } from "./api";
import { go } from "./router";
import type { Status } from "./types";

const MARKS: Record<Status, string> = {
  running: "●",
  waiting: "◐",
  stopped: "■",
  done: "✓",
  failed: "✕",
  cancelled: "–",
};

export function Badge({ status }: { status: Status }) {
  return (
    <span class={`badge ${status}`}>
      <span aria-hidden="true">{MARKS[status]}</span> {status}
    </span>
  );
}

/** A link within the page; the browser's own gestures, such as a new tab, stay. */
interface LinkProps {
  to: string;
  children: ComponentChildren;
  class?: string;
  title?: string;
  "aria-current"?: "page" | "step";
}

export function Link({ to, children, ...rest }: LinkProps) {
  const follow = (event: MouseEvent) => {
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.button !== 0) return;
    event.preventDefault();
    go(to);
  };
  return (
    <a {...rest} href={to} onClick={follow}>
      {children}
    </a>
  );
}

export function ProblemBox({ problem }: { problem: unknown }) {
  if (!problem) return null;
  const found = problem instanceof Problem ? problem : new Problem(0, String(problem));
  return (
    <div class="problem" role="alert">
      <p>{found.message}</p>
      {found.hint && <p class="hint">{found.hint}</p>}
      {found.code && (
        <p class="code">
          <a href={`/errors/${found.code}`} target="_blank" rel="noreferrer">
            {found.code}
          </a>
        </p>
      )}
    </div>
  );
}

export function Empty({ children }: { children: ComponentChildren }) {
  return <div class="empty">{children}</div>;
}

export function Copy({ text, label }: { text: string; label: string }) {
  const [isCopied, setCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  };
  return (
    <button type="button" class="quiet" onClick={copy}>
      {isCopied ? "Copied" : label}
    </button>
  );
}

/** A figure with its name. */
export function Figure({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <div class="figure">
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

/** A button whose click may take time and may fail. */
export function Action(props: {
  label: string;
  run: () => Promise<unknown>;
  onProblem: (problem: unknown) => void;
  kind?: "primary" | "danger";
  disabled?: boolean;
}) {
  const [isBusy, setBusy] = useState(false);
  const click = async () => {
    setBusy(true);
    props.onProblem(null);
    try {
      await props.run();
    } catch (problem) {
      props.onProblem(problem);
    } finally {
      setBusy(false);
    }
  };
  return (
    <button type="button" class={props.kind ?? ""} disabled={isBusy || props.disabled} onClick={click}>
      {props.label}
    </button>
  );
}

/** A dialog over the page; Escape closes it. */
export function Dialog(props: { title: string; onClose: () => void; children: ComponentChildren }) {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const dialog = element.current;
    dialog?.showModal();
    return () => dialog?.close();
  }, []);
  return (
    <dialog ref={element} onClose={props.onClose} aria-label={props.title}>
      <header>
        <h2>{props.title}</h2>
        <button type="button" class="quiet" onClick={props.onClose} aria-label="Close">
          ✕
        </button>
      </header>
      {props.children}
    </dialog>
  );
}

/** Loads something for as long as `key` stays the same; an earlier value stays while the next one is loaded. */
export function useLoaded<T>(load: (signal: AbortSignal) => Promise<T>, key: string): [T | null, unknown, () => void] {
  const [state, setState] = useState<{ value: T | null; problem: unknown; key: string }>({ value: null, problem: null, key });
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const controller = new AbortController();
    load(controller.signal).then(
      (value) => controller.signal.aborted || setState({ value, problem: null, key }),
      (problem) => controller.signal.aborted || setState((old) => ({ value: old.key === key ? old.value : null, problem, key })),
    );
    return () => controller.abort();
  }, [key, turn]);
  return [state.key === key ? state.value : null, state.problem, () => setTurn((old) => old + 1)];
}

/** The time, renewed every second while somebody looks. */
export function useNow(): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => document.hidden || setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, []);
  return now;
}

/** Calls `react` for keys that are pressed outside of fields. */
export function useKeys(react: (key: string, event: KeyboardEvent) => boolean) {
  const current = useRef(react);
  current.current = react;
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      const isField = target.matches("input, textarea, select");
      if (event.metaKey || event.ctrlKey || event.altKey || (isField && event.key !== "Escape")) return;
      if (current.current(event.key, event)) event.preventDefault();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
}
