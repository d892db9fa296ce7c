// The address decides what is shown, so that every view can be shared and the back button works.

import { useEffect, useState } from "preact/hooks";

export type Route =
  | { view: "threads" }
  | { view: "start"; workflow: string | null }
  | { view: "thread"; thread: string }
  | { view: "step"; thread: string; seq: number }
  | { view: "prefix"; thread: string }
  | { view: "compare"; a: string; b: string };

export function routeOf(path: string): Route {
  const [first, second, third, fourth] = path.split("/").filter(Boolean).map(decodeURIComponent);
  if (first === "start") return { view: "start", workflow: second ?? null };
  if (first === "compare" && second && third) return { view: "compare", a: second, b: third };
  if (first === "t" && second) {
    if (third === "prefix") return { view: "prefix", thread: second };
    if (third === "s" && Number(fourth) > 0) return { view: "step", thread: second, seq: Number(fourth) };
    return { view: "thread", thread: second };
  }
  return { view: "threads" };
}

export function go(path: string) {
  history.pushState(null, "", path);
  dispatchEvent(new PopStateEvent("popstate"));
}

export function usePath(): string {
  const [path, setPath] = useState(location.pathname);
  useEffect(() => {
    const update = () => setPath(location.pathname);
    addEventListener("popstate", update);
    return () => removeEventListener("popstate", update);
  }, []);
  return path;
}
