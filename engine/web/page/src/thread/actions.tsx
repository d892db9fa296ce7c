// What can be done with a thread, and the dialogs that ask what is meant.

import { useState } from "preact/hooks";
import { get, ofThread, post, text } from "../api";
import { age, many, short } from "../format";
import { useLoaded, useNow } from "../hooks";
import type { Operation, Thread } from "../types";
import { Action, Badge, Copy, Dialog, Link, ProblemBox, Reading } from "../ui";

interface Props {
  thread: Thread;
  onDone: () => void;
  onProblem: (problem: unknown) => void;
}

type Asked = "scenario" | "compare" | "limit" | "doubt" | "cancel";

/** The class of the fault of a thread whose tool may or may not have had its effect. */
const IN_DOUBT = "in_doubt";

/** The operation of a stopped thread's hint with this choice. */
function offered(thread: Thread, action: Operation["action"], key: string): Operation | undefined {
  const parts = thread.stop?.hint_parts ?? [];
  return parts.filter((part) => typeof part !== "string").find((part) => part.action === action && part.key === key);
}

export function Actions({ thread, onDone, onProblem }: Props) {
  const [asked, setAsked] = useState<Asked | null>(null);
  const close = () => setAsked(null);
  const actOn = (id: string, name: string, body: unknown) => post<Thread>(ofThread(id, `/${name}`), body).then(onDone);
  const act = (name: string, body: unknown = {}) => actOn(thread.thread, name, body);
  const isOpen = ["running", "waiting", "stopped"].includes(thread.status);
  const why = thread.status === "stopped" ? thread.stop?.class : null;
  const raise = offered(thread, "resume", "limit");
  const isToRaise = why === "limit" && (raise !== undefined || !offered(thread, "fork", "with"));
  return (
    <div class="actions">
      {thread.status === "running" && thread.runs_here && (
        <Action label="Stop" title="It can be resumed" run={() => act("stop")} onProblem={onProblem} />
      )}
      {isToRaise && (
        <button type="button" class="primary" onClick={() => setAsked("limit")}>
          Raise the limit and resume
        </button>
      )}
      {why === IN_DOUBT && (
        <button type="button" class="primary" onClick={() => setAsked("doubt")}>
          Resume
        </button>
      )}
      {thread.status === "stopped" && !isToRaise && why !== IN_DOUBT && (
        <Action label="Resume" kind="primary" run={() => act("resume")} onProblem={onProblem} />
      )}
      {isOpen && (
        <button type="button" class="danger" onClick={() => setAsked("cancel")}>
          Cancel
        </button>
      )}
      <Link to={`/t/${thread.thread}/prefix`} class="button">
        Prefix lane
      </Link>
      <button type="button" onClick={() => setAsked("compare")}>
        Compare
      </button>
      {!isOpen && (
        <button type="button" onClick={() => setAsked("scenario")}>
          Make a scenario
        </button>
      )}
      {asked === "scenario" && <Scenario thread={thread} onClose={close} />}
      {asked === "compare" && <CompareWith thread={thread} onClose={close} />}
      {asked === "limit" && (
        <RaiseLimit
          thread={thread}
          offer={raise?.value ?? null}
          onClose={close}
          // A child's limit is raised in the child, which takes the threads above it along.
          run={(limits) => actOn(raise?.thread ?? thread.thread, "resume", { limits })}
        />
      )}
      {asked === "doubt" && <InDoubt thread={thread} onClose={close} run={(choice) => act("resume", { in_doubt: choice })} />}
      {asked === "cancel" && <Cancel thread={thread} onClose={close} run={() => act("cancel")} />}
    </div>
  );
}

function Cancel({ thread, onClose, run }: { thread: Thread; onClose: () => void; run: () => Promise<unknown> }) {
  const [problem, setProblem] = useState<unknown>(null);
  return (
    <Dialog title={`Cancel ${thread.label ?? thread.name}?`} onClose={onClose}>
      <p>It ends for good after {many(thread.totals.steps, "step")} and cannot be resumed. Its steps stay, and it can be forked.</p>
      <ProblemBox problem={problem} />
      <div class="buttons">
        <Action label="Cancel the thread" kind="danger" run={() => run().then(onClose)} onProblem={setProblem} />
        <button type="button" onClick={onClose}>
          Keep it
        </button>
      </div>
    </Dialog>
  );
}

/** Saves a text as a file of the browser. */
function save(name: string, content: string) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type: "text/yaml" }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

