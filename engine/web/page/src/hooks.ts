// What views share: loading, the time, and keys.

import { useEffect, useRef, useState } from "preact/hooks";
import { isOfConnection, pause } from "./api";

const AGAIN_MS = 1500;

export interface Loaded<T> {
  value: T | null;
  problem: unknown;
  reload: () => void;
}

/**
 * Loads something for as long as `key` stays the same. An earlier value stays while it is loaded anew, and a server that is
 * not reached is asked again.
 */
export function useLoaded<T>(load: (signal: AbortSignal) => Promise<T>, key: string): Loaded<T> {
  const [state, setState] = useState<{ value: T | null; problem: unknown; key: string }>({ value: null, problem: null, key });
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const controller = new AbortController();
    const { signal } = controller;
    const run = async () => {
      while (!signal.aborted) {
        try {
          const value = await load(signal);
          if (!signal.aborted) setState({ value, problem: null, key });
          return;
        } catch (problem) {
          if (signal.aborted) return;
          if (!isOfConnection(problem)) {
            setState((old) => ({ value: old.key === key ? old.value : null, problem, key }));
            return;
          }
          await pause(AGAIN_MS);
        }
      }
    };
    void run();
    return () => controller.abort();
  }, [key, turn]);
  const isCurrent = state.key === key;
  return { value: isCurrent ? state.value : null, problem: isCurrent ? state.problem : null, reload: () => setTurn((old) => old + 1) };
}

/** Loads again `afterMs` after each time, while somebody looks and the value is one that changes by itself. */
export function useAgain<T>({ value, reload }: Loaded<T>, isMoving: (value: T) => boolean, afterMs: number) {
  useEffect(() => {
    if (value === null || !isMoving(value)) return;
    // Once: what takes long to load is not asked for twice.
    const timer = setInterval(() => {
      if (document.hidden) return;
      clearInterval(timer);
      reload();
    }, afterMs);
    return () => clearInterval(timer);
  }, [value, afterMs]);
}

/** A value once it has stayed the same for `afterMs`. */
export function useSettled<T>(value: T, afterMs: number): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), afterMs);
    return () => clearTimeout(timer);
  }, [value, afterMs]);
  return settled;
}

/** The time, renewed every second while somebody looks. */
export function useNow(isMoving = true): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    if (!isMoving) return;
    const timer = setInterval(() => document.hidden || setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, [isMoving]);
  return now;
}

/** Whether the window is narrower than `width` pixels. */
export function useIsNarrow(width: number): boolean {
  const query = `(max-width: ${width}px)`;
  const [isNarrow, setNarrow] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const list = matchMedia(query);
    const update = () => setNarrow(list.matches);
    list.addEventListener("change", update);
    return () => list.removeEventListener("change", update);
  }, [query]);
  return isNarrow;
}

/** Calls `react` for keys that are pressed outside of fields and dialogs; `true` means that the key did something. */
export function useKeys(react: (key: string) => boolean) {
  const current = useRef(react);
  current.current = react;
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      if (event.metaKey || event.ctrlKey || event.altKey || event.defaultPrevented) return;
      if (target.closest("dialog")) return;
      const isField = target.matches("input:not([type=checkbox]):not([type=radio]), textarea, select");
      if (isField && event.key !== "Escape") return;
      // Buttons and links have an Enter of their own.
      if ((event.key === "Enter" || event.key === " ") && target.closest("a, button, summary, input")) return;
      if (current.current(event.key)) event.preventDefault();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
}
