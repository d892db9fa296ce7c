// The steps of a thread, a row each, and the visits that are being made.

import { duration, many, usd, who } from "../format";
import { useNow } from "../hooks";
import { Rows } from "../rows";
import type { InFlight, Json, Step } from "../types";
import type { Visit } from "./follow";

const ROW = 34;
const FIRST_LINE_CHARS = 240;

function brief(value: Json): string {
  if (!Array.isArray(value)) return typeof value === "string" ? value : JSON.stringify(value);
  return value.length > 0 ? value.map(brief).join("; ") : "none";
}

/** The beginning of what was said: of the text, else of the fields. */
function firstLine(step: Step): string {
  const fields = Object.entries(step.event === "step" ? step.output : {}).map(([name, value]) => `${name}: ${brief(value)}`);
  const said = step.event === "step" ? step.body : step.event === "compaction" ? step.text : "";
  const text = said || fields.join(" · ");
  return text.slice(0, FIRST_LINE_CHARS).trim().split("\n")[0] ?? "";
}

export function nameOf(step: Step): string {
  if (step.event === "rebind") return "another definition";
  const name = who(step.role, step.lane);
  return step.event === "compaction" ? `${name}: summary` : name;
}

/** The role that made the step; a move to another definition has none. */
export function speakerOf(step: Step): string {
  return step.event === "rebind" ? "" : step.role;
}

/** How many answers of the step were refused. */
export function refusedOf(step: Step): number {
  if (step.event === "rebind") return 0;
  return step.transcript?.entries.filter((entry) => entry.kind === "repair").length ?? 0;
}

interface Props {
  steps: Step[];
  chosen: number;
  onChoose: (seq: number) => void;
  isFollowing: boolean;
  /** The place of each role in the palette. */
  colours: Map<string, number>;
}

export function Steps({ steps, chosen, onChoose, isFollowing, colours }: Props) {
  return (
    <Rows
      id="step"
      class="steps"
      count={steps.length}
      height={ROW}
      label={many(steps.length, "step")}
      chosen={chosen - 1}
      onChoose={(index) => onChoose(index + 1)}
      isFollowing={isFollowing}
    >
      {(index) => <StepRow step={steps[index]!} colour={colours.get(speakerOf(steps[index]!)) ?? 0} />}
    </Rows>
  );
}

function StepRow({ step, colour }: { step: Step; colour: number }) {
  const note = step.event === "rebind" ? null : step.note;
  const refused = refusedOf(step);
  const marks = [
    step.event === "step" && step.child && "child",
    refused > 0 && `${refused} refused`,
    note?.person && "person",
    note && note.tools.length > 0 && many(note.tools.length, "tool"),
    note?.cost_usd && usd(note.cost_usd),
    note && duration(note.ended_at_ms - note.started_at_ms),
  ];
  return (
    <>
      <span class="seq">{step.seq}</span>
      <i class={`swatch role-${colour}`} aria-hidden="true" />
      <span class={step.event !== "rebind" && step.lane ? "who in-lane" : "who"}>{nameOf(step)}</span>
      {step.event === "step" && <span class="word">{step.status}</span>}
      <span class="line">{firstLine(step)}</span>
      <span class="spent">{marks.filter(Boolean).join(" · ")}</span>
    </>
  );
}

/** Which joins wait, and for how much. */
export function Joins({ waits }: { waits: [role: string | null, text: string][] }) {
  return (
    <ul class="joins" aria-label="Joins" aria-live="polite">
      {waits.map(([role, text], index) => (
        <li key={index}>
          <strong>{role ?? "the join"}</strong> waits: {text}
        </li>
      ))}
    </ul>
  );
}

/** What is being said at the moment. */
export function Speaking({ visits, colours }: { visits: Map<string, Visit>; colours: Map<string, number> }) {
  const now = useNow();
  return (
    <div class="speaking">
      {[...visits.entries()].map(([key, visit]) => (
        <article key={key}>
          <header>
            <i class={`swatch pulse role-${colours.get(visit.role) ?? 0}`} aria-hidden="true" />
            <strong>{who(visit.role, visit.lane)}</strong>
            {visit.visit > 1 && <span class="dim">visit {visit.visit}</span>}
            <span class="spent">{duration(Math.max(0, now - visit.sinceMs))}</span>
          </header>
          {visit.notes.map((note, index) => (
            <p class="note" key={index}>
              {note}
            </p>
          ))}
          {visit.text && <p class="text">{visit.text}</p>}
        </article>
      ))}
    </div>
  );
}

/** Visits that a stop or a kill left behind; their answers were paid for, and a resumed run does not ask again. */
export function Left({ left }: { left: InFlight[] }) {
  return (
    <ul class="left">
      {left.map((visit) => {
        const replies = visit.calls.filter((call) => call.kind === "model").length;
        const parts = [many(replies, "reply").replace("replys", "replies"), many(visit.calls.length - replies, "tool result")];
        return (
          <li key={`${visit.role}|${visit.lane}`}>
            <strong>{who(visit.role ?? "a role", visit.lane)}</strong>
            {visit.visit && `, visit ${visit.visit}`}, not committed: {parts.join(", ")}
          </li>
        );
      })}
    </ul>
  );
}
