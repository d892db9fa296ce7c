// The exact requests of a step, rebuilt from the store and proven by their digests.

import { useEffect, useRef } from "preact/hooks";
import { get, ofThread, text } from "../api";
import { bytes, many, percent, shown, sizeOf } from "../format";
import { useLoaded } from "../hooks";
import type { Message, Request, Requests as Found, Step } from "../types";
import { Copy, Empty, ProblemBox, Reading } from "../ui";

/** How much of a request an earlier one had sent already. */
type Shared = Found["shared"][number];

const NONE = <Empty title="No model was asked in this step." />;

export function Requests({ thread, step }: { thread: string; step: Step }) {
  const path = ofThread(thread, `/steps/${step.seq}/messages`);
  const { value: found, problem } = useLoaded((signal) => get<Found>(path, signal), path);
  if (problem) return <ProblemBox problem={problem} />;
  if (!found) return <Reading what="the request" />;
  if (found.requests.length === 0) return NONE;
  return (
    <>
      {found.requests.map((request, index) => (
        <OneRequest key={request.digest} request={request} shared={found.shared[index]!} number={index + 1} count={found.requests.length} />
      ))}
    </>
  );
}

/** What a message says, as text: parts that are none are shown by their fields. */
function contentOf(message: Message): string {
  const texts = message.parts.map((part) => {
    if (part.kind === "text") return part.text ?? "";
    const { kind, ...rest } = part;
    const fields = Object.entries(rest).filter(([, value]) => value !== null && value !== "");
    return [kind.replace("_", " "), ...fields.map(([name, value]) => `${name}: ${shown(value)}`)].join("\n");
  });
  return texts.join("\n\n");
}

interface OneProps {
  request: Request;
  shared: Shared;
  number: number;
  count: number;
}

function OneRequest({ request, shared, number, count }: OneProps) {
  const { system, ...head } = request.head;
  const isHeadShared = shared.bytes > 0;
  // What was sent before comes first: a request that breaks its prefix shares no later message.
  const old = request.messages.slice(0, shared.messages);
  const fresh = request.messages.slice(shared.messages);
  const share = shared.request_bytes > 0 ? shared.bytes / shared.request_bytes : 0;
  const before = number > 1 ? "with the request before it" : `with visit ${request.visit - 1}`;
  return (
    <article class="request" aria-label={`Request ${number} of ${count}`}>
      <header>
        <strong>{count > 1 ? `Request ${number} of ${count}` : "Request"}</strong>
        <span>{bytes(shared.request_bytes)}</span>
        <span class="dim">{isHeadShared ? `${bytes(shared.bytes)} (${percent(share)}) shared ${before}` : "nothing was sent before"}</span>
      </header>
      <ShareOf share={share} />
      <Part
        title="settings"
        detail="model, parameters, tools, form of the answer"
        isOld={isHeadShared}
        isOpen={false}
        body={JSON.stringify(head, null, 2)}
        isMono
      />
      {system && <Part title="system" isOld={isHeadShared} isOpen={!isHeadShared} body={system} />}
      {old.length > 0 && (
        <details class="old-messages">
          <summary>
            {many(old.length, "message")} as sent before{" "}
            <span class="dim">{bytes(old.reduce((sum, message) => sum + sizeOf(contentOf(message)), 0))}</span>
          </summary>
          {old.map((message, index) => (
            <Part key={index} at={index + 1} title={message.role} isOld isOpen={false} body={contentOf(message)} />
          ))}
        </details>
      )}
      {fresh.map((message, index) => (
        <Part key={index} at={old.length + index + 1} title={message.role} isOld={false} isOpen body={contentOf(message)} />
      ))}
      <p class="digest">
        <span class="proven" title="Rebuilt from the stored steps. Its digest is the one that was stored when it was sent.">
          ✓ proven
        </span>{" "}
        <code>{request.digest}</code> <Copy text={request.digest} label="Copy" />
      </p>
      {request.asked && <p class="dim">A hook rewrote it; before that its digest was {request.asked.digest}.</p>}
    </article>
  );
}

interface PartProps {
  title: string;
  detail?: string;
  /** The message's place in the request, from 1. */
  at?: number;
  isOld: boolean;
  isOpen: boolean;
  body: string;
  isMono?: boolean;
}

function Part({ title, detail, at, isOld, isOpen, body, isMono }: PartProps) {
  return (
    <details class={`message ${isOld ? "kept" : "new"}`} open={isOpen} data-at={at}>
      <summary>
        <span class="role">{title}</span>
        {detail && <span class="dim">{detail}</span>}
        <span class="dim number">{bytes(sizeOf(body))}</span>
        {!isOld && <span class="tag fresh-tag">new</span>}
      </summary>
      <pre class={isMono ? "mono" : "text"}>{body}</pre>
    </details>
  );
}

function ShareOf({ share }: { share: number }) {
  const part = useRef<HTMLElement>(null);
  useEffect(() => {
    part.current!.style.width = `${share * 100}%`;
  }, [share]);
  return (
    <div class="bytes-bar" role="img" aria-label={`${percent(share)} shared`}>
      <i class="served" ref={part} />
      <i class="fresh" />
    </div>
  );
}

/** The very bytes that `rondo messages --json` prints. */
export function Bytes({ thread, seq }: { thread: string; seq: number }) {
  const path = ofThread(thread, `/steps/${seq}/messages`);
  const { value: lines, problem } = useLoaded((signal) => text(path, "application/x-ndjson", signal), `${path} bytes`);
  if (problem) return <ProblemBox problem={problem} />;
  if (lines === null) return <Reading what="the bytes" />;
  if (!lines) return NONE;
  return (
    <>
      <p class="raw-head">
        <span class="dim">
          {bytes(sizeOf(lines))}, byte for byte what <code>rondo messages --json</code> prints
        </span>
        <Copy text={lines} label="Copy bytes" />
      </p>
      <pre class="mono raw" tabIndex={0} role="region" aria-label="Request as sent">
        {lines}
      </pre>
    </>
  );
}
