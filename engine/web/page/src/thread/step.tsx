// One step: its prompt and answer, how the answer came about, and the exact requests that models were sent.

import type { ComponentChildren } from "preact";
import { bytes, cachedShare, count, duration, moment, percent, shown, shownArguments, sizeOf, usd } from "../format";
import { dataUrl, ofThread } from "../api";
import { useLoaded } from "../hooks";
import type { EdgeLine, Entry, FileRef, Json, Note, Part, Step } from "../types";
import { Copy, Figure, Icon, Link, LongText, Tabs } from "../ui";
import { Bytes, Requests } from "./request";
import { nameOf } from "./steps";

export const TABS = [
  ["answer", "Answer"],
  ["request", "Request"],
  ["bytes", "Bytes"],
] as const;
export type Tab = (typeof TABS)[number][0];

interface Props {
  thread: string;
  step: Step;
  /** How many steps there are. */
  count: number;
  tab: Tab;
  onTab: (tab: Tab) => void;
  onChoose: (seq: number) => void;
  onFork: () => void;
}

export function StepDetails({ thread, step, count: all, tab, onTab, onChoose, onFork }: Props) {
  return (
    <section class="details" aria-label={`Step ${step.seq}`}>
      <header>
        <div class="buttons">
          <button type="button" class="icon" aria-label="Previous step" disabled={step.seq <= 1} onClick={() => onChoose(step.seq - 1)}>
            <Icon name="previous" />
          </button>
          <button type="button" class="icon" aria-label="Next step" disabled={step.seq >= all} onClick={() => onChoose(step.seq + 1)}>
            <Icon name="next" />
          </button>
        </div>
        <h2>
          <span class="seq">{step.seq}</span> {nameOf(step)} {step.event === "step" && <span class="word">{step.status}</span>}
        </h2>
        {step.event === "step" && step.visit > 1 && <span class="dim">visit {step.visit}</span>}
        <span class="space" />
        <Copy text={`${location.origin}/t/${thread}/s/${step.seq}`} label="Copy link" />
        {step.event === "step" && (
          <button type="button" class="quiet" title="A new thread that shares steps with this one" onClick={onFork}>
            Fork here
          </button>
        )}
        <button type="button" class="icon" aria-label="Close the step" onClick={() => onChoose(0)}>
          <Icon name="close" />
        </button>
      </header>
      {step.event !== "rebind" && <Figures note={step.note} />}
      <Tabs tabs={TABS} chosen={tab} onChoose={onTab} label="What to show of the step" panel="step-panel" />
      <div id="step-panel" role="tabpanel" aria-labelledby={`step-panel-${tab}`} tabIndex={0}>
        {tab === "answer" && <Answer thread={thread} step={step} />}
        {tab === "request" && <Requests key={step.step} thread={thread} step={step} />}
        {tab === "bytes" && <Bytes key={step.step} thread={thread} seq={step.seq} />}
      </div>
    </section>
  );
}

/** What gave an answer, unless a provider or a script did. */
function answeredBy(note: Note): string | null {
  if (note.person) return `${note.person}, a person`;
  return note.answered_by && note.answered_by !== "port" ? note.answered_by : null;
}

function Figures({ note }: { note: Note }) {
  const saved = note.hooks.flatMap((hook) => hook.answered).reduce((sum, answer) => sum + (answer.saved_usd ?? 0), 0);
  const by = answeredBy(note);
  return (
    <dl class="figures">
      <Figure name="took" title={moment(note.started_at_ms)}>
        {duration(note.ended_at_ms - note.started_at_ms)}
      </Figure>
      {note.model && <Figure name="model">{note.model}</Figure>}
      {note.usage && <Figure name="prompt">{count(note.usage.prompt_tokens)}</Figure>}
      {note.usage && <Figure name="cached">{percent(cachedShare(note.usage))}</Figure>}
      {note.usage && <Figure name="output">{count(note.usage.output_tokens)}</Figure>}
      {note.cost_usd !== null && <Figure name="cost">{usd(note.cost_usd)}</Figure>}
      {by && <Figure name="answered by">{by}</Figure>}
      {saved > 0 && <Figure name="saved">{usd(saved)}</Figure>}
    </dl>
  );
}

/** A part that can be folded. */
function Block(props: { title: ComponentChildren; isOpen?: boolean; kind?: string; children: ComponentChildren }) {
  return (
    <details class={`block ${props.kind ?? ""}`} open={props.isOpen ?? false}>
      <summary>{props.title}</summary>
      {props.children}
    </details>
  );
}

export function FieldList({ fields }: { fields: { [name: string]: Json } }) {
  return (
    <dl class="fields">
      {Object.entries(fields).map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>
            {Array.isArray(value) && value.every((item) => typeof item === "string") ? <Items items={value as string[]} /> : shown(value)}
          </dd>
        </div>
      ))}
    </dl>
  );
}

function Items({ items }: { items: string[] }) {
  if (items.length === 0) return <span class="dim">none</span>;
  return (
    <ul>
      {items.map((item, index) => (
        <li key={index}>{item}</li>
      ))}
    </ul>
  );
}

