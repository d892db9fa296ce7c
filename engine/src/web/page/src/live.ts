// A thread as it runs: its line, its steps, and what happens between them.

import { useEffect, useRef, useState } from "preact/hooks";
import { get, listen } from "./api";
import type { Event, Step, Thread } from "./types";

/** What a role does in a lane at the moment. */
export interface Speaking {
  role: string;
  lane: string;
  visit: number;
  sinceMs: number;
  text: string;
  notes: string[];
}

export interface Live {
  thread: Thread | null;
  steps: Step[];
  speaking: Map<string, Speaking>;
  /** The graph's edge that was taken last: `from` and the roles it led to. */
  lastEdge: { from: string; to: string[] } | null;
  isOpen: boolean;
  problem: unknown;
}

/** The most characters of a text that is being written that are kept. */
const MAX_LIVE_CHARS = 4000;
const PAGE = 500;
const FIRST_PAGE = 100;

const NOTHING: Live = { thread: null, steps: [], speaking: new Map(), lastEdge: null, isOpen: true, problem: null };

interface Page {
  steps: Step[];
  next: number | null;
}

class Follower {
  state: Live = NOTHING;
  private end = () => {};
  private isClosed = false;
  private isReading = false;
  private isAsked = false;

  constructor(
    private readonly id: string,
    private readonly render: (state: Live) => void,
  ) {}

  async start() {
    try {
      await this.refresh();
      await this.readSteps();
    } catch (problem) {
      this.set({ problem });
      return;
    }
    if (this.isClosed) return;
    const seq = this.state.steps.length;
    const thread = this.state.thread?.thread ?? this.id;
    const heard = (event: Event) => this.hear(event);
    const stated = (isOpen: boolean) => {
      if (isOpen && !this.state.isOpen) void this.catchUp();
      this.set({ isOpen });
    };
    this.end = listen(`/threads/${thread}/events`, seq > 0 ? `${seq}.1` : null, heard, stated);
  }

  stop() {
    this.isClosed = true;
    this.end();
  }

  set(change: Partial<Live>) {
    if (this.isClosed) return;
    this.state = { ...this.state, ...change };
    this.render(this.state);
  }

  async refresh() {
    this.set({ thread: await get<Thread>(`/threads/${encodeURIComponent(this.id)}`), problem: null });
  }

  /** Reads the steps that are not known yet, a page at a time. */
  private async readSteps() {
    for (;;) {
      const known = this.state.steps;
      const limit = known.length === 0 ? FIRST_PAGE : PAGE;
      const page = await get<Page>(`/threads/${encodeURIComponent(this.id)}/steps?after=${known.length}&limit=${limit}`);
      if (page.steps.length > 0) this.set({ steps: [...known, ...page.steps] });
      if (page.next === null || this.isClosed) return;
    }
  }

  /** Reads what is new; what is asked for meanwhile is read once after that. */
  async catchUp() {
    this.isAsked = true;
    if (this.isReading) return;
    this.isReading = true;
    try {
      while (this.isAsked && !this.isClosed) {
        this.isAsked = false;
        await this.readSteps();
        await this.refresh();
      }
    } catch (problem) {
      this.set({ problem });
    } finally {
      this.isReading = false;
    }
  }

  private hear(event: Event) {
    if (event.thread !== this.state.thread?.thread) return;
    const key = `${event.role}|${event.lane}`;
    const speaking = new Map(this.state.speaking);
    const one = speaking.get(key);
    const note = (text: string) => {
      if (one) speaking.set(key, { ...one, notes: [...one.notes, text].slice(-6) });
    };
    switch (event.event) {
      case "step_started":
        speaking.set(key, {
          role: event.role ?? "",
          lane: event.lane ?? "",
          visit: event.visit ?? 0,
          sinceMs: event.at_ms,
          text: "",
          notes: [],
        });
        break;
      case "model_delta":
        if (one) speaking.set(key, { ...one, text: (one.text + event.text).slice(-MAX_LIVE_CHARS) });
        break;
      case "tool_started":
        note(`${event.tool} …`);
        break;
      case "tool_finished":
        note(`${event.tool} ${event.failed ? "failed" : "done"} in ${event.duration_ms} ms`);
        break;
      case "call_retried":
        note(`${event.message ?? event.code}, again in ${Math.round(Number(event.wait_ms) / 1000)} s`);
        break;
      case "call_settled":
        if (event.refused) note(`the answer was refused: ${event.refused}`);
        break;
      case "step_committed":
        speaking.delete(key);
        this.set({ speaking });
        void this.catchUp();
        return;
      case "edge_taken":
        this.set({ lastEdge: { from: String(event.from), to: (event.to as { role: string }[]).map((target) => target.role) } });
        return;
      case "thread_finished":
      case "thread_waiting":
      case "error":
        speaking.clear();
        this.set({ speaking });
        void this.catchUp();
        return;
      case "thread_resumed":
        void this.catchUp();
        return;
      default:
        return;
    }
    this.set({ speaking });
  }
}

export function useThread(id: string): [Live, () => void] {
  const [state, setState] = useState<Live>(NOTHING);
  const follower = useRef<Follower | null>(null);
  useEffect(() => {
    // Deltas come faster than a screen shows them.
    let frame = 0;
    let next = NOTHING;
    const render = (live: Live) => {
      next = live;
      if (frame === 0) {
        const show = () => {
          frame = 0;
          setState(next);
        };
        frame = document.hidden ? window.setTimeout(show, 200) : requestAnimationFrame(show);
      }
    };
    setState(NOTHING);
    const current = new Follower(id, render);
    follower.current = current;
    void current.start();
    return () => current.stop();
  }, [id]);
  return [state, () => void follower.current?.catchUp()];
}
