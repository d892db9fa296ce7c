// The prefix lane: what of each request a provider's cache can serve, where it broke, and what that cost.

import { get } from "./api";
import { bytes, count, percent, usd, who } from "./format";
import type { PrefixRole, PrefixVisit } from "./types";
import { Empty, Figure, Link, ProblemBox, useLoaded } from "./ui";

interface Report {
  visits: PrefixVisit[];
  roles: PrefixRole[];
}

export function Prefix({ thread }: { thread: string }) {
  const [report, problem] = useLoaded((signal) => get<Report>(`/threads/${encodeURIComponent(thread)}/prefix`, signal), thread);
  return (
    <main class="prefix">
      <header class="head">
        <h1>Prefix lane</h1>
        <p class="dim under">
          <Link to={`/t/${thread}`}>Back to the thread</Link>
          <span>A request that begins with an earlier one is served from the provider's cache as far as both are equal.</span>
        </p>
        <ul class="legend">
          <li>
            <span class="swatch served" /> as sent before
          </li>
          <li>
            <span class="swatch fresh" /> new
          </li>
          <li>
            <span class="swatch lost" /> lost: it broke before its end
          </li>
        </ul>
      </header>
      <ProblemBox problem={problem} />
      {report && report.visits.length === 0 && <Empty>No model was asked in this thread.</Empty>}
      {report?.roles.map((role) => (
        <Lane key={role.role} thread={thread} role={role} visits={report.visits.filter((visit) => visit.role === role.role)} />
      ))}
    </main>
  );
}

function Lane({ thread, role, visits }: { thread: string; role: PrefixRole; visits: PrefixVisit[] }) {
  if (visits.length === 0) return null;
  const longest = Math.max(...visits.map((visit) => visit.request_bytes), 1);
  return (
    <section class="lane" aria-label={`Prefixes of ${role.role}`}>
      <header>
        <h2>{role.role}</h2>
        <span class="dim">history: {role.history}</span>
        <dl class="figures">
          <Figure name="served">{percent(role.expected_share)}</Figure>
          <Figure name="of">{bytes(role.request_bytes)}</Figure>
          <Figure name="breaks">{role.breaks}</Figure>
          {role.lost_tokens > 0 && <Figure name="lost">{count(role.lost_tokens)} tokens</Figure>}
          {role.lost_usd !== null && <Figure name="price">{usd(role.lost_usd)}</Figure>}
        </dl>
      </header>
      <ol>
        {visits.map((visit) => (
          <li key={`${visit.lane}/${visit.visit}`}>
            <Link to={`/t/${thread}/s/${visit.seq}`} class="visit">
              <span class="seq">
                {visit.visit}
                {visit.lane && <span class="dim"> {who(visit.role, visit.lane)}</span>}
              </span>
              <Bar visit={visit} longest={longest} />
              <span class="number">
                {bytes(visit.shared_bytes)} of {bytes(visit.request_bytes)}
              </span>
            </Link>
            {visit.broke && (
              <p class="broke">
                broke at byte {visit.broke.byte} in {visit.broke.block}: {visit.broke.cause}. {visit.broke.detail}
                {visit.broke.lost_tokens > 0 && ` ${count(visit.broke.lost_tokens)} tokens lost`}
                {visit.broke.lost_usd !== null && `, ${usd(visit.broke.lost_usd)}`}
              </p>
            )}
          </li>
        ))}
      </ol>
    </section>
  );
}

function Bar({ visit, longest }: { visit: PrefixVisit; longest: number }) {
  const share = (part: number) => `${(part / longest) * 100}%`;
  const fresh = visit.request_bytes - visit.shared_bytes;
  const label = `${bytes(visit.shared_bytes)} as sent before, ${bytes(fresh)} ${visit.broke ? "sent again or new" : "new"}`;
  return (
    <span class="bar-of-bytes" role="img" aria-label={label}>
      <span class="served" style={{ width: share(visit.shared_bytes) }} />
      <span class={visit.broke ? "lost" : "fresh"} style={{ width: share(fresh) }} />
    </span>
  );
}
