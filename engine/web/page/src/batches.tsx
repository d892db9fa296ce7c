// Batches, and the lines of one. They are started and resumed in a terminal.

import { useEffect, useRef, useState } from "preact/hooks";
import { get } from "./api";
import { age, count, moment, short, usd } from "./format";
import { useAgain, useLoaded, useNow } from "./hooks";
import type { Batch, BatchRow, LineStatus } from "./types";
import { Badge, Command, Empty, Figure, Link, ProblemBox, Reading, WithCode } from "./ui";

const AGAIN_MS = 3000;
const PAGE = 100;
/** The most lines that the server gives at once. */
const MAX_PAGE = 1000;

/** In the order of the bar. */
const WORDS: LineStatus[] = ["done", "failed", "invalid", "cancelled", "stopped", "waiting", "running", "not_begun"];

const has = (batch: Batch, ...words: LineStatus[]) => words.some((word) => batch.statuses[word]);
const isMoving = (batch: Batch) => has(batch, "running", "not_begun");

export function Batches() {
  const loaded = useLoaded((signal) => get<{ batches: Batch[] }>("/batches", signal), "");
  const { value, problem } = loaded;
  const batches = value?.batches ?? [];
  const now = useNow();
  useAgain(loaded, (found) => found.batches.some(isMoving), AGAIN_MS);
  return (
    <main class="list">
      <div class="bar">
        <h1>Batches</h1>
      </div>
      <ProblemBox problem={problem} />
      {!value && !problem && <Reading what="batches" />}
      {value && batches.length === 0 && (
        <Empty title="No batches yet.">
          <p>A batch runs one workflow for each line of a file.</p>
          <Command text="rondo run review-loop --input-file topics.jsonl" />
        </Empty>
      )}
      {batches.length > 0 && (
        <table class="threads">
          <thead>
            <tr>
              <th scope="col">Batch</th>
              <th scope="col">Lines</th>
              <th scope="col" class="number wide">
                Cost
              </th>
              <th scope="col" class="number">
                Age
              </th>
            </tr>
          </thead>
          <tbody>
            {batches.map((batch) => (
              <tr key={batch.batch}>
                <td class="what">
                  <Link to={`/batches/${batch.batch}`} class="target" title={batch.batch}>
                    {batch.name}
                  </Link>
                  <span class="id">{short(batch.batch)}</span>
                  <Tags tags={batch.tags} />
                </td>
                <td>
                  <Progress batch={batch} />
                </td>
                <td class="number wide">{usd(batch.cost_usd)}</td>
                <td class="number" title={moment(batch.started_at_ms)}>
                  {age(batch.started_at_ms, now)}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </main>
  );
}

function Tags({ tags }: { tags: string[] }) {
  return tags.map((tag) => (
    <span class="tag" key={tag}>
      {tag}
    </span>
  ));
}

/** `48 of 50 done, 1 invalid`, below a bar of the same. */
function Progress({ batch: { statuses, lines } }: { batch: Batch }) {
  const bar = useRef<HTMLSpanElement>(null);
  const found = WORDS.filter((word) => statuses[word]);
  useEffect(() => {
    found.forEach((word, index) => {
      (bar.current!.children[index] as HTMLElement).style.width = `${(statuses[word]! / lines) * 100}%`;
    });
  }, [statuses, lines]);
  const others = found.filter((word) => word !== "done").map((word) => `, ${count(statuses[word])} ${word.replace("_", " ")}`);
  return (
    <span class="progress">
      <span class="bytes-bar" ref={bar} aria-hidden="true">
        {found.map((word) => (
          <i key={word} class={`of-${word}`} />
        ))}
      </span>
      {count(statuses.done ?? 0)} of {count(lines)} done{others}
    </span>
  );
}

interface Page {
  batch: Batch;
  rows: BatchRow[];
}

/** The batch and its first lines, as many as are wanted. */
async function readLines(id: string, wanted: number, signal: AbortSignal): Promise<Page> {
  const rows: BatchRow[] = [];
  for (;;) {
    const limit = Math.min(wanted - rows.length, MAX_PAGE);
    const page = await get<Page>(`/batches/${encodeURIComponent(id)}?after=${rows.at(-1)?.line ?? 0}&limit=${limit}`, signal);
    rows.push(...page.rows);
    if (page.rows.length < limit || rows.length >= wanted) return { batch: page.batch, rows };
  }
}

export function BatchView({ id }: { id: string }) {
  const [wanted, setWanted] = useState(PAGE);
  const loaded = useLoaded((signal) => readLines(id, wanted, signal), id);
  const { value, problem, reload } = loaded;
  const now = useNow();
  useAgain(loaded, (found) => isMoving(found.batch), AGAIN_MS);
  if (!value) {
    return (
      <main>
        <h1>Batch</h1>
        <ProblemBox problem={problem} />
        {!problem && <Reading what="the batch" />}
      </main>
    );
  }
  const { batch, rows } = value;
  const more = () => {
    setWanted(wanted + PAGE);
    reload();
  };
  return (
    <main class="list">
      <header class="head batch">
        <div class="bar">
          <h1>Batch of {batch.name}</h1>
          <p class="under">
            <span class="id">{batch.batch}</span>
            <Tags tags={batch.tags} />
          </p>
        </div>
        <Progress batch={batch} />
        <dl class="figures">
          <Figure name="cost" title={batch.unpriced_calls > 0 ? `${batch.unpriced_calls} calls have no known price` : ""}>
            {usd(batch.cost_usd)}
          </Figure>
          <Figure name="began" title={moment(batch.started_at_ms)}>
            {age(batch.started_at_ms, now)} ago
          </Figure>
        </dl>
        {has(batch, "not_begun", "running", "stopped", "waiting") && <Command text={`rondo resume --batch ${batch.batch}`} />}
        <ProblemBox problem={problem} />
      </header>
      <table class="threads lines">
        <thead>
          <tr>
            <th scope="col">Status</th>
            <th scope="col" class="number">
              Line
            </th>
            <th scope="col">Thread</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.line}>
              <td>
                <Badge status={row.status} />
              </td>
              <td class="number">{row.line}</td>
              <td class="what">
                {row.thread && row.status !== "not_begun" && (
                  <Link to={`/t/${row.thread}`} class="target id" title={row.thread}>
                    {short(row.thread)}
                  </Link>
                )}
                {row.message && (
                  <span class="bad">
                    <WithCode text={row.message} />
                  </span>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length >= wanted && (
        <p class="more">
          <button type="button" onClick={more}>
            Show more lines
          </button>
        </p>
      )}
    </main>
  );
}
