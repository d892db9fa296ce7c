// What the API sends: see engine/docs/api.md, lines.md and events.md.

import type { Fault } from "./api";

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
export type Status = "running" | "waiting" | "stopped" | "done" | "failed" | "cancelled";

export interface Totals {
  steps: number;
  model_calls: number;
  tool_calls: number;
  prompt_tokens: number;
  cached_tokens: number;
  output_tokens: number;
  cost_usd: number | null;
  unpriced_calls: number;
}

export interface Schema {
  type?: string | string[];
  title?: string;
  description?: string;
  default?: Json;
  const?: Json;
  enum?: Json[];
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  items?: Schema;
  properties?: Record<string, Schema>;
  required?: string[];
  oneOf?: Schema[];
}

export interface Form {
  thread: string;
  role: string;
  lane: string;
  visit: number;
  /** What an answer names it by. */
  digest: string;
  form: { prompt?: string; expires_at_ms?: number | null };
  /** The tool call that waits for approval, in the words of the server; `word` is what allows a dangerous one. */
  call: { tool: string; arguments: string; word: string | null } | null;
  schema: Schema | null;
}

export interface Thread {
  thread: string;
  name: string;
  imported: boolean;
  label: string | null;
  tags: string[];
  status: Status;
  totals: Totals;
  started_at_ms: number;
  ended_at_ms: number | null;
  runs_here: boolean;
  parent: { thread: string; role: string } | null;
  base: { thread: string; seq: number } | null;
  reason: string | null;
  stop: { code: string; class: string; message: string; hint?: string } | null;
  result: Json;
  is_offline: boolean;
  forms: Form[];
  input: Json;
}

export interface Usage {
  prompt_tokens: number;
  cached_tokens: number;
  output_tokens: number;
}

export interface ToolNote {
  call: string;
  tool: string;
  effect: string;
  bytes: number;
  duration_ms: number;
  failed: boolean;
  answered_by: string;
}

export interface HookNote {
  node: string;
  answered: { at: string; position: number; key: string | null; saved_usd: number | null }[];
}

export interface Note {
  usage: Usage | null;
  cost_usd: number | null;
  answered_by: string | null;
  model: string | null;
  person: string | null;
  tools: ToolNote[];
  hooks: HookNote[];
  started_at_ms: number;
  ended_at_ms: number;
}

export interface Step {
  event: "step" | "compaction" | "rebind";
  seq: number;
  step: string;
  role?: string;
  visit?: number;
  lane?: string;
  edge?: { from: string; status: string | null; prompt: string };
  status?: string;
  output?: { [name: string]: Json };
  body?: string;
  answer?: string;
  text?: string;
  child?: string | null;
  transcript?: { entries: Entry[] } | null;
  observations?: { kind: string; [name: string]: Json }[];
  /** Of a compaction: the last visit that its text stands for. */
  through_visit?: number;
  note?: Note;
}

/** What was said in a step: a reply of the model, a tool's result, or the message that asks again. */
export type Entry =
  | { kind: "model"; request: string; reply: { finish: string; parts: Part[] } }
  | { kind: "tool"; id: string; name: string; arguments: string; failed: boolean; text: string }
  | { kind: "repair"; text: string };

/** A visit that is not committed, and what it was answered so far. */
export interface InFlight {
  role: string | null;
  visit: number | null;
  lane: string;
  child: string | null;
  calls: ({ kind: "model"; model: string; refused: string | null } | { kind: "tool"; name: string | null; failed: boolean })[];
}

export interface Event {
  event: string;
  id: string | null;
  thread: string;
  parent: string | null;
  at_ms: number;
  role?: string | null;
  visit?: number | null;
  lane?: string | null;
  [name: string]: unknown;
}

export interface Workflow {
  name: string;
  file: string | null;
  origin: "folder" | "shipped";
  about: string | null;
  faults: Fault[];
}

export interface WorkflowDetails extends Workflow {
  input: Schema;
  inputs: string[];
  roles: { name: string; kind: string; model: string | null; statuses: string[] }[];
  has_script: boolean;
  consent: { is_given: boolean; command: string | null };
}

export interface Picture {
  name: string;
  nodes: { id: string; kind: string; label: string }[];
  edges: { from: string; to: string; kind: string; label: string; max: number | null }[];
}

/** Of `kind: text` with `text`, or what a model or a tool said in another form. */
export interface Part {
  kind: string;
  text?: string;
  [name: string]: Json | undefined;
}

export interface Message {
  role: string;
  parts: Part[];
}

export interface Request {
  seq: number;
  role: string;
  lane: string;
  visit: number;
  digest: string;
  /** The request before a hook rewrote it. */
  asked: { digest: string } | null;
  head: { [name: string]: Json };
  messages: Message[];
}

export interface Requests {
  requests: Request[];
  shared: { request_bytes: number; bytes: number; messages: number }[];
}

export interface PrefixVisit {
  role: string;
  lane: string;
  visit: number;
  seq: number;
  request_bytes: number;
  shared_bytes: number;
  prompt_tokens: number | null;
  cached_tokens: number | null;
  expected_share: number | null;
  broke: { byte: number; block: string; cause: string; detail: string; lost_tokens: number; lost_usd: number | null } | null;
}

export interface PrefixRole {
  role: string;
  history: string;
  visits: number;
  request_bytes: number;
  shared_bytes: number;
  expected_share: number | null;
  breaks: number;
  prompt_tokens: number | null;
  cached_tokens: number | null;
  cost_usd: number | null;
  lost_tokens: number;
  lost_usd: number | null;
}

export interface Diff {
  diff: {
    a: string;
    b: string;
    common: { seq: number; step: string } | null;
    workflow: { a: { name: string; workflow: string }; b: { name: string; workflow: string } };
    /** Where the definitions differ, such as `roles.editor.system`. */
    definition: { path: string; a: Json; b: Json }[];
    inputs: { name: string; a: Json; b: Json }[];
  };
  steps: { role: string; lane: string; visit: number; a: DiffSide | null; b: DiffSide | null; changed: string[] }[];
  totals: { a: Partial<Totals>; b: Partial<Totals> };
}

export interface DiffSide {
  seq: number;
  status: string;
  output: { [name: string]: Json };
  answer: string;
  edge: { from: string; prompt: string };
  usage: Usage | null;
  cost_usd: number | null;
}

/** What a fork would share, change and run again; the sums are those of the last time. */
export interface ForkPlan {
  /** The last step that both have; 0 if the fork is a thread of its own. */
  at: number;
  changed: { seq: number; role: string; lane: string; visit: number; why: string } | null;
  again: Pick<Totals, "steps" | "model_calls" | "tool_calls" | "cost_usd" | "unpriced_calls">;
}

/** What has become of a line of a batch. */
export type LineStatus = Status | "invalid" | "not_begun";

export interface Batch {
  batch: string;
  name: string;
  tags: string[];
  started_at_ms: number;
  lines: number;
  /** A word without lines is left out. */
  statuses: Partial<Record<LineStatus, number>>;
  cost_usd: number | null;
  unpriced_calls: number;
}

export interface BatchRow {
  line: number;
  thread: string | null;
  status: LineStatus;
  message: string | null;
}

/** What the threads of one key used; a figure that nobody knows is null. */
export type UsageLine = { [Name in keyof Totals]: number | null } & {
  key: string | null;
  threads: number | null;
  cached_share: number | null;
  /** What hooks answered in place of providers. */
  saved: { calls: number | null; cost_usd: number | null };
};
