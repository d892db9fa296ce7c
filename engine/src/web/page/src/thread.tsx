// A thread: its graph and steps as they come, the step that is looked at, and what can be done with it.

import { useEffect, useMemo, useState } from "preact/hooks";
import { get, post, text } from "./api";
import { age, cachedShare, count, duration, percent, tokens, usd } from "./format";
import { Forms } from "./answer";
import { Graph, type Marks } from "./graph";
import { useThread } from "./live";
import { go } from "./router";
import { StepDetails } from "./step";
import { SpeakingNow, Steps } from "./steps";
import type { Picture, Thread } from "./types";
import { Action, Badge, Copy, Dialog, Figure, Link, ProblemBox, useKeys, useLoaded, useNow } from "./ui";

const PLAY_MS = 700;

export function ThreadView({ id, seq }: { id: string; seq: number | null }) {
  const [live, refresh] = useThread(id);
  const { thread, steps } = live;
  const [picture] = useLoaded((signal) => get<Picture>(`/threads/${encodeURIComponent(id)}/graph`, signal), id);
  const [hasHooks, setHooks] = useState(false);
  const [isPlaying, setPlaying] = useState(false);
  const [problem, setProblem] = useState<unknown>(null);
  const [dialog, setDialog] = useState<"scenario" | "compare" | "resume" | null>(null);
  const isRunning = thread?.status === "running";
  const chosen = seq ?? 0;
  const choose = (next: number) => {
    const path = next > 0 ? `/t/${id}/s/${next}` : `/t/${id}`;
    // Looking from step to step is no history of its own.
    history.replaceState(null, "", path);
    dispatchEvent(new PopStateEvent("popstate"));
  };
  useKeys((key) => {
    if (key === "j" || key === "ArrowDown") choose(Math.min(chosen + 1, steps.length));
    else if (key === "k" || key === "ArrowUp") choose(Math.max(chosen - 1, 1));
    else if (key === "Escape" && chosen > 0) choose(0);
    else if (key === "g") choose(1);
    else if (key === "G") choose(steps.length);
    else return false;
    return true;
  });
  useEffect(() => {
    if (!isPlaying) return;
    if (chosen >= steps.length) {
      setPlaying(false);
      return;
    }
    const timer = setTimeout(() => choose(chosen + 1), PLAY_MS);
    return () => clearTimeout(timer);
  }, [isPlaying, chosen, steps.length]);

  const marks = useMemo<Marks>(() => {
    const seen = chosen > 0 ? steps.slice(0, chosen) : steps;
    const visits = new Map<string, number>();
    for (const step of seen) if (step.event === "step" && step.role) visits.set(step.role, (visits.get(step.role) ?? 0) + 1);
    const last = seen[seen.length - 1];
    const now = steps[chosen - 1];
    const edge = chosen > 0 && now?.edge ? { from: now.edge.from, to: [now.role ?? ""] } : live.lastEdge;
    const active = chosen > 0 ? new Set<string>() : new Set([...live.speaking.values()].map((one) => one.role));
    return { active, visits, lastEdge: edge ?? (last?.edge ? { from: last.edge.from, to: [last.role ?? ""] } : null), chosen: now?.role ?? null };
  }, [steps, chosen, live.speaking, live.lastEdge]);

  if (live.problem && !thread) return <main><ProblemBox problem={live.problem} /></main>;
  if (!thread) return <main aria-busy="true" />;
  const step = steps[chosen - 1];
  const act = (name: string, body: unknown = {}) => post<Thread>(`/threads/${thread.thread}/${name}`, body).then(refresh);
  const fork = (at: number) => post<Thread>(`/threads/${thread.thread}/fork`, { at }).then((made) => go(`/t/${made.thread}`));
  const isOpen = ["running", "waiting", "stopped"].includes(thread.status);

  return (
    <main class="thread">
      <ThreadHead thread={thread} isLive={live.isOpen} />
      <div class="actions">
        {isRunning && thread.runs_here && <Action label="Stop" run={() => act("stop")} onProblem={setProblem} />}
        {thread.status === "stopped" && thread.stop?.class !== "limit" && <Action label="Resume" kind="primary" run={() => act("resume")} onProblem={setProblem} />}
        {thread.status === "stopped" && thread.stop?.class === "limit" && (
          <button type="button" class="primary" onClick={() => setDialog("resume")}>
            Raise the limit and resume
          </button>
        )}
        {isOpen && <Action label="Cancel" kind="danger" run={() => act("cancel")} onProblem={setProblem} />}
        <Link to={`/t/${thread.thread}/prefix`} class="button">
          Prefix lane
        </Link>
        <button type="button" onClick={() => setDialog("compare")}>
          Compare
        </button>
        <button type="button" onClick={() => setDialog("scenario")} disabled={isOpen}>
          Make a scenario
        </button>
      </div>
      <ProblemBox problem={problem ?? live.problem} />
      {thread.status === "waiting" && <Forms thread={thread} onAnswered={refresh} />}
      <div class={`panes ${step ? "has-details" : ""}`}>
        <section class="picture-pane" aria-label="Graph">
          <div class="picture" tabIndex={0} role="region" aria-label="Graph, scrollable">
            {picture && <Graph picture={picture} hasHooks={hasHooks} marks={marks} />}
          </div>
          <label class="inline">
            <input type="checkbox" checked={hasHooks} onChange={(event) => setHooks(event.currentTarget.checked)} /> hooks
          </label>
          <SpeakingNow speaking={live.speaking} />
        </section>
        <section class="steps-pane" aria-label="Steps">
          {!isRunning && steps.length > 1 && (
            <div class="scrubber">
              <button type="button" onClick={() => (chosen >= steps.length && choose(1), setPlaying(!isPlaying))} aria-label={isPlaying ? "Pause" : "Play"}>
                {isPlaying ? "❚❚" : "▶"}
              </button>
              <input type="range" aria-label="Step" min={1} max={steps.length} value={chosen || steps.length} onInput={(event) => choose(Number(event.currentTarget.value))} />
              <output>
                {chosen || steps.length} / {steps.length}
              </output>
            </div>
          )}
          <Steps steps={steps} chosen={chosen} onChoose={choose} isFollowing={isRunning} />
        </section>
        {step ? <StepDetails key={step.seq} thread={thread.thread} step={step} onFork={(at) => void fork(at).catch(setProblem)} /> : <Ending thread={thread} />}
      </div>
      {dialog === "scenario" && <Scenario thread={thread.thread} onClose={() => setDialog(null)} />}
      {dialog === "compare" && <CompareWith thread={thread} onClose={() => setDialog(null)} />}
      {dialog === "resume" && <RaiseLimit thread={thread} onClose={() => setDialog(null)} run={(limits) => act("resume", { limits })} />}
    </main>
  );
}

