// The list of threads, newest first, as it changes.

import { useEffect, useRef, useState } from "preact/hooks";
import { get, listen } from "./api";
import { age, cachedShare, count, percent, tokens, usd } from "./format";
import { go } from "./router";
import type { Status, Thread } from "./types";
import { Badge, Empty, Link, ProblemBox, useKeys, useNow } from "./ui";

const STATUSES: Status[] = ["running", "waiting", "stopped", "done", "failed", "cancelled"];
const SINCE = { "": "any time", "1h": "last hour", "24h": "last day", "7d": "last week" };

interface List {
  threads: Thread[];
  next: string | null;
}

interface Filter {
  status: string;
  workflow: string;
  since: string;
  text: string;
}

function queryOf(filter: Filter, cursor: string | null): string {
  const query = new URLSearchParams();
  if (filter.status) query.set("status", filter.status);
  if (filter.workflow) query.set("workflow", filter.workflow);
  if (filter.since) query.set("since", filter.since);
  if (cursor) query.set("cursor", cursor);
  return query.toString();
}

export function Threads() {
  const [filter, setFilter] = useState<Filter>({ status: "", workflow: "", since: "", text: "" });
  const [list, setList] = useState<List | null>(null);
  const [problem, setProblem] = useState<unknown>(null);
  const [chosen, setChosen] = useState(0);
  const [names, setNames] = useState<string[]>([]);
  const search = useRef<HTMLInputElement>(null);
  const now = useNow();
  const key = queryOf(filter, null);

  useEffect(() => {
    let isCurrent = true;
    const load = () =>
      get<List>(`/threads?${key}`).then(
        (found) => {
          if (!isCurrent) return;
          // Further pages stay as they are.
          setList((old) => {
            const first = new Set(found.threads.map((thread) => thread.thread));
            const last = found.threads[found.threads.length - 1]?.thread ?? "";
            const rest = old?.threads.filter((thread) => !first.has(thread.thread) && thread.thread < last) ?? [];
            return rest.length > 0 ? { threads: [...found.threads, ...rest], next: old!.next } : found;
          });
          setNames((old) => [...new Set([...old, ...found.threads.map((thread) => thread.name)])].sort());
          setProblem(null);
        },
        (found) => isCurrent && setProblem(found),
      );
    setList(null);
    void load();
    // Many events come at once; the list is read again at most twice a second.
    let timer = 0;
    const soon = () => {
      timer ||= window.setTimeout(() => {
        timer = 0;
        void load();
      }, 500);
    };
    const end = listen("/events", null, (event) => /^(thread_|step_committed)/.test(event.event) && soon(), (isOpen) => isOpen && soon());
    // Threads of other processes make no events here.
    const slow = setInterval(() => document.hidden || soon(), 10_000);
    document.addEventListener("visibilitychange", soon);
    return () => {
      isCurrent = false;
      clearTimeout(timer);
      clearInterval(slow);
      document.removeEventListener("visibilitychange", soon);
      end();
    };
  }, [key]);

  const shown = (list?.threads ?? []).filter((thread) => {
    const words = [thread.thread, thread.name, thread.label, ...thread.tags].join(" ").toLowerCase();
    return words.includes(filter.text.toLowerCase());
  });
  useKeys((pressed) => {
    if (pressed === "/") search.current?.focus();
    else if (pressed === "j") setChosen((old) => Math.min(old + 1, shown.length - 1));
    else if (pressed === "k") setChosen((old) => Math.max(old - 1, 0));
    else if (pressed === "Enter" && shown[chosen] && document.activeElement === document.body) go(`/t/${shown[chosen].thread}`);
    else if (pressed === "Escape") search.current?.blur();
    else return false;
    return true;
  });
  const more = async () => {
    const page = await get<List>(`/threads?${queryOf(filter, list!.next)}`);
    setList({ threads: [...list!.threads, ...page.threads], next: page.next });
  };
  const set = (change: Partial<Filter>) => setFilter({ ...filter, ...change });
  const isFiltered = key !== "" || filter.text !== "";

  return (
    <main class="list">
      <header class="bar">
        <h1>Threads</h1>
        <form class="filters" role="search" onSubmit={(event) => event.preventDefault()}>
          <input ref={search} type="search" placeholder="Search  /" aria-label="Search in what is listed" value={filter.text} onInput={(event) => set({ text: event.currentTarget.value })} />
          <select aria-label="Status" value={filter.status} onChange={(event) => set({ status: event.currentTarget.value })}>
            <option value="">every status</option>
            {STATUSES.map((status) => (
              <option key={status}>{status}</option>
            ))}
          </select>
          <select aria-label="Workflow" value={filter.workflow} onChange={(event) => set({ workflow: event.currentTarget.value })}>
            <option value="">every workflow</option>
            {names.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
          <select aria-label="Started" value={filter.since} onChange={(event) => set({ since: event.currentTarget.value })}>
            {Object.entries(SINCE).map(([value, label]) => (
              <option key={value} value={value}>
                {label}
              </option>
            ))}
          </select>
        </form>
        <Link to="/start" class="button primary">
          Start a thread
        </Link>
      </header>
      <ProblemBox problem={problem} />
      {list && shown.length === 0 && (
        <Empty>
          {isFiltered ? (
            <p>No thread is like that.</p>
          ) : (
            <>
              <p>No threads yet.</p>
              <p>
                <Link to="/start">Start one here</Link>, or with <code>rondo run</code> in a terminal: this page shows both.
              </p>
            </>
          )}
        </Empty>
      )}
      {shown.length > 0 && (
        <div class="scroll" tabIndex={0} role="region" aria-label="Threads, newest first">
          <table class="threads">
            <thead>
              <tr>
                <th>Status</th>
                <th>Workflow</th>
                <th>Name and tags</th>
                <th class="number">Steps</th>
                <th class="number">Tokens</th>
                <th class="number">Cached</th>
                <th class="number">Cost</th>
                <th class="number">Age</th>
              </tr>
            </thead>
            <tbody>
              {shown.map((thread, index) => (
                <tr key={thread.thread} class={index === chosen ? "chosen" : ""}>
                  <td>
                    <Badge status={thread.status} />
                  </td>
                  <td>
                    <Link to={`/t/${thread.thread}`} class="row" title={thread.thread}>
                      {thread.name}
                    </Link>
                  </td>
                  <td class="labels">
                    <div>
                    {thread.label && <span class="label">{thread.label}</span>}
                    {thread.tags.map((tag) => (
                      <span class="tag" key={tag}>
                        {tag}
                      </span>
                    ))}
                    {thread.is_offline && <span class="tag dim">offline</span>}
                    {!thread.label && thread.tags.length === 0 && <span class="id">{thread.thread.slice(0, 12)}</span>}
                    </div>
                  </td>
                  <td class="number">{count(thread.totals.steps)}</td>
                  <td class="number">{tokens(thread.totals.prompt_tokens + thread.totals.output_tokens, thread.totals)}</td>
                  <td class="number">{percent(cachedShare(thread.totals))}</td>
                  <td class="number">{usd(thread.totals.cost_usd)}</td>
                  <td class="number">{age(thread.started_at_ms, now)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {list?.next && (
        <p class="more">
          <button type="button" onClick={() => void more().catch(setProblem)}>
            Show older ones
          </button>
        </p>
      )}
    </main>
  );
}
