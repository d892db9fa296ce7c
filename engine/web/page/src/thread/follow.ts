// A thread as it runs: its line, its steps, and what happens between them.

import { useEffect, useRef, useState } from "preact/hooks";
import { get, isOfConnection, listen, ofThread, pause } from "../api";
import type { Event, InFlight, Step, StepList, Thread } from "../types";

/** A visit that is not committed. */
export interface Visit {
  role: string;
  lane: string;
  visit: number;
  sinceMs: number;
  /** What the model wrote in the current attempt. */
  text: string;
  /** What happened besides: tools, retries, refused answers. */
  notes: string[];
}

/** A fan-out whose lanes have not all ended: the lane that began it waits at the join. */
export interface Fan {
  from: string;
  /** How each lane ended: `arrived`, `failed` or `cancelled`; null while it runs. */
  lanes: Map<string, string | null>;
}

export interface Live {
  thread: Thread | null;
  steps: Step[];
  /** The visits that are being made, by role and lane. */
  visits: Map<string, Visit>;
  /** Visits that a stop or a kill left behind. */
  left: InFlight[];
  /** By the lane that waits. */
  fans: Map<string, Fan>;
  /** The graph's edge that was taken last: `from` and the roles it led to. */
  lastEdge: { from: string; to: string[] } | null;
  /** The newest line for the user. */
  said: string | null;
  problem: unknown;
}

const NOTHING: Live = { thread: null, steps: [], visits: new Map(), left: [], fans: new Map(), lastEdge: null, said: null, problem: null };

/** The most characters of a text that is being written that are kept. */
const MAX_LIVE_CHARS = 4000;
const MAX_NOTES = 6;
/** Few steps come at first, so that something is soon seen. */
const FIRST_PAGE = 100;
const PAGE = 500;
/** How many steps back the events are read again, to know which visits and fan-outs are open: a stream tells of none that had begun. */
const LOOK_BACK_STEPS = 200;
const AGAIN_MS = 1000;
/** How often a thread is read that another process runs: of one that was killed no event comes. */
const ELSEWHERE_MS = 5000;

/** What happens in a lane only while it waits at no join. */
const LANE_EVENTS = ["step_started", "step_committed", "thread_waiting", "lane_ended"];

const keyOf = ({ role, lane }: { role: string | null; lane: string }) => `${role}|${lane}`;

/** The visit or the lane that an event speaks of. */
const placeOf = (event: Event) => ("lane" in event ? { role: "role" in event ? event.role : null, lane: event.lane ?? "" } : null);

function hasEnded({ status }: Thread): boolean {
  return status === "done" || status === "failed" || status === "cancelled";
}

