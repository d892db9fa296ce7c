// Two threads: where they part, and how their steps differ after that.

import { useMemo } from "preact/hooks";
import { get, ofThread } from "./api";
import { count, many, short, shown, usd, who } from "./format";
import { useLoaded } from "./hooks";
import { linesOf, type Line } from "./textdiff";
import type { Diff, DiffSide, Json, Thread } from "./types";
import { Badge, Empty, Link, ProblemBox, Reading } from "./ui";

export function Compare({ a, b }: { a: string; b: string }) {
  const path = ofThread(a, `/diff?against=${encodeURIComponent(b)}`);
  const { value: diff, problem } = useLoaded((signal) => get<Diff>(path, signal), path);
  return (
    <main class="compare">
      <header class="head">
        <h1>Compare</h1>
        <ProblemBox problem={problem} />
        {!diff && !problem && <Reading what="both threads" />}
      </header>
      {diff && <Differences diff={diff} />}
    </main>
  );
}

function Differences({ diff: { diff, steps, totals } }: { diff: Diff }) {
  const isOther = diff.workflow.a.workflow !== diff.workflow.b.workflow;
  return (
    <>
      <Totals a={diff.a} b={diff.b} totals={totals} />
      <p class="parting">
        {diff.common ? (
          <>
            Equal up to <Link to={`/t/${diff.a}/s/${diff.common.seq}`}>step {diff.common.seq}</Link>
            {steps.length > 0 && `, then ${many(steps.length, "visit")} ${steps.length === 1 ? "differs" : "differ"}`}.
          </>
        ) : (
          "They have no step in common."
        )}
        {isOther && " They follow different definitions."}
      </p>
      <Values title="Definitions that differ" values={diff.definition.map(({ path, a, b }) => ({ name: path, a, b }))} />
      <Values title="Inputs that differ" values={diff.inputs} />
      {steps.length === 0 && <Empty title="No step differs." />}
      {steps.length > 0 && (
        <section>
          <h2>Steps that differ</h2>
          {steps.map((step) => (
            <StepPair key={`${step.lane}/${step.role}/${step.visit}`} step={step} a={diff.a} b={diff.b} />
          ))}
        </section>
      )}
    </>
  );
}

function Values({ title, values }: { title: string; values: Diff["diff"]["inputs"] }) {
  if (values.length === 0) return null;
  const text = (value: Json) => (value === null ? null : shown(value));
  return (
    <section>
      <h2>{title}</h2>
      {values.map(({ name, a, b }) => (
        <Pair key={name} name={name} a={text(a)} b={text(b)} />
      ))}
    </section>
  );
}

function StepPair({ step, a, b }: { step: Diff["steps"][number]; a: string; b: string }) {
  const has = (what: string) => step.changed.includes(what);
  return (
    <article class="difference">
      <h3>
        {who(step.role, step.lane)} <span class="dim">visit {step.visit}</span>
        {step.changed.map((what) => (
          <span class="tag" key={what}>
            {what}
          </span>
        ))}
      </h3>
      <div class="pair">
        <SideHead side={step.a} thread={a} />
        <SideHead side={step.b} thread={b} />
      </div>
      {step.a && step.b ? (
        <>
          {has("prompt") && <Pair name="prompt" a={step.a.edge.prompt} b={step.b.edge.prompt} />}
          {has("answer") && <Pair name="answer" a={step.a.answer} b={step.b.answer} />}
          {step.changed.length === 0 && <p class="dim">Only an earlier step differs.</p>}
        </>
      ) : (
        <Pair name="answer" a={step.a?.answer ?? null} b={step.b?.answer ?? null} />
      )}
    </article>
  );
}

function SideHead({ side, thread }: { side: DiffSide | null; thread: string }) {
  if (!side) return <p class="dim">No such visit.</p>;
  return (
    <p>
      <Link to={`/t/${thread}/s/${side.seq}`}>step {side.seq}</Link> <span class="word">{side.status}</span>{" "}
      {side.cost_usd !== null && <span class="dim">{usd(side.cost_usd)}</span>}
    </p>
  );
}

/** Two texts beside each other, with what only one of them has marked; `null` where there is none. */
function Pair({ name, a, b }: { name: string; a: string | null; b: string | null }) {
  const [left, right] = useMemo(() => linesOf(a ?? "", b ?? ""), [a, b]);
  return (
    <div class="pair">
      <p class="name">{name}</p>
      <Side lines={a === null ? null : left} mark="removed" />
      <Side lines={b === null ? null : right} mark="added" />
    </div>
  );
}

function Side({ lines, mark }: { lines: Line[] | null; mark: "removed" | "added" }) {
  if (!lines) return <div class="side absent">none</div>;
  const Own = mark === "removed" ? "del" : "ins";
  return (
    <div class="side">
      {lines.map((line, index) => (
        <p key={index}>{line.isOwn ? <Own>{line.text || " "}</Own> : line.text || " "}</p>
      ))}
    </div>
  );
}

const ROWS: [string, (of: Diff["totals"]["a"]) => string][] = [
  ["steps", (of) => count(of.steps)],
  ["model calls", (of) => count(of.model_calls)],
  ["tool calls", (of) => count(of.tool_calls)],
  ["prompt tokens", (of) => count(of.prompt_tokens)],
  ["cached tokens", (of) => count(of.cached_tokens)],
  ["output tokens", (of) => count(of.output_tokens)],
  ["cost", (of) => usd(of.cost_usd)],
];

/** The totals of both threads side by side, below their names. */
function Totals({ a, b, totals }: { a: string; b: string; totals: Diff["totals"] }) {
  return (
    <table class="totals">
      <thead>
        <tr>
          <th scope="col">Totals</th>
          <ThreadHead thread={a} />
          <ThreadHead thread={b} />
        </tr>
      </thead>
      <tbody>
        {ROWS.map(([name, of]) => (
          <tr key={name}>
            <th scope="row">{name}</th>
            <td class="number">{of(totals.a)}</td>
            <td class={of(totals.a) === of(totals.b) ? "number" : "number differs"}>{of(totals.b)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function ThreadHead({ thread }: { thread: string }) {
  const { value } = useLoaded((signal) => get<Thread>(ofThread(thread), signal), thread);
  return (
    <th scope="col" class="number">
      <Link to={`/t/${thread}`}>{value?.label ?? short(thread)}</Link> {value && <Badge status={value.status} />}
    </th>
  );
}
