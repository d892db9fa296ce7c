// Two threads: where they part, and how their steps differ after that.

import { get } from "./api";
import { count, usd, who } from "./format";
import type { Diff, DiffSide } from "./types";
import { Empty, Link, ProblemBox, useLoaded } from "./ui";

export function Compare({ a, b }: { a: string; b: string }) {
  const path = `/threads/${encodeURIComponent(a)}/diff?against=${encodeURIComponent(b)}`;
  const [diff, problem] = useLoaded((signal) => get<Diff>(path, signal), path);
  return (
    <main class="compare">
      <header class="head">
        <h1>Compare</h1>
        <ProblemBox problem={problem} />
        {diff && (
          <>
            <p class="under">
              <Link to={`/t/${diff.diff.a}`} class="id">
                {diff.diff.a}
              </Link>
              <span class="dim">and</span>
              <Link to={`/t/${diff.diff.b}`} class="id">
                {diff.diff.b}
              </Link>
            </p>
            <p>{diff.diff.common ? `Equal up to step ${diff.diff.common.seq}.` : "They have no step in common."}</p>
            <Totals diff={diff} />
          </>
        )}
      </header>
      {diff && diff.diff.inputs.length > 0 && (
        <section>
          <h2>Inputs that differ</h2>
          {diff.diff.inputs.map((input) => (
            <div class="pair" key={input.name}>
              <h3>{input.name}</h3>
              <pre class="text">{JSON.stringify(input.a)}</pre>
              <pre class="text">{JSON.stringify(input.b)}</pre>
            </div>
          ))}
        </section>
      )}
      {diff && diff.steps.length === 0 && <Empty>No step differs.</Empty>}
      {diff?.steps.map((step) => (
        <section class="pair" key={`${step.lane}/${step.role}/${step.visit}`}>
          <h3>
            {who(step.role, step.lane)}, visit {step.visit} <span class="dim">{step.changed.join(", ")}</span>
          </h3>
          <Side side={step.a} thread={diff.diff.a} changed={step.b ? step.changed : null} />
          <Side side={step.b} thread={diff.diff.b} changed={step.a ? step.changed : null} />
        </section>
      ))}
    </main>
  );
}

/** What a thread has of a step: of one that both have, what differs. */
function Side({ side, thread, changed }: { side: DiffSide | null; thread: string; changed: string[] | null }) {
  if (!side) return <div class="side absent">has no such step</div>;
  const hasOther = (what: string) => changed === null || changed.includes(what);
  return (
    <div class="side">
      <p>
        <Link to={`/t/${thread}/s/${side.seq}`}>step {side.seq}</Link> <span class="word">{side.status}</span>
      </p>
      {hasOther("prompt") && <pre class="text dim">{side.edge.prompt}</pre>}
      {hasOther("answer") ? <pre class="text">{side.answer}</pre> : <p class="dim">The answer is the same.</p>}
    </div>
  );
}

function Totals({ diff }: { diff: Diff }) {
  const rows: [string, (of: Diff["totals"]["a"]) => string][] = [
    ["steps", (of) => count(of.steps)],
    ["model calls", (of) => count(of.model_calls)],
    ["prompt tokens", (of) => count(of.prompt_tokens)],
    ["cached tokens", (of) => count(of.cached_tokens)],
    ["output tokens", (of) => count(of.output_tokens)],
    ["cost", (of) => usd(of.cost_usd)],
  ];
  return (
    <table class="totals">
      <thead>
        <tr>
          <th scope="col">Total</th>
          <th scope="col" class="number">
            first
          </th>
          <th scope="col" class="number">
            second
          </th>
        </tr>
      </thead>
      <tbody>
        {rows.map(([name, of]) => (
          <tr key={name}>
            <th scope="row">{name}</th>
            <td class="number">{of(diff.totals.a)}</td>
            <td class="number">{of(diff.totals.b)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