function ThreadHead({ thread, isLive }: { thread: Thread; isLive: boolean }) {
  const now = useNow();
  const { totals } = thread;
  return (
    <header class="head">
      <h1>
        {thread.label ?? thread.name} <Badge status={thread.status} />
      </h1>
      <p class="dim under">
        {thread.label && <span>{thread.name}</span>}
        <span class="id">{thread.thread}</span>
        <Copy text={thread.thread} label="Copy id" />
        {thread.parent && (
          <span>
            child of <Link to={`/t/${thread.parent.thread}`}>{thread.parent.thread.slice(0, 12)}</Link>
          </span>
        )}
        {thread.base && (
          <span>
            forked from <Link to={`/t/${thread.base.thread}/s/${thread.base.seq}`}>{thread.base.thread.slice(0, 12)}</Link> at step {thread.base.seq}
          </span>
        )}
        <span role="status">{isLive ? "" : "The server does not answer; trying again…"}</span>
      </p>
      <dl class="figures">
        <Figure name="steps">{count(totals.steps)}</Figure>
        <Figure name="prompt tokens">{tokens(totals.prompt_tokens, totals)}</Figure>
        <Figure name="cached">{percent(cachedShare(totals))}</Figure>
        <Figure name="output tokens">{tokens(totals.output_tokens, totals)}</Figure>
        <Figure name="cost">{usd(totals.cost_usd)}</Figure>
        <Figure name={thread.ended_at_ms ? "took" : "started"}>
          {thread.ended_at_ms ? duration(thread.ended_at_ms - thread.started_at_ms) : `${age(thread.started_at_ms, now)} ago`}
        </Figure>
      </dl>
      {(thread.reason || thread.stop) && (
        <div class="problem">
          <p>{thread.reason ?? thread.stop?.message}</p>
          {thread.stop?.hint && <p class="hint">{thread.stop.hint}</p>}
        </div>
      )}
    </header>
  );
}

