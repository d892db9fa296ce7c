// The address decides what is shown, so that every view can be shared and the back button works.

import { useEffect, useState } from "preact/hooks";

export type Route =
  | { view: "threads" }
  | { view: "start"; workflow: string | null }
  | { view: "thread"; thread: string; seq: number | null }
  | { view: "prefix"; thread: string }
  | { view: "compare"; a: string; b: string }
  | { view: "batches" }
  | { view: "batch"; batch: string }
  | { view: "totals" }
  | { view: "nothing" };

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function routeOf(path: string): Route {
  const parts = path.split("/").filter(Boolean).map(decoded);
  const [first, second, third, fourth] = parts;
  if (parts.length === 0) return { view: "threads" };
  if (first === "start" && parts.length <= 2) return { view: "start", workflow: second ?? null };
  if (first === "batches" && parts.length <= 2) return second ? { view: "batch", batch: second } : { view: "batches" };
  if (first === "totals" && parts.length === 1) return { view: "totals" };
  if (first === "compare" && second && third && parts.length === 3) return { view: "compare", a: second, b: third };
  if (first === "t" && second) {
    if (parts.length === 2) return { view: "thread", thread: second, seq: null };
    if (third === "prefix" && parts.length === 3) return { view: "prefix", thread: second };
    if (third === "s" && parts.length === 4 && Number(fourth) > 0) return { view: "thread", thread: second, seq: Number(fourth) };
  }
  return { view: "nothing" };
}

function changed() {
  dispatchEvent(new PopStateEvent("popstate"));
}

export function go(path: string) {
  history.pushState(null, "", path);
  changed();
}

/** Another address of what is looked at already: the back button does not stop there. */
export function move(path: string) {
  history.replaceState(null, "", path);
  changed();
}

export function useLocation(): { path: string; query: string } {
  const [place, setPlace] = useState({ path: location.pathname, query: location.search });
  useEffect(() => {
    const update = () => setPlace({ path: location.pathname, query: location.search });
    addEventListener("popstate", update);
    return () => removeEventListener("popstate", update);
  }, []);
  return place;
}
