// One step: its prompt and answer, its tools, and the exact requests that models were sent.

import { useState } from "preact/hooks";
import { get, text } from "./api";
import { bytes, cachedShare, count, duration, percent, usd, who } from "./format";
import type { Json, Message, Request, Requests, Step } from "./types";
import { Copy, Empty, Figure, Link, ProblemBox, useLoaded } from "./ui";

type Tab = "answer" | "request" | "raw";

export function StepDetails(props: { thread: string; step: Step; onFork: (seq: number) => void }) {
  const [tab, setTab] = useState<Tab>("answer");
  const { step, thread } = props;
  const note = step.note;
  const tabs: [Tab, string][] = [
    ["answer", "Answer"],
    ["request", "Request"],
    ["raw", "Bytes"],
  ];
  return (
    <section class="details" aria-label={`Step ${step.seq}`}>
      <header>
        <h2>
          <span class="seq">{step.seq}</span> {who(step.role ?? step.event, step.lane ?? "")}
          {step.status && <span class="word">{step.status}</span>}
        </h2>
        <Copy text={`${location.origin}/t/${thread}/s/${step.seq}`} label="Copy link" />
        {step.event === "step" && (
          <button type="button" class="quiet" onClick={() => props.onFork(step.seq)}>
            Fork here
          </button>
        )}
      </header>
      {note && (
        <dl class="figures">
          <Figure name="took">{duration(note.ended_at_ms - note.started_at_ms)}</Figure>
          {note.model && <Figure name="model">{note.model}</Figure>}
          {note.usage && <Figure name="prompt">{count(note.usage.prompt_tokens)}</Figure>}
          {note.usage && <Figure name="cached">{percent(cachedShare(note.usage))}</Figure>}
          {note.usage && <Figure name="output">{count(note.usage.output_tokens)}</Figure>}
          {note.cost_usd !== null && <Figure name="cost">{usd(note.cost_usd)}</Figure>}
          {note.answered_by && note.answered_by !== "port" && <Figure name="answered by">{JSON.stringify(note.answered_by).replaceAll('"', "")}</Figure>}
        </dl>
      )}
      <div class="tabs" role="tablist" aria-label="What to show of the step">
        {tabs.map(([name, label]) => (
          <button key={name} type="button" role="tab" id={`tab-${name}`} aria-selected={tab === name} aria-controls="tab-panel" onClick={() => setTab(name)}>
            {label}
          </button>
        ))}
      </div>
      <div id="tab-panel" role="tabpanel" aria-labelledby={`tab-${tab}`} tabIndex={0}>
        {tab === "answer" && <Answer step={step} />}
        {tab === "request" && <RequestsOf key={step.step} thread={thread} seq={step.seq} />}
        {tab === "raw" && <Raw key={step.step} thread={thread} seq={step.seq} />}
      </div>
    </section>
  );
}