/** What the thread was given and what came of it. */
function Ending({ thread }: { thread: Thread }) {
  const shown = (value: unknown) => (typeof value === "string" ? value : JSON.stringify(value, null, 2));
  const fields = (value: unknown) =>
    value && typeof value === "object" && !Array.isArray(value) ? (
      <dl class="fields tall">
        {Object.entries(value).map(([name, one]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{shown(one)}</dd>
          </div>
        ))}
      </dl>
    ) : (
      <pre class="text">{shown(value)}</pre>
    );
  return (
    <section class="details" aria-label="Input and result">
      {thread.result !== null && (
        <>
          <h2>Result</h2>
          {fields(thread.result)}
        </>
      )}
      <h2>Input</h2>
      {fields(thread.input)}
    </section>
  );
}

function Scenario({ thread, onClose }: { thread: string; onClose: () => void }) {
  const [yaml, problem] = useLoaded(() => text(`/threads/${thread}/scenario`, "text/yaml"), thread);
  const save = () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([yaml ?? ""], { type: "text/yaml" }));
    link.download = `from-${thread.slice(0, 10)}.yaml`;
    link.click();
    URL.revokeObjectURL(link.href);
  };
  return (
    <Dialog title="A scenario of this thread" onClose={onClose}>
      <p>
        Save it as <code>tests/NAME.yaml</code> beside the workflow, and run <code>rondo test</code>.
      </p>
      <ProblemBox problem={problem} />
      {yaml && (
        <>
          <p>
            <button type="button" class="primary" onClick={save}>
              Save
            </button>{" "}
            <Copy text={yaml} label="Copy" />
          </p>
          <pre class="mono raw" tabIndex={0}>
            {yaml}
          </pre>
        </>
      )}
    </Dialog>
  );
}

function CompareWith({ thread, onClose }: { thread: Thread; onClose: () => void }) {
  const [list, problem] = useLoaded((signal) => get<{ threads: Thread[] }>(`/threads?workflow=${encodeURIComponent(thread.name)}`, signal), thread.name);
  const now = useNow();
  const others = list?.threads.filter((other) => other.thread !== thread.thread) ?? [];
  return (
    <Dialog title="Compare with" onClose={onClose}>
      <ProblemBox problem={problem} />
      {list && others.length === 0 && <p class="empty">There is no other thread of {thread.name}. Fork this one at a step.</p>}
      <ul class="choices">
        {others.map((other) => (
          <li key={other.thread}>
            <Link to={`/compare/${thread.thread}/${other.thread}`}>
              <Badge status={other.status} /> {other.label ?? other.thread.slice(0, 14)} <span class="dim">{age(other.started_at_ms, now)} ago</span>
            </Link>
          </li>
        ))}
      </ul>
    </Dialog>
  );
}

function RaiseLimit(props: { thread: Thread; onClose: () => void; run: (limits: Record<string, string>) => Promise<unknown> }) {
  const [key, setKey] = useState("steps");
  const [value, setValue] = useState("");
  const [problem, setProblem] = useState<unknown>(null);
  return (
    <Dialog title="Raise a limit" onClose={props.onClose}>
      <p>{props.thread.stop?.message}</p>
      <div class="field">
        <label for="limit-key">Limit</label>
        <select id="limit-key" value={key} onChange={(event) => setKey(event.currentTarget.value)}>
          {["steps", "tokens", "cost_usd", "wall_time", "model_calls", "tool_calls"].map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </div>
      <div class="field">
        <label for="limit-value">New value</label>
        <input id="limit-value" value={value} onInput={(event) => setValue(event.currentTarget.value)} />
      </div>
      <ProblemBox problem={problem} />
      <Action label="Resume" kind="primary" disabled={!value} run={() => props.run({ [key]: value }).then(props.onClose)} onProblem={setProblem} />
    </Dialog>
  );
}
