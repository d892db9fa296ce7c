// A thread: its graph and steps as they come, the step that is looked at, and what can be done with it.

import { useEffect, useMemo, useState } from "preact/hooks";
import { get, ofThread } from "../api";
import { Graph, roleOf, type Marks } from "../graph/graph";
import { useIsNarrow, useKeys, useLoaded } from "../hooks";
import { go, move } from "../router";
import type { Picture, Step } from "../types";
import { Empty, Icon, Link, ProblemBox, Reading } from "../ui";
import { Actions } from "./actions";
import { useThread, type Fan, type Live } from "./follow";
import { Fork } from "./fork";
import { Forms } from "./forms";
import { Head, Outcome } from "./head";
import { StepDetails, TABS, type Tab } from "./step";
import { Joins, Left, Speaking, speakerOf, Steps } from "./steps";

const PLAY_MS = 700;
/** How many colours the style sheet has for roles. */
const COLOURS = 8;

/** The place of each role in the palette, in the order of the graph. */
function coloursOf(picture: Picture | null): Map<string, number> {
  const roles = picture?.nodes.filter((node) => node.id.startsWith("role:")) ?? [];
  return new Map(roles.map((node, index) => [roleOf(node.id), index % COLOURS]));
}

/** The role that joins what a fan-out began. */
function joinOf(picture: Picture | null, { from }: Fan): string | null {
  const found = picture?.edges.find((edge) => edge.kind === "join" && roleOf(edge.from) === from);
  return found ? roleOf(found.to) : null;
}

/** What joins wait for: `2 of 3 arrived, 1 failed`. One role may join the lanes of several fan-outs. */
function waitsOf(picture: Picture | null, { fans }: Live): [role: string | null, text: string][] {
  return [...fans.values()].map((fan) => {
    const ends = [...fan.lanes.values()];
    const ended = (how: string) => ends.filter((end) => end === how).length;
    const others = ["failed", "cancelled"].filter(ended).map((how) => `, ${ended(how)} ${how}`);
    return [joinOf(picture, fan), `${ended("arrived")} of ${ends.length} arrived${others.join("")}`];
  });
}

/** What is marked in the graph: all that has happened, or what had when step `seq` was committed. */
function marksOf({ thread, steps, visits, lastEdge }: Live, seq: number, waits: Marks["waits"]): Marks {
  const counts = new Map<string, number>();
  for (const step of seq > 0 ? steps.slice(0, seq) : steps) {
    if (step.event === "step") counts.set(step.role, (counts.get(step.role) ?? 0) + 1);
  }
  const into = (step: Step | undefined) => (step?.event === "step" ? { from: step.edge.from, to: [step.role] } : null);
  if (seq > 0) {
    const step = steps[seq - 1];
    return { active: new Set(), visits: counts, waits: new Map(), lastEdge: into(step), chosen: step ? speakerOf(step) : null };
  }
  const active = new Set([...visits.values()].map((visit) => visit.role));
  const last = steps[steps.length - 1];
  const ends: Record<string, string> = { done: "end", failed: "fail" };
  const end = ends[thread?.status ?? ""];
  const edge = end && last ? { from: speakerOf(last), to: [end] } : (lastEdge ?? into(last));
  return { active, visits: counts, waits, lastEdge: edge, chosen: null };
}

/** Plays the steps one after the other; returns whether it does, and the switch. */
function usePlay(seq: number, last: number, choose: (seq: number) => void): [boolean, () => void] {
  const [isPlaying, setPlaying] = useState(false);
  useEffect(() => {
    if (!isPlaying) return;
    if (seq >= last) return setPlaying(false);
    const timer = setTimeout(() => choose(seq + 1), PLAY_MS);
    return () => clearTimeout(timer);
  }, [isPlaying, seq, last]);
  const toggle = () => {
    if (!isPlaying && (seq === 0 || seq >= last)) choose(1);
    setPlaying(!isPlaying);
  };
  return [isPlaying, toggle];
}