function Scenario({ thread, onClose }: { thread: Thread; onClose: () => void }) {
  const path = ofThread(thread.thread, "/scenario");
  const { value: yaml, problem } = useLoaded((signal) => text(path, "text/yaml", signal), path);
  return (
    <Dialog title="A scenario of this thread" onClose={onClose}>
      <p>
        A test that repeats its answers and expects its path. Save it as <code>tests/NAME.yaml</code> beside the workflow and run{" "}
        <code>rondo test</code>.
      </p>
      <ProblemBox problem={problem} />
      {yaml === null && !problem && <Reading what="the steps" />}
      {yaml !== null && (
        <>
          <pre class="mono raw" tabIndex={0} role="region" aria-label="Scenario">
            {yaml}
          </pre>
          <div class="buttons">
            <button type="button" class="primary" onClick={() => save(`from-${thread.thread}.yaml`, yaml)}>
              Save
            </button>
            <Copy text={yaml} label="Copy" />
          </div>
        </>
      )}
    </Dialog>
  );
}

function CompareWith({ thread, onClose }: { thread: Thread; onClose: () => void }) {
  const path = `/threads?workflow=${encodeURIComponent(thread.name)}`;
  const { value: list, problem } = useLoaded((signal) => get<{ threads: Thread[] }>(path, signal), path);
  const now = useNow();
  const others = list?.threads.filter((other) => other.thread !== thread.thread) ?? [];
  return (
    <Dialog title="Compare with" onClose={onClose}>
      <ProblemBox problem={problem} />
      {!list && !problem && <Reading what="threads" />}
      {list && others.length === 0 && <p class="dim">There is no other thread of {thread.name}. Fork this one at a step.</p>}
      <ul class="choices">
        {others.map((other) => (
          <li key={other.thread}>
            <Link to={`/compare/${thread.thread}/${other.thread}`}>
              <Badge status={other.status} />
              <span class="label">{other.label ?? short(other.thread)}</span>
              {other.base?.thread === thread.thread && <span class="mark">fork at step {other.base.seq}</span>}
              <span class="dim">
                {many(other.totals.steps, "step")}, {age(other.started_at_ms, now)} ago
              </span>
            </Link>
          </li>
        ))}
      </ul>
    </Dialog>
  );
}

const LIMITS = ["steps", "tokens", "cost_usd", "wall_time", "visits", "model_calls", "tool_calls", "depth"];

function RaiseLimit({
  thread,
  offer,
  onClose,
  run,
}: {
  thread: Thread;
  /** What the engine offers, such as `steps=6`. */
  offer: string | null;
  onClose: () => void;
  run: (limits: Record<string, string>) => Promise<unknown>;
}) {
  const [offeredKey = LIMITS[0]!, offeredValue = ""] = offer?.split("=") ?? [];
  const [key, setKey] = useState(offeredKey);
  const [value, setValue] = useState(offeredValue);
  const [problem, setProblem] = useState<unknown>(null);
  const submit = async (event: Event) => {
    event.preventDefault();
    setProblem(null);
    await run({ [key]: value.trim() }).then(onClose, setProblem);
  };
  return (
    <Dialog title="Raise a limit" onClose={onClose}>
      <p>{thread.stop?.message}</p>
      <form onSubmit={submit}>
        <div class="field">
          <label for="limit-key">Limit</label>
          <select id="limit-key" value={key} onChange={(event) => setKey(event.currentTarget.value)}>
            {LIMITS.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </div>
        <div class="field">
          <label for="limit-value">New value</label>
          <input id="limit-value" type="text" value={value} required onInput={(event) => setValue(event.currentTarget.value)} />
        </div>
        <ProblemBox problem={problem} />
        <button type="submit" class="primary">
          Resume
        </button>
      </form>
    </Dialog>
  );
}

function InDoubt({ thread, onClose, run }: { thread: Thread; onClose: () => void; run: (choice: "retry" | "skip") => Promise<unknown> }) {
  const [problem, setProblem] = useState<unknown>(null);
  return (
    <Dialog title="Did the tool have its effect?" onClose={onClose}>
      <p>{thread.stop?.message}</p>
      <ProblemBox problem={problem} />
      <div class="buttons">
        <Action label="It did not: call it again" run={() => run("retry").then(onClose)} onProblem={setProblem} />
        <Action label="It may have: skip the call" run={() => run("skip").then(onClose)} onProblem={setProblem} />
      </div>
    </Dialog>
  );
}
