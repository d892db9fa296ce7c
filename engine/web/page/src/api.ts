// Requests to the API, and event streams that come back by themselves.

import { tellConnection } from "./connection";
import type { Event, Fault } from "./types";

export const API = "/api/v1";

/** A problem document (RFC 9457) of the server, or the failure to reach it. */
export class Problem extends Error {
  constructor(
    /** The status of HTTP; 0 if the server was not reached. */
    readonly status: number,
    detail: string,
    readonly code: string | null = null,
    readonly hint: string | null = null,
    readonly faults: Fault[] = [],
  ) {
    super(detail);
  }
}

/** Whether the server was not reached: it is asked again, and the page says so once, for all views. */
export function isOfConnection(problem: unknown): boolean {
  return problem instanceof Problem && problem.status === 0;
}

/** Where the browser keeps the key of its session. Pages of other ports cannot read it, and are never sent it. */
const SESSION = "rondo-session";

export function keepSession(key: string) {
  localStorage.setItem(SESSION, key);
}

/** The header that a session sends. */
function authorization(): Record<string, string> {
  const key = localStorage.getItem(SESSION);
  return key ? { Authorization: `Bearer ${key}` } : {};
}

let onUnauthorized = () => {};

/** Calls `react` whenever the server wants the token. */
export function whenUnauthorized(react: () => void) {
  onUnauthorized = react;
}

async function problemOf(response: Response): Promise<Problem> {
  const text = await response.text();
  try {
    const { detail, code, hint, faults } = JSON.parse(text);
    return new Problem(response.status, detail, code, hint, faults ?? []);
  } catch {
    return new Problem(response.status, text || response.statusText);
  }
}

async function send(path: string, init: Omit<RequestInit, "headers"> & { headers?: Record<string, string> }): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(API + path, { ...init, headers: { ...authorization(), ...init.headers } });
  } catch (error) {
    if (init.signal?.aborted) throw error;
    tellConnection(false);
    throw new Problem(0, "The server does not answer.");
  }
  tellConnection(true);
  if (response.status === 401) onUnauthorized();
  if (!response.ok) throw await problemOf(response);
  return response;
}

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await send(path, signal ? { signal } : {})).json();
}

export async function text(path: string, accept: string, signal?: AbortSignal): Promise<string> {
  return (await send(path, { headers: { Accept: accept }, ...(signal && { signal }) })).text();
}

/** Contents as a data URL. */
export async function dataUrl(path: string, signal?: AbortSignal): Promise<string> {
  const contents = await (await send(path, signal ? { signal } : {})).blob();
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(new Error("the file cannot be read"));
    reader.readAsDataURL(contents);
  });
}

export async function post<T>(path: string, body: unknown, key?: string): Promise<T> {
  const headers: Record<string, string> = { "Content-Type": "application/json" };
  if (key) headers["Idempotency-Key"] = key;
  const response = await send(path, { method: "POST", headers, body: JSON.stringify(body) });
  return response.status === 204 ? (undefined as T) : response.json();
}

/** The address of a thread in the API. */
export function ofThread(thread: string, rest = ""): string {
  return `/threads/${encodeURIComponent(thread)}${rest}`;
}

const FIRST_PAUSE_MS = 300;
const LONGEST_PAUSE_MS = 5000;
/** The server sends a comment every 15 seconds: a stream that is silent for longer is suspect, and dead after some time. */
const COMMENT_MS = 17_000;
const SILENCE_MS = 40_000;

/** Waits; a tab that is looked at again, or a network that is back, waits no longer. */
export function pause(milliseconds: number): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      removeEventListener("online", end);
      document.removeEventListener("visibilitychange", end);
      resolve();
    };
    const timer = setTimeout(end, milliseconds);
    addEventListener("online", end);
    document.addEventListener("visibilitychange", end);
  });
}

/** Resolves while somebody looks at the page. */
function seen(): Promise<void> | undefined {
  if (!document.hidden) return undefined;
  return new Promise((resolve) => {
    const look = () => {
      if (document.hidden) return;
      document.removeEventListener("visibilitychange", look);
      resolve();
    };
    document.addEventListener("visibilitychange", look);
  });
}

/** What a stream calls. */
export interface Listener {
  onEvent: (event: Event) => void;
  /** The stream stands, for the first time or again. */
  onOpen?: () => void;
}

/**
 * Reads the events of `path` until the stream has no more to say. After a break it comes back, and continues after the last
 * durable event that it had. A tab that nobody sees holds none: browsers have six connections for all tabs of a host.
 * Returns the function that ends it.
 *
 * Not `EventSource`: that tells neither a stream that is over from a server that is lost, nor 401 from either, and notices
 * no connection that died while the machine slept.
 */
export function listen(path: string, after: string | null, { onEvent, onOpen }: Listener): () => void {
  let last = after;
  let controller = new AbortController();
  let isEnded = false;
  let isStale = false;
  let wait = FIRST_PAUSE_MS;
  let heardAt = Date.now();

  const take = (block: string) => {
    let data = "";
    for (const line of block.split("\n")) {
      if (line.startsWith("data: ")) data += line.slice(6);
      else if (line.startsWith("id: ")) last = line.slice(4);
    }
    if (data) onEvent(JSON.parse(data));
  };

  /** Reads one connection: whether the stream is over, was closed in order, or broke. */
  const read = async (): Promise<"over" | "closed" | "broken"> => {
    controller = new AbortController();
    isStale = false;
    let silence = setTimeout(() => controller.abort(), SILENCE_MS);
    try {
      const headers: Record<string, string> = { Accept: "text/event-stream", ...authorization() };
      if (last) headers["Last-Event-ID"] = last;
      const response = await fetch(API + path, { headers, signal: controller.signal });
      if (response.status === 401) onUnauthorized();
      if (response.status === 204 || (response.status >= 400 && response.status < 500)) return "over";
      if (!response.ok || !response.body) return "broken";
      tellConnection(true);
      onOpen?.();
      heardAt = Date.now();
      wait = FIRST_PAUSE_MS;
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return "closed";
        heardAt = Date.now();
        clearTimeout(silence);
        silence = setTimeout(() => controller.abort(), SILENCE_MS);
        const blocks = (rest + value).split("\n\n");
        rest = blocks.pop() ?? "";
        blocks.forEach(take);
      }
    } catch {
      return isStale ? "closed" : "broken";
    } finally {
      clearTimeout(silence);
    }
  };

  const run = async () => {
    for (;;) {
      await seen();
      if (isEnded) return;
      const outcome = await read();
      if (outcome === "over" || isEnded) return;
      if (outcome === "broken") tellConnection(false);
      await pause(wait);
      if (isEnded) return;
      wait = Math.min(wait * 2, LONGEST_PAUSE_MS);
    }
  };
  void run();
  // A network that was gone, or a machine that slept, leaves streams that look open and say nothing.
  const renew = () => {
    isStale = true;
    controller.abort();
  };
  const look = () => (document.hidden || Date.now() - heardAt > COMMENT_MS) && renew();
  addEventListener("online", renew);
  document.addEventListener("visibilitychange", look);
  return () => {
    isEnded = true;
    removeEventListener("online", renew);
    document.removeEventListener("visibilitychange", look);
    controller.abort();
  };
}
