// What the API sends, by the names that the page has for it. `generated.ts` is made from the OpenAPI document.

import type { FormView, ThreadView, WorkflowDetails as Details } from "./generated";

export type { EdgeLine, Entry, Event, FileRef, LineStatus, Message, Operation, Part, Requests, Status, StepList, Totals, Usage, UsageLine } from "./generated";
export type {
  BatchLine as Batch,
  Diagnostic as Fault,
  DiffReport as Diff,
  ForkLine as ForkPlan,
  Graph as Picture,
  InFlightLine as InFlight,
  LineView as BatchRow,
  NoteLine as Note,
  PrefixRoleLine as PrefixRole,
  PrefixVisitLine as PrefixVisit,
  RecordLine as Step,
  RequestLine as Request,
  StepSide as DiffSide,
  WorkflowView as Workflow,
} from "./generated";

// What the document only calls an object is a JSON Schema.
export type Form = Omit<FormView, "schema"> & { schema: Schema | null };
export type Thread = Omit<ThreadView, "forms"> & { forms: Form[] };
export type WorkflowDetails = Omit<Details, "input"> & { input: Schema };

/** Any value of JSON, which the document says nothing of. */
export type Json = unknown;

/** A JSON Schema, as far as forms read it. */
export interface Schema {
  type?: string | string[];
  format?: string;
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