export function ThreadView({ id, seq }: { id: string; seq: number | null }) {
  const [live, refresh] = useThread(id);
  const { thread, steps } = live;
  const { value: picture } = useLoaded((signal) => get<Picture>(ofThread(id, "/graph"), signal), id);
  const [hasHooks, setHooks] = useState(false);
  const [tab, setTab] = useState<Tab>("answer");
  const [problem, setProblem] = useState<unknown>(null);
  const [isForking, setForking] = useState(false);
  const isNarrow = useIsNarrow(760);
  const chosen = seq ?? 0;
  const last = steps.length;
  // Looking from step to step is no history of its own.
  const choose = (next: number) => move(next > 0 ? `/t/${id}/s/${Math.min(next, last)}` : `/t/${id}`);
  const [isPlaying, play] = usePlay(chosen, last, choose);
  useKeys((key) => {
    const isDigit = TABS[Number(key) - 1];
    if (key === "j" || key === "ArrowDown") choose(chosen + 1);
    else if (key === "k" || key === "ArrowUp") choose(Math.max(chosen - 1, 1));
    else if (key === "Escape" && chosen > 0) choose(0);
    else if (key === "g") choose(1);
    else if (key === "G") choose(last);
    else if (key === " " && last > 1) play();
    else if (key === "h") setHooks(!hasHooks);
    else if (key === "p") go(`/t/${id}/prefix`);
    else if (isDigit && chosen > 0) setTab(isDigit[0]);
    else return false;
    return true;
  });
  useEffect(() => {
    document.title = `${thread ? (thread.label ?? thread.name) : "thread"}${chosen > 0 ? `, step ${chosen}` : ""} · rondo`;
  }, [thread?.label, thread?.name, chosen]);
  useEffect(() => setForking(false), [chosen]);
  const colours = useMemo(() => coloursOf(picture), [picture]);
  const waits = useMemo(() => waitsOf(picture, live), [picture, live.fans]);
  const marks = useMemo(
    () => marksOf(live, chosen, new Map(waits.map(([role, text]) => [role ?? "", text.split(",")[0]!]))),
    [steps, chosen, live.visits, waits, live.lastEdge, thread?.status],
  );

  if (!thread) {
    return (
      <main>
        <h1>Thread</h1>
        <ProblemBox problem={live.problem} />
        {!live.problem && <Reading what="the thread" />}
      </main>
    );
  }
  const step = steps[chosen - 1];
  const isMissing = chosen > 0 && !step && last >= thread.totals.steps;
  const latestOf = (role: string) => {
    const upTo = chosen > 0 ? steps.slice(0, chosen - 1) : steps;
    const found = upTo.findLast((one) => speakerOf(one) === role) ?? steps.findLast((one) => speakerOf(one) === role);
    if (found) choose(found.seq);
  };
  const hooksSwitch = picture?.nodes.some((node) => node.kind === "hook") && (
    <label class="inline">
      <input type="checkbox" checked={hasHooks} onChange={(event) => setHooks(event.currentTarget.checked)} /> Hooks in the graph
    </label>
  );
  return (
    <main class={`thread ${step ? "has-step" : ""}`}>
      <Head thread={thread} said={thread.status === "running" ? live.said : null} tools={hooksSwitch}>
        <Actions thread={thread} onDone={refresh} onProblem={setProblem} />
      </Head>
      <ProblemBox problem={problem ?? live.problem} />
      {thread.status === "waiting" && <Forms thread={thread} onAnswered={refresh} />}
      {!(isNarrow && step) && (
        <section class="graph-pane" aria-label="Graph of the workflow">
          {picture ? <Graph picture={picture} hasHooks={hasHooks} marks={marks} onRole={latestOf} /> : <div class="picture" />}
        </section>
      )}
      <div class="panes">
        {!(isNarrow && step) && (
          <section class="steps-pane" aria-label="Steps">
            {thread.status !== "running" && last > 1 && (
              <Scrubber seq={chosen} last={last} isPlaying={isPlaying} onPlay={play} onChoose={choose} />
            )}
            <Steps
              steps={steps}
              chosen={chosen}
              onChoose={choose}
              isFollowing={thread.status === "running" && chosen === 0}
              colours={colours}
            />
            {waits.length > 0 && <Joins waits={waits} />}
            {live.visits.size > 0 && <Speaking visits={live.visits} colours={colours} />}
            {live.visits.size === 0 && live.left.length > 0 && <Left left={live.left} />}
          </section>
        )}
        {step && (
          <StepDetails
            thread={thread.thread}
            step={step}
            count={last}
            tab={tab}
            onTab={setTab}
            onChoose={choose}
            onFork={() => setForking(true)}
          />
        )}
        {step && isForking && <Fork key={step.step} thread={thread} step={step} onClose={() => setForking(false)} />}
        {isMissing && (
          <section class="details" aria-label="Step">
            <Empty title={`There is no step ${chosen}.`}>
              <p>
                <Link to={`/t/${id}`}>All steps</Link>
              </p>
            </Empty>
          </section>
        )}
        {chosen === 0 && <Outcome thread={thread} />}
      </div>
    </main>
  );
}

interface ScrubberProps {
  seq: number;
  last: number;
  isPlaying: boolean;
  onPlay: () => void;
  onChoose: (seq: number) => void;
}

/** Goes through a run that has ended. */
function Scrubber({ seq, last, isPlaying, onPlay, onChoose }: ScrubberProps) {
  return (
    <div class="scrubber">
      <button type="button" class="icon" onClick={onPlay} aria-label={isPlaying ? "Pause" : "Play"}>
        <Icon name={isPlaying ? "pause" : "play"} />
      </button>
      <input
        type="range"
        aria-label="Step"
        min={1}
        max={last}
        value={seq || last}
        onInput={(event) => onChoose(Number(event.currentTarget.value))}
      />
      <output>
        {seq || last} / {last}
      </output>
    </div>
  );
}
