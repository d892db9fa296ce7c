// Small parts that every view uses.

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Problem } from "./api";
import { bytes, sizeOf } from "./format";
import { go } from "./router";
import type { LineStatus } from "./types";

export function Badge({ status }: { status: LineStatus }) {
  return (
    <span class={`badge ${status}`}>
      <i class="dot" aria-hidden="true" />
      {status.replace("_", " ")}
    </span>
  );
}

interface LinkProps {
  to: string;
  children: ComponentChildren;
  class?: string;
  title?: string;
  label?: string;
  current?: "page" | "step" | undefined;
}

/** A link within the page; the browser's own gestures, such as a new tab, stay. */
export function Link({ to, children, label, current, ...rest }: LinkProps) {
  const follow = (event: MouseEvent) => {
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.button !== 0) return;
    event.preventDefault();
    go(to);
  };
  return (
    <a {...rest} href={to} onClick={follow} aria-label={label} aria-current={current}>
      {children}
    </a>
  );
}

/** Text in which what stands between backticks is code: so do messages of rondo. */
export function WithCode({ text }: { text: string }) {
  return <>{text.split("`").map((part, index) => (index % 2 === 1 ? <code key={index}>{part}</code> : part))}</>;
}

export function ProblemBox({ problem }: { problem: unknown }) {
  if (!problem) return null;
  const found = problem instanceof Problem ? problem : new Problem(0, problem instanceof Error ? problem.message : String(problem));
  return (
    <div class="problem" role="alert">
      <p>
        <WithCode text={found.message} />
        {found.code && (
          <>
            {" "}
            <a class="code" href={`/errors/${found.code}`} target="_blank" rel="noreferrer">
              {found.code}
            </a>
          </>
        )}
      </p>
      {found.faults.map((fault, index) => (
        <p key={index} class="fault">
          <code>
            {fault.file}:{fault.line}:{fault.column}
          </code>{" "}
          <WithCode text={fault.message} />
        </p>
      ))}
      {found.hint && (
        <p class="hint">
          <WithCode text={found.hint} />
        </p>
      )}
    </div>
  );
}

/** From how many characters on a text is cut. */
const LONG_CHARS = 900;
const LONG_LINES = 14;

/** A text that is cut until somebody wants all of it. */
export function LongText({ text, class: kind = "text" }: { text: string; class?: string }) {
  const [isWhole, setWhole] = useState(false);
  const lines = text.split("\n");
  const isLong = text.length > LONG_CHARS || lines.length > LONG_LINES;
  const begin = lines.slice(0, LONG_LINES).join("\n").slice(0, LONG_CHARS);
  return (
    <>
      <pre class={kind}>{isLong && !isWhole ? `${begin}…` : text}</pre>
      {isLong && (
        <button type="button" class="quiet" aria-expanded={isWhole} onClick={() => setWhole(!isWhole)}>
          {isWhole ? "Show less" : `Show all ${bytes(sizeOf(text))}`}
        </button>
      )}
    </>
  );
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <p class="title">{title}</p>
      {children}
    </div>
  );
}

/** What stands where something is being read; it appears only when that takes long, so that nothing flickers. */
export function Reading({ what }: { what: string }) {
  return (
    <p class="reading" aria-busy="true" role="status">
      Reading {what}…
    </p>
  );
}

export function Copy({ text, label }: { text: string; label: string }) {
  const [state, setState] = useState<"" | "Copied" | "Not copied">("");
  const copy = async () => {
    // Browsers have a clipboard only for pages of this machine or over TLS.
    const isDone = await navigator.clipboard?.writeText(text).then(
      () => true,
      () => false,
    );
    setState(isDone ? "Copied" : "Not copied");
    setTimeout(() => setState(""), 1500);
  };
  return (
    <button type="button" class="quiet" onClick={copy}>
      <span aria-live="polite">{state || label}</span>
    </button>
  );
}

/** A command to type, with a button that copies it. */
export function Command({ text }: { text: string }) {
  return (
    <p class="command">
      <code>{text}</code>
      <Copy text={text} label="Copy" />
    </p>
  );
}

