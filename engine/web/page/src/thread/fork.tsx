// The form that forks a thread at a step. The server says beforehand what would be shared and what made again.

import { useState } from "preact/hooks";
import { ofThread, pause, post } from "../api";
import { Fields, beginning, collected, type Values } from "../form";
import { many, usd, who } from "../format";
import { useLoaded } from "../hooks";
import { go } from "../router";
import type { ForkPlan, Json, Schema, Step, Thread } from "../types";
import { Action, Dialog, ProblemBox } from "../ui";

/** The plan is asked for once nobody has typed for so long. */
const TYPED_MS = 300;

type Way = "on" | "answer" | "inputs";
type Inputs = { [name: string]: Json };

/** A text is typed as it is, every other value as JSON. */
function schemasOf(inputs: Inputs): Record<string, Schema> {
  const schemaOf = (value: Json): Schema => (typeof value === "string" ? { type: "string", minLength: 0, default: value } : { default: value });
  return Object.fromEntries(Object.entries(inputs).map(([name, value]) => [name, schemaOf(value)]));
}

/** The inputs that are not what they were. */
function changed(inputs: Inputs, schemas: Record<string, Schema>, values: Values): Inputs {
  const isOther = ([name, value]: [string, Json]) => JSON.stringify(value) !== JSON.stringify(inputs[name]);
  return Object.fromEntries(Object.entries(collected(schemas, Object.keys(schemas), values)).filter(isOther));
}

interface Props {
  thread: Thread;
  step: Step;
  onClose: () => void;
}

export function Fork({ thread, step, onClose }: Props) {
  const { seq } = step;
  const inputs: Inputs = thread.input ?? {};
  const schemas = schemasOf(inputs);
  const [way, setWay] = useState<Way>("on");
  const [answer, setAnswer] = useState(step.event === "step" ? step.answer : "");
  const [values, setValues] = useState<Values>(() => beginning(schemas, Object.keys(schemas)));
  // Of what was asked then: it says nothing of what is asked now.
  const [refusal, setRefusal] = useState<{ key: string; problem: unknown } | null>(null);
  let body: object | null = null;
  let slip: unknown = null;
  if (way === "on") body = { at: seq };
  else if (way === "answer") body = { at: seq, answer };
  else {
    try {
      const input = changed(inputs, schemas, values);
      if (Object.keys(input).length > 0) body = { input };
    } catch (problem) {
      slip = problem;
    }
  }
  const path = ofThread(thread.thread, "/fork");
  const key = JSON.stringify(body);
  const ask = async (signal: AbortSignal) => {
    if (!body) return null;
    await pause(TYPED_MS);
    signal.throwIfAborted();
    return post<ForkPlan>(path, { ...body, dry_run: true });
  };
  const { value: plan, problem } = useLoaded(ask, key);
  const fork = () => post<Thread>(path, body).then((made) => go(`/t/${made.thread}`));
  const ways: [Way, string][] = [
    ["on", `Go on after step ${seq}`],
    ["answer", `Answer step ${seq} otherwise`],
    ["inputs", "Change inputs"],
  ];
  return (
    <Dialog title="Fork" onClose={onClose}>
      <div class="statuses" role="radiogroup" aria-label="How to fork">
        {ways.map(([word, text]) => (
          <label key={word} class={way === word ? "chosen" : ""}>
            <input type="radio" name="way" checked={way === word} onChange={() => setWay(word)} />
            {text}
          </label>
        ))}
      </div>
      {way === "answer" && (
        <div class="field">
          <label for="fork-answer">Answer</label>
          <textarea
            id="fork-answer"
            class="mono"
            rows={10}
            aria-describedby="fork-told"
            value={answer}
            onInput={(event) => setAnswer(event.currentTarget.value)}
          />
          <p class="told" id="fork-told">
            exactly as its role would give it
          </p>
        </div>
      )}
      {way === "inputs" && (
        <div class="inputs">
          <Fields properties={schemas} required={Object.keys(schemas)} values={values} onChange={setValues} />
        </div>
      )}
      <div role="status">
        {plan ? (
          <Plan plan={plan} />
        ) : (
          !problem && !slip && <p class="dim">{body ? "Asking what is made again…" : "No input differs from that of this thread."}</p>
        )}
      </div>
      <ProblemBox problem={slip ?? problem ?? (refusal?.key === key ? refusal.problem : null)} />
      <div class="buttons">
        <Action label="Fork" kind="primary" disabled={!plan} run={fork} onProblem={(found) => setRefusal({ key, problem: found })} />
      </div>
    </Dialog>
  );
}

/** What is shared, what is made again, and what that cost the last time. */
function Plan({ plan: { at, changed, again } }: { plan: ForkPlan }) {
  const shares = at > 1 ? `Shares steps 1–${at}.` : at === 1 ? "Shares step 1." : "Shares no step: it is a thread of its own.";
  const spent = [
    again.model_calls > 0 && many(again.model_calls, "model call"),
    again.tool_calls > 0 && many(again.tool_calls, "tool call"),
    again.cost_usd !== null && usd(again.cost_usd),
    again.cost_usd !== null && again.unpriced_calls > 0 && `${many(again.unpriced_calls, "call")} without a known price`,
  ].filter(Boolean);
  const made = again.steps === 1 ? "1 step is made again" : `${many(again.steps, "step")} are made again`;
  return (
    <>
      <p>
        {shares} {again.steps === 0 ? "Nothing is run again." : `${made}${spent.length > 0 ? `: ${spent.join(", ")} the last time` : ""}.`}
      </p>
      {changed && (
        <p>
          Step {changed.seq} ({who(changed.role, changed.lane)}) is the first that changes: {changed.why}
        </p>
      )}
    </>
  );
}
