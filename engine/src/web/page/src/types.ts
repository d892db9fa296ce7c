// What the API sends: see engine/docs/api.md, lines.md and events.md.

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
  form: { prompt?: string; approval?: { tool: string; call: string; arguments: string } };
  schema: Schema | null;
}

export interface Thread {
  thread: string;
  name: string;
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
}

export interface Note {
  usage: Usage | null;
  cost_usd: number | null;
  answered_by: string | null;
  model: string | null;
  tools: ToolNote[];
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
  note?: Note;
}

export interface Event {
  event: string;
  id: string | null;
  thread: string;
  parent: string | null;
  at_ms: number;
  role?: string;
  visit?: number;
  lane?: string;
  [name: string]: unknown;
}

export interface Workflow {
  name: string;
  file: string | null;
  origin: "folder" | "shipped";
  about: string | null;
  faults: { code: string; line: number; column: number; message: string; file: string }[];
}

export interface WorkflowDetails extends Workflow {
  input: Schema;
  inputs: string[];
  has_script: boolean;
  consent: { is_given: boolean; command: string | null };
}

export interface Picture {
  name: string;
  nodes: { id: string; kind: string; label: string }[];
  edges: { from: string; to: string; kind: string; label: string }[];
}

export interface Message {
  role: string;
  /** Of `kind: text` with `text`, or what a model or a tool said in another form. */
  parts: { kind: string; text?: string; [name: string]: Json | undefined }[];
}

export interface Request {
  seq: number;
  role: string;
  visit: number;
  digest: string;
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
  lost_tokens: number;
  lost_usd: number | null;
}

export interface Diff {
  diff: {
    a: string;
    b: string;
    common: { seq: number; step: string } | null;
    inputs: { name: string; a: Json; b: Json }[];
  };
  steps: { role: string; lane: string; visit: number; a: DiffSide | null; b: DiffSide | null; changed: string[] }[];
  totals: { a: Partial<Totals>; b: Partial<Totals> };
}

export interface DiffSide {
  seq: number;
  status: string;
  answer: string;
  edge: { prompt: string };
}
