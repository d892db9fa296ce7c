// Requests to the API, and event streams that come back by themselves.

import type { Event } from "./types";

export const API = "/api/v1";

/** A problem document (RFC 9457) of the server, or the failure to reach it. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    detail: string,
    readonly code: string | null = null,
    readonly hint: string | null = null,
  ) {
    super(detail);
  }
}

let onUnauthorized = () => {};

/** Calls `react` whenever the server wants the token. */
export function whenUnauthorized(react: () => void) {
  onUnauthorized = react;
}

async function problemOf(response: Response): Promise<Problem> {
  const text = await response.text();
  try {
    const { detail, code, hint } = JSON.parse(text);
    return new Problem(response.status, detail, code, hint);
  } catch {
    return new Problem(response.status, text || response.statusText);
  }
}

async function send(path: string, init: RequestInit): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(API + path, init);
  } catch {
    throw new Problem(0, "The server does not answer.", null, "Is `rondo serve` still running?");
  }
  if (response.status === 401) onUnauthorized();
  if (!response.ok) throw await problemOf(response);
  return response;
}

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await send(path, signal ? { signal } : {})).json();
}

export async function text(path: string, accept: string): Promise<string> {
  return (await send(path, { headers: { Accept: accept } })).text();
}

export async function post<T>(path: string, body: unknown, key?: string): Promise<T> {
  const headers: Record<string, string> = { "Content-Type": "application/json" };
  if (key) headers["Idempotency-Key"] = key;
  const response = await send(path, { method: "POST", headers, body: JSON.stringify(body) });
  return response.status === 204 ? (undefined as T) : response.json();
}

/** Exchanges the token for a session. */
export function openSession(token: string): Promise<void> {
  return post("/session", { token });
}

const FIRST_PAUSE_MS = 300;
const LONGEST_PAUSE_MS = 5000;
/** The server sends a comment every 15 seconds; a stream that is silent for longer is dead, or the machine slept. */
const SILENCE_MS = 40_000;

/**
 * Reads the events of `path` until the stream has no more to say. After a break it comes back, and goes on after the last
 * event that it had. `onState` hears whether the stream is open. Returns the function that ends it.
 */
export function listen(
  path: string,
  after: string | null,
  onEvent: (event: Event) => void,
  onState: (isOpen: boolean) => void,
): () => void {
  let last = after;
  let controller = new AbortController();
  let isEnded = false;
  let pause = FIRST_PAUSE_MS;

  /** Reads one connection: whether the stream is over, was closed in order, or broke. */
  const read = async (): Promise<"over" | "closed" | "broken"> => {
    controller = new AbortController();
    let silence = setTimeout(() => controller.abort(), SILENCE_MS);
    try {
      const headers: Record<string, string> = { Accept: "text/event-stream" };
      if (last) headers["Last-Event-ID"] = last;
      const response = await fetch(API + path, { headers, signal: controller.signal });
      if (response.status === 401) {
        onUnauthorized();
        return "over";
      }
      if (response.status === 204 || (response.status >= 400 && response.status < 500)) return "over";
      if (!response.ok || !response.body) return "broken";
      onState(true);
      pause = FIRST_PAUSE_MS;
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return "closed";
        clearTimeout(silence);
        silence = setTimeout(() => controller.abort(), SILENCE_MS);
        const blocks = (rest + value).split("\n\n");
        rest = blocks.pop() ?? "";
        for (const block of blocks) {
          const lines = block.split("\n");
          const data = lines.find((line) => line.startsWith("data: "));
          if (!data) continue;
          const id = lines.find((line) => line.startsWith("id: "));
          if (id) last = id.slice(4);
          onEvent(JSON.parse(data.slice(6)));
        }
      }
    } catch {
      return "broken";
    } finally {
      clearTimeout(silence);
    }
  };

  const run = async () => {
    while (!isEnded) {
      const outcome = await read();
      if (outcome === "over" || isEnded) return;
      if (outcome === "broken") onState(false);
      await new Promise((resolve) => setTimeout(resolve, pause));
      pause = Math.min(pause * 2, LONGEST_PAUSE_MS);
    }
  };
  void run();
  return () => {
    isEnded = true;
    controller.abort();
  };
}