function Answer({ thread, step }: { thread: string; step: Step }) {
  return (
    <>
      {step.event === "step" && <Prompt thread={thread} edge={step.edge} />}
      {step.event === "rebind" && <p>From here on the thread follows another definition.</p>}
      {step.event === "compaction" && <p class="dim">This text stands for the visits up to {step.through_visit}.</p>}
      {step.event === "compaction" && <Said fields={{}} text={step.text} />}
      {step.event === "step" && <Said fields={step.output} text={step.body} />}
      {step.event === "step" && step.child && (
        <p>
          Made by a <Link to={`/t/${step.child}`}>thread of its own</Link>
        </p>
      )}
      {step.event !== "rebind" && <History thread={thread} entries={step.transcript?.entries ?? []} note={step.note} />}
      {step.event === "step" && step.observations.length > 0 && (
        <>
          <h3>What decided besides the answer</h3>
          <pre class="mono raw">{step.observations.map((one) => JSON.stringify(one)).join("\n")}</pre>
        </>
      )}
      <p class="digest">
        <span>step</span> <code>{step.step}</code> <Copy text={step.step} label="Copy" />
      </p>
    </>
  );
}

function Prompt({ thread, edge: { from, status, prompt, files } }: { thread: string; edge: EdgeLine }) {
  const title = (
    <>
      Prompt{" "}
      <span class="dim">
        from {from}
        {status && ` by ${status}`}
      </span>
    </>
  );
  return (
    <Block isOpen title={title}>
      {prompt ? <LongText text={prompt} /> : <p class="dim">empty</p>}
      {files?.map((file) => <Attached key={file.digest} thread={thread} file={file} />)}
    </Block>
  );
}

/** A file that went with a prompt or that a tool returned: a picture is shown, anything else is named. */
function Attached({ thread, file }: { thread: string; file: FileRef }) {
  const isPicture = /^image\/(gif|jpeg|png|webp)$/.test(file.media_type);
  const { value } = useLoaded(
    async (signal) => (isPicture ? dataUrl(ofThread(thread, `/files/${file.digest}`), signal) : null),
    file.digest,
  );
  return (
    <figure class="attached">
      {value && <img src={value} alt={file.name} />}
      <figcaption class="dim">
        {file.name} · {file.media_type}
      </figcaption>
    </figure>
  );
}

function Said({ fields, text }: { fields: { [name: string]: Json }; text: string }) {
  const hasFields = Object.keys(fields).length > 0;
  return (
    <>
      {hasFields && <FieldList fields={fields} />}
      {text && <pre class="text answer">{text}</pre>}
      {!text && !hasFields && <p class="dim">The answer is its status.</p>}
    </>
  );
}

/** The replies and tool calls of a step. One reply that was taken as it came is the answer itself. */
function History({ thread, entries, note }: { thread: string; entries: Entry[]; note: Note }) {
  const hasFiles = entries.some((entry) => entry.kind === "tool" && entry.files?.length);
  if (entries.length <= 1 && !hasFiles) return null;
  return (
    <section class="transcript" aria-label="How it came about">
      <h3>How it came about</h3>
      {entries.map((entry, index) => (
        <EntryBlock key={index} thread={thread} entry={entry} note={note} />
      ))}
    </section>
  );
}

const textOf = (parts: Part[]) => parts.flatMap((part) => (part.kind === "text" ? [part.text] : [])).join("\n\n");

function EntryBlock({ thread, entry, note }: { thread: string; entry: Entry; note: Note }) {
  if (entry.kind === "repair") {
    return (
      <Block title="Refused, and asked again" kind="refused">
        <pre class="text">{entry.text}</pre>
      </Block>
    );
  }
  if (entry.kind === "model") {
    const calls = entry.reply.parts.filter((part) => part.kind === "tool_call").length;
    const text = textOf(entry.reply.parts);
    const title = text ? "Reply" : "Reply without a text";
    return (
      <Block
        title={
          <>
            {title} <span class="dim">{calls > 0 ? `calls ${calls} tool${calls > 1 ? "s" : ""}` : entry.reply.finish}</span>
          </>
        }
      >
        <pre class="text">{text || <span class="dim">none</span>}</pre>
      </Block>
    );
  }
  const told = note.tools.find((tool) => tool.call === entry.id);
  const size = told?.bytes ?? sizeOf(entry.text);
  return (
    <Block
      kind={entry.failed ? "tool failed" : "tool"}
      title={
        <>
          <code>{entry.name}</code>{" "}
          <span class="dim">
            {[
              entry.failed && "failed",
              told?.effect,
              bytes(size),
              told && duration(told.duration_ms),
              told && told.answered_by !== "port" && `by ${told.answered_by}`,
            ]
              .filter(Boolean)
              .join(" · ")}
          </span>
        </>
      }
    >
      <LongText class="mono" text={shownArguments(entry.arguments)} />
      <LongText class="mono result" text={entry.text} />
      {entry.files?.map((file) => <Attached key={file.digest} thread={thread} file={file} />)}
    </Block>
  );
}