class Follower {
  state: Live = NOTHING;
  private end = () => {};
  private isClosed = false;
  private isReading = false;
  private isAsked = false;
  /** An event said that the thread rests, and it is not yet read so. */
  private isResting = false;
  /** The last step that a thread at rest had when its stream was opened: no visit of an event up to there is open. */
  private past = -1;
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly id: string,
    private readonly render: (state: Live) => void,
  ) {}

  async start() {
    for (;;) {
      try {
        this.know(await this.askThread());
        await this.readSteps();
        break;
      } catch (problem) {
        if (this.isClosed) return;
        if (!isOfConnection(problem)) return this.set({ problem });
        await pause(AGAIN_MS);
      }
    }
    this.listen();
  }

  /** Opens the stream, unless the thread has ended: nothing more comes then. */
  private listen() {
    const { thread, steps } = this.state;
    if (this.isClosed || !thread || hasEnded(thread)) return;
    this.past = thread.status === "running" ? -1 : steps.length;
    const from = steps.length - LOOK_BACK_STEPS;
    this.end = listen(ofThread(thread.thread, "/events"), from > 0 ? `${from}.1` : null, {
      onEvent: (event) => this.hear(event),
      onOpen: () => void this.catchUp(),
    });
  }

  stop() {
    this.isClosed = true;
    clearTimeout(this.timer);
    this.end();
  }

  private set(change: Partial<Live>) {
    if (this.isClosed) return;
    this.state = { ...this.state, ...change };
    this.render(this.state);
  }

  private askThread(): Promise<Thread> {
    return get<Thread>(ofThread(this.id));
  }

  private know(thread: Thread) {
    const isQuiet = thread.status !== "running";
    const ended = hasEnded(thread) && { left: [], fans: new Map() };
    this.set({ thread, problem: null, ...(isQuiet && { visits: new Map() }), ...ended });
    if (hasEnded(thread)) this.end();
    this.readAgain(thread);
  }

  /** Reads a thread again after a while, if no event tells that it has come to rest. */
  private readAgain(thread: Thread) {
    clearTimeout(this.timer);
    if (thread.status !== "running") this.isResting = false;
    else if (this.isResting || !thread.runs_here) {
      // A tab that nobody sees reads when it is looked at.
      const read = () => (document.hidden ? this.readAgain(thread) : void this.catchUp());
      this.timer = setTimeout(read, this.isResting ? AGAIN_MS : ELSEWHERE_MS);
    }
  }

  /** Reads the steps that are not known yet, a page at a time. */
  private async readSteps() {
    for (;;) {
      const known = this.state.steps;
      const limit = known.length === 0 ? FIRST_PAGE : PAGE;
      const page = await get<StepList>(ofThread(this.id, `/steps?after=${known.length}&limit=${limit}`));
      if (this.isClosed) return;
      if (page.steps.length > 0 || page.in_flight.length !== this.state.left.length) {
        this.set({ steps: [...known, ...page.steps], left: page.in_flight });
      }
      if (page.next === null) return;
    }
  }

  /** Reads what is new; what is asked for meanwhile is read once after that, and a server that is lost is asked again. */
  async catchUp() {
    this.isAsked = true;
    if (this.isReading) return;
    this.isReading = true;
    while (this.isAsked && !this.isClosed) {
      this.isAsked = false;
      try {
        // The steps after the thread: of a thread that has ended nothing is read again, so none may be missing.
        const thread = await this.askThread();
        await this.readSteps();
        this.know(thread);
      } catch (problem) {
        this.isAsked = isOfConnection(problem);
        if (this.isAsked) await pause(AGAIN_MS);
        else this.set({ problem });
      }
    }
    this.isReading = false;
  }

  /** What is new after a change that was made here. The event of a next question has no number: a stream may miss it. */
  async changed() {
    this.isResting = true;
    await this.catchUp();
  }

  /** Keeps account of fan-outs. One is over once its lanes have ended, or a visit in the lane that began it shows that. */
  private hearOfLanes(event: Event) {
    if (this.state.fans.size === 0 && event.event !== "edge_taken") return;
    const fans = new Map(this.state.fans);
    const lane = placeOf(event)?.lane ?? "";
    if (event.event === "edge_taken") {
      const into = event.to.filter((target) => target.lane.length > lane.length);
      if (into.length < 2) return;
      fans.set(lane, { from: event.from, lanes: new Map(into.map((target) => [target.lane, null])) });
    } else if (LANE_EVENTS.includes(event.event)) {
      fans.delete(lane);
      if (event.event === "lane_ended") {
        for (const [parent, fan] of fans) {
          if (!fan.lanes.has(lane)) continue;
          const lanes = new Map(fan.lanes).set(lane, event.how);
          if ([...lanes.values()].includes(null)) fans.set(parent, { ...fan, lanes });
          else fans.delete(parent);
        }
      }
    } else {
      return;
    }
    this.set({ fans });
  }

  private hear(event: Event) {
    if (event.thread !== this.state.thread?.thread) return;
    const visits = new Map(this.state.visits);
    const seq = event.id ? Number(event.id.split(".")[0]) : Infinity;
    const isPast = seq <= this.past;
    this.hearOfLanes(event);
    const open = (role: string, lane: string, visit: number) => {
      visits.set(keyOf({ role, lane }), { role, lane, visit, sinceMs: event.at_ms, text: "", notes: [] });
    };
    const change = (change: (visit: Visit) => Partial<Visit>) => {
      const place = placeOf(event);
      const key = place && keyOf(place);
      const visit = key && visits.get(key);
      if (visit) visits.set(key, { ...visit, ...change(visit) });
    };
    const note = (text: string, rest: Partial<Visit> = {}) =>
      change((visit) => ({ notes: [...visit.notes, text].slice(-MAX_NOTES), ...rest }));
    switch (event.event) {
      case "edge_taken": {
        // Of an edge that is history, the commits that follow it close the visits again. Of the lanes that arrive at a join
        // only the last one opens its visit.
        const { from, to } = event;
        const running = (lane: string) => [...(this.state.fans.get(lane)?.lanes.values() ?? [])].filter((how) => how === null).length;
        for (const { role, lane } of to) if (!isPast && running(lane) < 2) open(role, lane, 0);
        this.set({ visits, lastEdge: { from, to: to.map((target) => target.role) } });
        return;
      }
      case "step_started":
        this.isResting = false;
        open(event.role, event.lane, event.visit);
        break;
      case "model_delta":
        change((visit) => ({ text: (visit.text + event.text).slice(-MAX_LIVE_CHARS) }));
        break;
      case "tool_started":
        note(`${event.tool} ${event.gist}`, { text: "" });
        break;
      case "tool_finished":
        note(`${event.tool} ${event.failed ? "failed" : "answered"} in ${event.duration_ms} ms`);
        break;
      case "call_retried":
        note(`${event.message}; again in ${(event.wait_ms / 1000).toFixed(1)} s`, { text: "" });
        break;
      case "call_settled":
        if (event.refused) note(`answer refused: ${event.refused}`, { text: "" });
        break;
      case "hook_answered":
        note(`answered by ${event.node}`);
        break;
      case "said":
        if (!isPast) this.set({ said: event.text });
        return;
      case "step_committed":
        // A compaction is no visit.
        if (event.visit !== null) visits.delete(keyOf({ role: event.role, lane: event.lane ?? "" }));
        this.set({ visits });
        if (event.id && seq > this.state.steps.length) void this.catchUp();
        return;
      case "lane_ended":
        visits.delete(keyOf(event));
        break;
      case "thread_waiting":
        visits.delete(keyOf(event));
        this.set({ visits });
        this.isResting = true;
        void this.catchUp();
        return;
      case "thread_finished":
      case "error":
        this.set({ visits: new Map(), ...(event.event === "thread_finished" && { fans: new Map() }) });
        this.isResting = true;
        void this.catchUp();
        return;
      case "thread_resumed":
        this.isResting = false;
        void this.catchUp();
        return;
      default:
        return;
    }
    this.set({ visits });
  }
}

/** A thread, and what reads it anew. */
export function useThread(id: string): [Live, () => void] {
  const [state, setState] = useState<Live>(NOTHING);
  const follower = useRef<Follower | null>(null);
  useEffect(() => {
    // Deltas come faster than a screen shows them.
    let frame = 0;
    let next = NOTHING;
    const show = () => {
      frame = 0;
      setState(next);
    };
    const current = new Follower(id, (live) => {
      next = live;
      // A tab that nobody sees gets no frames.
      frame ||= document.hidden ? window.setTimeout(show, 200) : requestAnimationFrame(show);
    });
    setState(NOTHING);
    follower.current = current;
    void current.start();
    return () => current.stop();
  }, [id]);
  return [state, () => void follower.current?.changed()];
}
