// The list of threads, newest first, as it changes. The address holds the filter.

import { useEffect, useRef, useState } from "preact/hooks";
import { get, isOfConnection, listen } from "./api";
import { age, cachedShare, count, duration, moment, percent, short, tokens, usd } from "./format";
import { useKeys, useNow, useSettled } from "./hooks";
import { go, move, useLocation } from "./router";
import type { Status, Thread } from "./types";
import { Badge, Command, Empty, Link, ProblemBox, Reading, ShareBar } from "./ui";

const STATUSES: Status[] = ["running", "waiting", "stopped", "done", "failed", "cancelled"];
export const SINCE = { "": "Any time", "1h": "Last hour", "24h": "Last day", "7d": "Last week" };
/** Threads that other processes drive make no events here. */
const LOOK_MS = 5000;
/** Many events come at once. */
const GATHER_MS = 400;
/** A search is asked for once nobody has typed for so long. */
const TYPED_MS = 250;

interface List {
  threads: Thread[];
  next: string | null;
}

const FILTERS = ["status", "workflow", "since"] as const;

/** What the server filters by. */
function asked(query: URLSearchParams, search: string): string {
  const kept = new URLSearchParams(search && { q: search });
  for (const name of FILTERS) {
    const value = query.get(name);
    if (value) kept.set(name, value);
  }
  return kept.toString();
}

/** The newest threads in front of the older ones that are known. */
function joined(old: List | null, found: List): List {
  const oldest = found.threads[found.threads.length - 1]?.thread;
  if (!old || !oldest || found.next === null) return found;
  const rest = old.threads.filter((thread) => thread.thread < oldest);
  return rest.length > 0 ? { threads: [...found.threads, ...rest], next: old.next } : found;
}

function useThreads(filter: string): { list: List | null; problem: unknown; more: () => Promise<void> } {
  const [state, setState] = useState<{ list: List | null; problem: unknown; filter: string }>({ list: null, problem: null, filter });
  useEffect(() => {
    let isCurrent = true;
    let timer = 0;
    const load = () =>
      get<List>(`/threads?${filter}`).then(
        (found) =>
          isCurrent && setState((old) => ({ list: joined(old.filter === filter ? old.list : null, found), problem: null, filter })),
        (problem) => isCurrent && setState((old) => (isOfConnection(problem) ? old : { list: null, problem, filter })),
      );
    const soon = () => {
      timer ||= window.setTimeout(() => {
        timer = 0;
        void load();
      }, GATHER_MS);
    };
    void load();
    const end = listen("/events", null, {
      onEvent: (event) => /^(thread_|step_committed|error)/.test(event.event) && soon(),
      onOpen: soon,
    });
    const look = () => document.hidden || soon();
    const slow = setInterval(look, LOOK_MS);
    document.addEventListener("visibilitychange", look);
    return () => {
      isCurrent = false;
      clearTimeout(timer);
      clearInterval(slow);
      document.removeEventListener("visibilitychange", look);
      end();
    };
  }, [filter]);
  // What another filter found stays until this one has found something, so that nothing flickers while one types.
  const list = state.filter === filter ? state.list : state.list && { ...state.list, next: null };
  const more = async () => {
    const page = await get<List>(`/threads?${filter}&cursor=${list!.next}`);
    setState((old) => (old.list ? { ...old, list: { threads: [...old.list.threads, ...page.threads], next: page.next } } : old));
  };
  return { list, problem: state.problem, more };
}