/** A figure with its name. */
export function Figure({ name, title, children }: { name: string; title?: string; children: ComponentChildren }) {
  return (
    <div class="figure" title={title}>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

/** A share as a small bar beside its number. */
export function ShareBar({ share }: { share: number }) {
  const bar = useRef<HTMLElement>(null);
  useEffect(() => {
    bar.current!.style.width = `${share * 100}%`;
  }, [share]);
  return (
    <span class="share" aria-hidden="true">
      <i ref={bar} />
    </span>
  );
}

interface ActionProps {
  label: string;
  run: () => Promise<unknown>;
  onProblem: (problem: unknown) => void;
  kind?: "primary" | "danger" | "quiet";
  disabled?: boolean;
  title?: string;
}

/** A button whose click may take time and may fail. */
export function Action({ label, run, onProblem, kind, disabled, title }: ActionProps) {
  const [isBusy, setBusy] = useState(false);
  const click = async () => {
    setBusy(true);
    onProblem(null);
    try {
      await run();
    } catch (problem) {
      onProblem(problem);
    } finally {
      setBusy(false);
    }
  };
  return (
    <button type="button" class={kind ?? ""} title={title} disabled={isBusy || disabled} aria-busy={isBusy} onClick={click}>
      {label}
    </button>
  );
}

/** A dialog over the page; Escape and a click beside it close it. */
export function Dialog(props: { title: string; onClose: () => void; children: ComponentChildren }) {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const dialog = element.current;
    dialog?.showModal();
    return () => dialog?.close();
  }, []);
  return (
    <dialog
      ref={element}
      onClose={props.onClose}
      onClick={(event) => event.target === element.current && props.onClose()}
      aria-label={props.title}
    >
      <div class="inner">
        <header>
          <h2>{props.title}</h2>
          <button type="button" class="icon" onClick={props.onClose} aria-label="Close">
            <Icon name="close" />
          </button>
        </header>
        {props.children}
      </div>
    </dialog>
  );
}

const ICONS = {
  close: "M4 4l8 8M12 4l-8 8",
  play: "M5 3.5v9l7-4.5z",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  previous: "M10 3.5L5.5 8l4.5 4.5",
  next: "M6 3.5L10.5 8 6 12.5",
  light: "M8 5a3 3 0 100 6 3 3 0 000-6zM8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3 3l1 1M12 12l1 1M13 3l-1 1M4 12l-1 1",
  dark: "M13 9.5A5.5 5.5 0 016.5 3 5.5 5.5 0 1013 9.5z",
  system: "M2 3h12v8H2zM6 14h4M8 11v3",
};

export function Icon({ name }: { name: keyof typeof ICONS }) {
  return (
    <svg class="glyph" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
      <path d={ICONS[name]} />
    </svg>
  );
}

interface TabsProps<T extends string> {
  tabs: readonly (readonly [T, string])[];
  chosen: T;
  onChoose: (tab: T) => void;
  label: string;
  /** The id of the panel; those of the tabs begin with it. */
  panel: string;
}

/** Tabs; the arrow keys go from one to the next. */
export function Tabs<T extends string>({ tabs, chosen, onChoose, label, panel }: TabsProps<T>) {
  const list = useRef<HTMLDivElement>(null);
  const press = (event: KeyboardEvent) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const at = tabs.findIndex(([name]) => name === chosen);
    const next = tabs[(at + step + tabs.length) % tabs.length]!;
    onChoose(next[0]);
    (list.current!.children[tabs.indexOf(next)] as HTMLElement).focus();
    event.preventDefault();
  };
  return (
    <div ref={list} class="tabs" role="tablist" aria-label={label} onKeyDown={press}>
      {tabs.map(([name, text]) => (
        <button
          key={name}
          type="button"
          role="tab"
          id={`${panel}-${name}`}
          aria-selected={chosen === name}
          aria-controls={panel}
          tabIndex={chosen === name ? 0 : -1}
          onClick={() => onChoose(name)}
        >
          {text}
        </button>
      ))}
    </div>
  );
}
