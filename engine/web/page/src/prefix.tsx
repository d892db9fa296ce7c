// The prefix lane: what of each request a provider's cache can serve, where it broke, and what that cost.

import { useEffect, useRef, useState } from "preact/hooks";
import { get, ofThread } from "./api";
import { bytes, cachedShare, count, many, percent, usd, who } from "./format";
import { useKeys, useLoaded } from "./hooks";
import { go } from "./router";
import { Rows } from "./rows";
import type { PrefixRole, PrefixVisit } from "./types";
import { Empty, Figure, Link, ProblemBox, Reading } from "./ui";

const ROW = 26;

interface Report {
  visits: PrefixVisit[];
  roles: PrefixRole[];
}

export function Prefix({ thread }: { thread: string }) {
  const { value: report, problem } = useLoaded((signal) => get<Report>(ofThread(thread, "/prefix"), signal), thread);
  useKeys((key) => {
    if (key !== "Escape") return false;
    go(`/t/${thread}`);
    return true;
  });
  return (
    <main class="prefix">
      <header class="head">
        <div class="bar">
          <h1>Prefix lane</h1>
          <Link to={`/t/${thread}`} class="button">
            Back to the thread
          </Link>
        </div>
        <p class="dim">
          A provider serves from its cache what a request has in common with the role&apos;s request before it, from the first byte to the
          first difference.
        </p>
        <ul class="legend">
          <li>
            <i class="swatch served" /> sent before
          </li>
          <li>
            <i class="swatch fresh" /> new
          </li>
          <li>
            <i class="swatch lost" /> sent again: the prefix broke
          </li>
        </ul>
      </header>
      <ProblemBox problem={problem} />
      {!report && !problem && <Reading what="every request" />}
      {report && report.visits.length === 0 && <Empty title="No model was asked in this thread." />}
      {report?.roles.map((role) => (
        <Lane key={role.role} thread={thread} role={role} visits={report.visits.filter((visit) => visit.role === role.role)} />
      ))}
    </main>
  );
}

function Lane({ thread, role, visits }: { thread: string; role: PrefixRole; visits: PrefixVisit[] }) {
  if (visits.length === 0) return null;
  const longest = Math.max(...visits.map((visit) => visit.request_bytes), 1);
  const broken = visits.filter((visit) => visit.broke);
  const [chosen, setChosen] = useState(-1);
  const open = (index: number) => go(`/t/${thread}/s/${visits[index]!.seq}`);
  const reported =
    role.prompt_tokens === null
      ? null
      : cachedShare({ prompt_tokens: role.prompt_tokens, cached_tokens: role.cached_tokens ?? 0, output_tokens: 0 });
  return (
    <section class="lane" aria-label={`Prefixes of ${role.role}`}>
      <header>
        <h2>{role.role}</h2>
        <span class="dim">
          {many(visits.length, "visit")}, history {role.history}
        </span>
        <dl class="figures">
          <Figure name="expected" title="The share of all bytes that a perfect cache serves">
            {percent(role.expected_share)}
          </Figure>
          {reported !== null && (
            <Figure name="served" title="The share of tokens that the provider reported as cached">
              {percent(reported)}
            </Figure>
          )}
          <Figure name="sent">{bytes(role.request_bytes)}</Figure>
          <Figure name="breaks">{count(role.breaks)}</Figure>
          {role.lost_tokens > 0 && <Figure name="lost">{count(role.lost_tokens)} tokens</Figure>}
          {role.lost_usd !== null && role.lost_usd > 0 && <Figure name="price">{usd(role.lost_usd)}</Figure>}
          {role.cost_usd !== null && <Figure name="cost">{usd(role.cost_usd)}</Figure>}
        </dl>
      </header>
      <Rows
        id={`visit-${role.role}`}
        class="visits-of"
        count={visits.length}
        height={ROW}
        label={`Visits of ${role.role}`}
        chosen={chosen}
        onChoose={open}
        onMove={setChosen}
      >
        {(index) => <Visit visit={visits[index]!} longest={longest} />}
      </Rows>
      {broken.length > 0 && <Breaks visits={broken} thread={thread} />}
    </section>
  );
}

function Visit({ visit, longest }: { visit: PrefixVisit; longest: number }) {
  const { broke } = visit;
  const fresh = visit.request_bytes - visit.shared_bytes;
  // What was lost is estimated in tokens of four bytes.
  const lost = broke ? Math.min(fresh, broke.lost_tokens * 4) : 0;
  return (
    <span class={broke ? "visit is-broken" : "visit"}>
      <span class="seq">{visit.lane ? who(visit.role, visit.lane) : visit.visit}</span>
      <Bar parts={[visit.shared_bytes / longest, lost / longest, (fresh - lost) / longest]} />
      <span class="number">
        {percent(visit.expected_share)} of {bytes(visit.request_bytes)}
      </span>
      <span class="cause">{broke?.cause}</span>
    </span>
  );
}

const PARTS = ["served", "lost", "fresh"] as const;

function Bar({ parts }: { parts: [number, number, number] }) {
  const element = useRef<HTMLSpanElement>(null);
  useEffect(() => {
    parts.forEach((share, index) => ((element.current!.children[index] as HTMLElement).style.width = `${share * 100}%`));
  }, parts);
  return (
    <span class="bytes-bar" ref={element} aria-hidden="true">
      {PARTS.map((part) => (
        <i key={part} class={part} />
      ))}
    </span>
  );
}

/** Where prefixes broke, why, and what that cost. */
function Breaks({ visits, thread }: { visits: PrefixVisit[]; thread: string }) {
  return (
    <table class="breaks">
      <caption>Where it broke</caption>
      <thead>
        <tr>
          <th scope="col">Visit</th>
          <th scope="col">Cause</th>
          <th scope="col">Block</th>
          <th scope="col" class="number">
            Byte
          </th>
          <th scope="col" class="number">
            Lost
          </th>
          <th scope="col" class="number">
            Price
          </th>
        </tr>
      </thead>
      <tbody>
        {visits.map((visit) => (
          <tr key={`${visit.lane}/${visit.visit}`}>
            <td>
              <Link to={`/t/${thread}/s/${visit.seq}`}>{visit.lane ? `${visit.lane} ${visit.visit}` : visit.visit}</Link>
            </td>
            <td>
              {visit.broke!.cause}
              {visit.broke!.detail && <span class="dim detail">{visit.broke!.detail}</span>}
            </td>
            <td>
              <code>{visit.broke!.block}</code>
            </td>
            <td class="number">{count(visit.broke!.byte)}</td>
            <td class="number">{count(visit.broke!.lost_tokens)} tokens</td>
            <td class="number">{usd(visit.broke!.lost_usd)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
