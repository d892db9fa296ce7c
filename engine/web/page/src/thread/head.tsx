// What stands above and beside the steps of a thread: its line, its figures, its input and result.

import type { ComponentChildren } from "preact";
import { age, cachedShare, count, duration, moment, percent, short, tokens, usd } from "../format";
import { useNow } from "../hooks";
import type { Json, Thread } from "../types";
import { Badge, Copy, Empty, Figure, Link, WithCode } from "../ui";
import { FieldList } from "./step";

interface Props {
  thread: Thread;
  /** The newest line for the user. */
  said: string | null;
  /** What belongs to the graph below. */
  tools: ComponentChildren;
  children: ComponentChildren;
}

export function Head({ thread, said, tools, children }: Props) {
  const isMoving = thread.ended_at_ms === null;
  const now = useNow(isMoving);
  const { totals, stop } = thread;
  const share = cachedShare(totals);
  const unpriced = totals.unpriced_calls > 0 ? `${totals.unpriced_calls} calls have no known price` : "";
  return (
    <header class="head">
      <div class="bar">
        <h1>
          {thread.label ?? thread.name} <Badge status={thread.status} />
        </h1>
        <p class="under">
          {thread.label && <Link to={`/start/${encodeURIComponent(thread.name)}`}>{thread.name}</Link>}
          <span class="id" title={thread.thread}>
            {short(thread.thread)}
          </span>
          <Copy text={thread.thread} label="Copy id" />
          {thread.is_offline && <span class="mark">offline</span>}
          {thread.imported && (
            <span class="mark" title="Its steps are consistent, and nothing shows who made them">
              imported
            </span>
          )}
          {thread.tags.map((tag) => (
            <span class="tag" key={tag}>
              {tag}
            </span>
          ))}
          {thread.parent && (
            <span>
              by {thread.parent.role} of <Link to={`/t/${thread.parent.thread}`}>{short(thread.parent.thread)}</Link>
            </span>
          )}
          {thread.base && (
            <span>
              forked from <Link to={`/t/${thread.base.thread}/s/${thread.base.seq}`}>{short(thread.base.thread)}</Link> at step{" "}
              {thread.base.seq}
            </span>
          )}
        </p>
        {children}
      </div>
      <div class="bar">
        <dl class="figures">
          <Figure name="steps">{count(totals.steps)}</Figure>
          <Figure name="calls">{count(totals.model_calls)}</Figure>
          {totals.tool_calls > 0 && <Figure name="tools">{count(totals.tool_calls)}</Figure>}
          <Figure name="prompt tokens">{tokens(totals.prompt_tokens, totals)}</Figure>
          <Figure name="cached">{percent(share)}</Figure>
          <Figure name="output tokens">{tokens(totals.output_tokens, totals)}</Figure>
          <Figure name="cost" title={unpriced}>
            {usd(totals.cost_usd)}
          </Figure>
          <Figure name={isMoving ? "began" : "took"} title={moment(thread.started_at_ms)}>
            {thread.ended_at_ms ? duration(thread.ended_at_ms - thread.started_at_ms) : `${age(thread.started_at_ms, now)} ago`}
          </Figure>
          {thread.ended_at_ms && <Figure name="ended">{age(thread.ended_at_ms, now)} ago</Figure>}
        </dl>
        {tools}
      </div>
      {said && (
        <p class="said" aria-live="polite">
          {said}
        </p>
      )}
      {(thread.reason || stop) && (
        <div class={stop ? "notice" : "problem"}>
          <p>
            <WithCode text={thread.reason ?? stop!.message} />
            {stop && (
              <>
                {" "}
                <a class="code" href={`/errors/${stop.code}`} target="_blank" rel="noreferrer">
                  {stop.code}
                </a>
              </>
            )}
          </p>
          {stop?.hint && (
            <p class="hint">
              <WithCode text={stop.hint} />
            </p>
          )}
        </div>
      )}
    </header>
  );
}

function isFields(value: Json): value is { [name: string]: Json } {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}

function Value({ value }: { value: Json }) {
  if (isFields(value)) return Object.keys(value).length > 0 ? <FieldList fields={value} /> : <p class="dim">none</p>;
  return <pre class="text answer">{typeof value === "string" ? value : JSON.stringify(value, null, 2)}</pre>;
}

/** What the thread was given and what came of it. */
export function Outcome({ thread }: { thread: Thread }) {
  return (
    <section class="details" aria-label="Result and input" tabIndex={0}>
      {thread.result !== null && (
        <>
          <h2>Result</h2>
          <Value value={thread.result} />
        </>
      )}
      {thread.result === null && thread.status === "running" && <Empty title="Running. The result will stand here." />}
      <h2>Input</h2>
      <Value value={thread.input} />
    </section>
  );
}
