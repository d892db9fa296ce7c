// The steps of a thread, one row each, of which only those in sight are in the page; and who speaks now.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { duration, usd, who } from "./format";
import type { Speaking } from "./live";
import type { Step } from "./types";
import { useNow } from "./ui";

const ROW = 40;
/** Rows beyond the edges, so that scrolling shows no gaps. */
const BEYOND = 12;

/** The beginning of what was said: of the text, else of the fields. */
function firstLine(step: Step): string {
  const fields = Object.entries(step.output ?? {}).map(([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`);
  const text = step.body || step.text || fields.join(" · ") || "";
  return text.slice(0, 300).trim().split("\n")[0] ?? "";
}

function nameOf(step: Step): string {
  if (step.event === "rebind") return "another definition";
  const name = who(step.role ?? "", step.lane ?? "");
  return step.event === "compaction" ? `${name}: summary` : name;
}

interface Props {
  steps: Step[];
  chosen: number;
  onChoose: (seq: number) => void;
  isFollowing: boolean;
}

export function Steps({ steps, chosen, onChoose, isFollowing }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  useLayoutEffect(() => {
    const element = box.current!;
    const measure = () => setView({ top: element.scrollTop, height: element.clientHeight });
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    element.addEventListener("scroll", measure, { passive: true });
    return () => {
      observer.disconnect();
      element.removeEventListener("scroll", measure);
    };
  }, []);
  // A running thread is followed for as long as its end is in sight.
  useEffect(() => {
    const element = box.current!;
    if (isFollowing && element.scrollHeight - element.scrollTop - element.clientHeight < 3 * ROW) element.scrollTop = element.scrollHeight;
  }, [steps.length, isFollowing]);
  useEffect(() => {
    const element = box.current!;
    const top = (chosen - 1) * ROW;
    if (chosen > 0 && (top < element.scrollTop || top + ROW > element.scrollTop + element.clientHeight)) {
      element.scrollTop = Math.max(0, top - element.clientHeight / 3);
    }
  }, [chosen]);
  const first = Math.max(0, Math.floor(view.top / ROW) - BEYOND);
  const last = Math.min(steps.length, Math.ceil((view.top + view.height) / ROW) + BEYOND);
  return (
    <div class="steps" ref={box} role="listbox" aria-label={`${steps.length} steps`} tabIndex={0} aria-activedescendant={chosen > 0 ? `step-${chosen}` : undefined}>
      <div style={{ height: `${steps.length * ROW}px` }} role="presentation">
        {steps.slice(first, last).map((step, index) => (
          <div
            key={step.seq}
            id={`step-${step.seq}`}
            class={`step ${step.seq === chosen ? "chosen" : ""}`}
            role="option"
            aria-selected={step.seq === chosen}
            aria-setsize={steps.length}
            aria-posinset={step.seq}
            style={{ top: `${(first + index) * ROW}px` }}
            onClick={() => onChoose(step.seq)}
          >
            <span class="seq">{step.seq}</span>
            <span class="who">{nameOf(step)}</span>
            {step.status && <span class="word">{step.status}</span>}
            <span class="line">{firstLine(step)}</span>
            <span class="spent">
              {step.note && step.note.tools.length > 0 && `${step.note.tools.length} tools · `}
              {step.note?.cost_usd ? `${usd(step.note.cost_usd)} · ` : ""}
              {step.note && duration(step.note.ended_at_ms - step.note.started_at_ms)}
            </span>
          </div>
        ))}
      </div>
    </div>
  );
}

/** What is being said at the moment. */
export function SpeakingNow({ speaking }: { speaking: Map<string, Speaking> }) {
  const now = useNow();
  return (
    <div class="speaking">
      {[...speaking.entries()].map(([key, one]) => (
        <article key={key}>
          <header>
            <span class="pulse" aria-hidden="true" />
            <strong>{who(one.role, one.lane)}</strong>
            <span class="spent">{duration(Math.max(0, now - one.sinceMs))}</span>
          </header>
          {one.notes.map((note, index) => (
            <p class="note" key={index}>
              {note}
            </p>
          ))}
          {one.text && <p class="text">{one.text}</p>}
        </article>
      ))}
    </div>
  );
}