export function Threads() {
  const query = new URLSearchParams(useLocation().query);
  const search = query.get("q") ?? "";
  const filter = asked(query, useSettled(search.trim(), TYPED_MS));
  const { list, problem, more } = useThreads(filter);
  const [chosen, setChosen] = useState("");
  const [refusal, setRefusal] = useState<unknown>(null);
  const field = useRef<HTMLInputElement>(null);
  const shown = list?.threads ?? [];
  // By its id, because new threads come above it.
  const at = Math.max(
    0,
    shown.findIndex((thread) => thread.thread === chosen),
  );
  const set = (name: string, value: string) => {
    if (value) query.set(name, value);
    else query.delete(name);
    setChosen("");
    move(`/${query.size > 0 ? `?${query}` : ""}`);
  };
  const choose = (index: number) => {
    if (!shown[index]) return;
    setChosen(shown[index].thread);
    document.querySelectorAll(".threads tbody tr")[index]!.scrollIntoView({ block: "nearest" });
  };
  useKeys((key) => {
    if (key === "/") field.current?.focus();
    else if (key === "j" || key === "ArrowDown") choose(at + 1);
    else if (key === "k" || key === "ArrowUp") choose(at - 1);
    else if (key === "Enter" && shown[at]) go(`/t/${shown[at].thread}`);
    else if (key === "Escape") (document.activeElement as HTMLElement).blur();
    else return false;
    return true;
  });
  const isFiltered = query.size > 0;
  const names = new Set((list?.threads ?? []).map((thread) => thread.name));
  const workflow = query.get("workflow");
  if (workflow) names.add(workflow);

  return (
    <main class="list">
      <div class="bar">
        <h1>Threads</h1>
        <form class="filters" role="search" onSubmit={(event) => event.preventDefault()}>
          <input
            ref={field}
            type="search"
            placeholder="Search"
            aria-label="Search names, tags, ids and inputs"
            aria-keyshortcuts="/"
            value={search}
            onInput={(event) => set("q", event.currentTarget.value)}
          />
          <select aria-label="Status" value={query.get("status") ?? ""} onChange={(event) => set("status", event.currentTarget.value)}>
            <option value="">Any status</option>
            {STATUSES.map((status) => (
              <option key={status}>{status}</option>
            ))}
          </select>
          <select aria-label="Workflow" value={workflow ?? ""} onChange={(event) => set("workflow", event.currentTarget.value)}>
            <option value="">Any workflow</option>
            {[...names].sort().map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
          <select aria-label="Started" value={query.get("since") ?? ""} onChange={(event) => set("since", event.currentTarget.value)}>
            {Object.entries(SINCE).map(([value, label]) => (
              <option key={value} value={value}>
                {label}
              </option>
            ))}
          </select>
          {isFiltered && (
            <button type="button" class="quiet" onClick={() => move("/")}>
              Clear
            </button>
          )}
        </form>
        <Link to="/start" class="button primary">
          Start a thread
        </Link>
      </div>
      <ProblemBox problem={problem ?? refusal} />
      {!list && !problem && <Reading what="threads" />}
      {shown.length > 0 && <Table threads={shown} chosen={at} />}
      {list && shown.length === 0 && <None isFiltered={isFiltered} hasMore={list.next !== null} />}
      {list?.next && (
        <p class="more">
          <button type="button" onClick={() => void more().catch(setRefusal)}>
            Show older threads
          </button>
        </p>
      )}
    </main>
  );
}

function None({ isFiltered, hasMore }: { isFiltered: boolean; hasMore: boolean }) {
  if (isFiltered) {
    return (
      <Empty title="No thread fits the filter.">
        <p>{hasMore ? "Older threads have not been looked through yet." : "Clear the filter to see all threads."}</p>
      </Empty>
    );
  }
  return (
    <Empty title="No threads yet.">
      <p>
        <Link to="/start">Start one here</Link> or in a terminal. This page shows both.
      </p>
      <Command text="rondo run review-loop --offline" />
    </Empty>
  );
}

function Table({ threads, chosen }: { threads: Thread[]; chosen: number }) {
  const now = useNow();
  return (
    <table class="threads">
      <thead>
        <tr>
          <th scope="col">Status</th>
          <th scope="col">Thread</th>
          <th scope="col" class="number">
            Steps
          </th>
          <th scope="col" class="number wide">
            Tokens
          </th>
          <th scope="col" class="number wide">
            Cached
          </th>
          <th scope="col" class="number wide">
            Cost
          </th>
          <th scope="col" class="number wide">
            Took
          </th>
          <th scope="col" class="number">
            Age
          </th>
        </tr>
      </thead>
      <tbody>
        {threads.map((thread, index) => (
          <Line key={thread.thread} thread={thread} isChosen={index === chosen} now={now} />
        ))}
      </tbody>
    </table>
  );
}

function Line({ thread, isChosen, now }: { thread: Thread; isChosen: boolean; now: number }) {
  const { totals } = thread;
  const share = cachedShare(totals);
  return (
    <tr class={isChosen ? "chosen" : ""}>
      <td>
        <Badge status={thread.status} />
      </td>
      <td class="what">
        <Link to={`/t/${thread.thread}`} class="target" title={thread.thread}>
          {thread.name}
        </Link>
        {thread.label && <span class="label">{thread.label}</span>}
        {!thread.label && <span class="id">{short(thread.thread)}</span>}
        {thread.tags.map((tag) => (
          <span class="tag" key={tag}>
            {tag}
          </span>
        ))}
        {thread.base && <span class="mark">fork</span>}
        {thread.is_offline && <span class="mark">offline</span>}
        {thread.imported && <span class="mark">imported</span>}
      </td>
      <td class="number">{count(totals.steps)}</td>
      <td class="number wide">{tokens(totals.prompt_tokens + totals.output_tokens, totals)}</td>
      <td class="number wide">
        {share !== null && <ShareBar share={share} />}
        {percent(share)}
      </td>
      <td class="number wide">{usd(totals.cost_usd)}</td>
      <td class="number wide">{thread.ended_at_ms ? duration(thread.ended_at_ms - thread.started_at_ms) : "–"}</td>
      <td class="number" title={moment(thread.started_at_ms)}>
        {age(thread.started_at_ms, now)}
      </td>
    </tr>
  );
}
