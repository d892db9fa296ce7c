// Numbers, times and names as people read them.

import type { Json, Totals, Usage } from "./types";

/** What stands for a number that nobody knows. */
const UNKNOWN = "–";

export function usd(cost: number | null | undefined): string {
  if (cost === null || cost === undefined) return UNKNOWN;
  return cost < 0.01 && cost > 0 ? `$${cost.toFixed(4)}` : `$${cost.toFixed(2)}`;
}

export function count(value: number | null | undefined): string {
  if (value === null || value === undefined) return UNKNOWN;
  if (value < 10_000) return value.toLocaleString("en");
  return value < 1_000_000 ? `${(value / 1000).toFixed(1)}k` : `${(value / 1_000_000).toFixed(1)}M`;
}

/** `1 step`, `2 steps`. */
export function many(value: number, noun: string): string {
  return `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
}

/** Tokens, if they were counted: calls without any were not. */
export function tokens(value: number, totals: Totals): string {
  const isCounted = totals.model_calls === 0 || totals.prompt_tokens + totals.output_tokens > 0;
  return count(isCounted ? value : null);
}

export function bytes(value: number): string {
  if (value < 1024) return `${value} B`;
  return value < 1_048_576 ? `${(value / 1024).toFixed(1)} KiB` : `${(value / 1_048_576).toFixed(1)} MiB`;
}

const encoder = new TextEncoder();

export function sizeOf(text: string): number {
  return encoder.encode(text).length;
}

export function percent(share: number | null | undefined): string {
  if (share === null || share === undefined) return UNKNOWN;
  // What is not all is never shown as all.
  return share === 1 || share === 0 ? `${share * 100}%` : `${Math.min(99.9, share * 100).toFixed(1)}%`;
}

/** How much of the prompts a provider's cache served; `null` if nothing was counted. */
export function cachedShare(of: Totals | Usage): number | null {
  return of.prompt_tokens > 0 ? of.cached_tokens / of.prompt_tokens : null;
}

export function duration(milliseconds: number): string {
  if (milliseconds < 1000) return `${Math.round(milliseconds)} ms`;
  const seconds = milliseconds / 1000;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const minutes = Math.floor(seconds / 60);
  return minutes < 60 ? `${minutes} m ${Math.floor(seconds % 60)} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} m`;
}

export function age(atMs: number, nowMs: number): string {
  const seconds = Math.max(0, Math.floor((nowMs - atMs) / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} m`;
  return seconds < 86_400 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86_400)} d`;
}

export function moment(atMs: number): string {
  return new Date(atMs).toLocaleString();
}

/** `judge`; `critic[0]` in the lane that starts with that role; `checker in critic[0]` in another's. */
export function who(role: string, lane: string): string {
  const last = lane.split("/").pop() ?? "";
  if (!last) return role;
  return last.replace(/\[\d+\]$/, "") === role ? lane : `${role} in ${lane}`;
}

export function shown(value: Json | undefined): string {
  return typeof value === "string" ? value : (JSON.stringify(value, null, 2) ?? "");
}

/** The arguments of a call as they mean: escapes decoded, and what is not seen or turns the direction of writing named. */
export function shownArguments(text: string): string {
  let decoded = text;
  try {
    decoded = JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    // A model's slip is shown as it wrote it.
  }
  return decoded.replace(/(?![\n\t])[\p{Cc}\p{Cf}\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\u{e0000}-\u{e0fff}\ufe00-\ufe0f]/gu, (seen) => {
    return `[U+${(seen.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}]`;
  });
}

/** The beginning of an id, which is enough to tell threads apart by eye. */
export function short(id: string): string {
  return `${id.slice(0, 4)}…${id.slice(-6)}`;
}