function Answer({ step }: { step: Step }) {
  const fields = Object.entries(step.output ?? {});
  return (
    <>
      {step.edge?.prompt && (
        <details class="block" open>
          <summary>
            Prompt <span class="dim">from {step.edge.from}</span>
          </summary>
          <pre class="text">{step.edge.prompt}</pre>
        </details>
      )}
      {fields.length > 0 && (
        <dl class="fields">
          {fields.map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{typeof value === "string" ? value : JSON.stringify(value)}</dd>
            </div>
          ))}
        </dl>
      )}
      {(step.body || step.text) && <pre class="text answer">{step.body || step.text}</pre>}
      {step.child && (
        <p>
          Child thread: <Link to={`/t/${step.child}`}>{step.child}</Link>
        </p>
      )}
      {step.note && step.note.tools.length > 0 && (
        <table class="tools">
          <caption>Tools</caption>
          <tbody>
            {step.note.tools.map((tool) => (
              <tr key={tool.call}>
                <td>{tool.tool}</td>
                <td class="dim">{tool.effect}</td>
                <td class="number">{bytes(tool.bytes)}</td>
                <td class="number">{duration(tool.duration_ms)}</td>
                <td>{tool.failed ? "failed" : ""}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      <p class="digest">
        step <code>{step.step}</code> <Copy text={step.step} label="Copy" />
      </p>
    </>
  );
}

function RequestsOf({ thread, seq }: { thread: string; seq: number }) {
  const [found, problem] = useLoaded((signal) => get<Requests>(`/threads/${thread}/steps/${seq}/messages`, signal), `${thread}/${seq}`);
  if (problem) return <ProblemBox problem={problem} />;
  if (!found) return null;
  if (found.requests.length === 0) return <Empty>No model was asked in this step.</Empty>;
  return (
    <>
      {found.requests.map((request, index) => (
        <OneRequest key={request.digest} request={request} shared={found.shared[index]} number={index + 1} count={found.requests.length} />
      ))}
    </>
  );
}

const size = (text: string) => new TextEncoder().encode(text).length;

function contentOf(message: Message): string {
  const shown = message.parts.map((part) => {
    if (part.kind === "text") return part.text ?? "";
    const { kind, ...rest } = part;
    const fields = Object.entries(rest).map(([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`);
    return [kind, ...fields].join("\n");
  });
  return shown.join("\n\n");
}

function OneRequest(props: { request: Request; shared: Requests["shared"][number] | undefined; number: number; count: number }) {
  const { request, shared } = props;
  const { system, ...head } = request.head as { system?: string } & { [name: string]: Json };
  const kept = shared?.messages ?? 0;
  const share = shared && shared.request_bytes > 0 ? shared.bytes / shared.request_bytes : 0;
  const isHeadKept = (shared?.bytes ?? 0) > 0;
  return (
    <article class="request">
      <header>
        <strong>{props.count > 1 ? `Request ${props.number} of ${props.count}` : "Request"}</strong>
        <span class="dim">
          {bytes(shared?.request_bytes ?? 0)}, {percent(share)} began an earlier request
        </span>
      </header>
      <div class="bar-of-bytes" role="img" aria-label={`${percent(share)} shared`}>
        <span class="served" style={{ width: `${share * 100}%` }} />
      </div>
      <details class={`message ${isHeadKept ? "kept" : "new"}`}>
        <summary>
          <span class="role">settings</span> <span class="dim">model, parameters, tools, form of the answer</span>
        </summary>
        <pre class="mono">{JSON.stringify(head, null, 2)}</pre>
      </details>
      {system && (
        <details class={`message ${isHeadKept ? "kept" : "new"}`} open={!isHeadKept}>
          <summary>
            <span class="role">system</span> <span class="dim">{bytes(size(system))}</span>
          </summary>
          <pre class="text">{system}</pre>
        </details>
      )}
      {request.messages.map((message, index) => (
        <details key={index} class={`message ${index < kept ? "kept" : "new"}`} open={index >= kept}>
          <summary>
            <span class="role">{message.role}</span> <span class="dim">{bytes(size(contentOf(message)))}</span>
            {index >= kept && <span class="tag">new</span>}
          </summary>
          <pre class="text">{contentOf(message)}</pre>
        </details>
      ))}
      <p class="digest">
        <span class="proven" title="Rebuilt from the steps; the digest is that of what was sent">
          ✓ rebuilt
        </span>{" "}
        <code>{request.digest}</code> <Copy text={request.digest} label="Copy" />
      </p>
    </article>
  );
}

/** The very bytes that `rondo messages --json` prints. */
function Raw({ thread, seq }: { thread: string; seq: number }) {
  const path = `/threads/${thread}/steps/${seq}/messages`;
  const [lines, problem] = useLoaded(() => text(path, "application/x-ndjson"), path);
  if (problem) return <ProblemBox problem={problem} />;
  if (lines === null) return null;
  if (!lines) return <Empty>No model was asked in this step.</Empty>;
  return (
    <>
      <p class="dim">
        {bytes(size(lines))}, as <code>rondo messages --json</code> prints them <Copy text={lines} label="Copy" />
      </p>
      <pre class="mono raw">{lines}</pre>
    </>
  );
}
