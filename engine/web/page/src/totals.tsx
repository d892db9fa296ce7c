// What all threads used, by workflow, role, model or day. The address holds the choice.

import { get } from "./api";
import { count, many, percent, usd } from "./format";
import { useLoaded } from "./hooks";
import { move, useLocation } from "./router";
import { SINCE } from "./threads";
import type { UsageLine } from "./types";
import { Empty, ProblemBox, Reading, ShareBar } from "./ui";

const BY = ["workflow", "role", "model", "day"];

export function TotalsView() {
  const query = new URLSearchParams(useLocation().query);
  const by = query.get("by") ?? BY[0]!;
  const since = query.get("since") ?? "";
  const path = `/usage?${new URLSearchParams({ by, ...(since && { since }) })}`;
  const { value, problem } = useLoaded((signal) => get<{ usage: UsageLine[]; total: UsageLine }>(path, signal), path);
  const set = (name: string, chosen: string) => {
    query.set(name, chosen);
    move(`/totals?${query}`);
  };
  return (
    <main class="list">
      <div class="bar">
        <h1>Totals</h1>
        <div class="filters">
          <select aria-label="By" value={by} onChange={(event) => set("by", event.currentTarget.value)}>
            {BY.map((one) => (
              <option key={one} value={one}>
                by {one}
              </option>
            ))}
          </select>
          <select aria-label="Time" value={since} onChange={(event) => set("since", event.currentTarget.value)}>
            {Object.entries(SINCE).map(([word, label]) => (
              <option key={word} value={word}>
                {label}
              </option>
            ))}
          </select>
        </div>
      </div>
      <ProblemBox problem={problem} />
      {!value && !problem && <Reading what="all threads" />}
      {value && value.usage.length === 0 && <Empty title="No step was made in this time." />}
      {value && value.usage.length > 0 && <Table by={by} usage={value.usage} total={value.total} />}
    </main>
  );
}

const COLUMNS: [string, (of: UsageLine) => string][] = [
  ["Threads", (of) => count(of.threads)],
  ["Steps", (of) => count(of.steps)],
  ["Calls", (of) => count(of.model_calls)],
  ["Tools", (of) => count(of.tool_calls)],
  ["Prompt tokens", (of) => count(of.prompt_tokens)],
  ["Cached", (of) => percent(of.cached_share)],
  ["Output tokens", (of) => count(of.output_tokens)],
  ["Cost", (of) => usd(of.cost_usd)],
  ["Hooks saved", savedOf],
];

/** What hooks saved: calls, and what those would have cost if that is known. */
function savedOf({ saved }: UsageLine): string {
  if (!saved.calls) return count(saved.calls);
  return [many(saved.calls, "call"), saved.cost_usd !== null && usd(saved.cost_usd)].filter(Boolean).join(", ");
}

function Table({ by, usage, total }: { by: string; usage: UsageLine[]; total: UsageLine }) {
  return (
    <div class="scroll" role="region" aria-label="What threads used" tabIndex={0}>
      <table class="threads usage">
        <thead>
          <tr>
            <th scope="col">{by}</th>
            {COLUMNS.map(([name]) => (
              <th key={name} scope="col" class="number">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {usage.map((line) => (
            <Line key={line.key} name={line.key ?? "none"} line={line} />
          ))}
        </tbody>
        <tfoot>
          <Line name="all" line={total} />
        </tfoot>
      </table>
    </div>
  );
}

function Line({ name, line }: { name: string; line: UsageLine }) {
  return (
    <tr>
      <th scope="row">{name}</th>
      {COLUMNS.map(([column, of]) => (
        <td key={column} class="number" title={column === "Cost" && line.unpriced_calls ? `${line.unpriced_calls} calls have no known price` : ""}>
          {column === "Cached" && line.cached_share !== null && <ShareBar share={line.cached_share} />}
          {of(line)}
        </td>
      ))}
    </tr>
  );
}
