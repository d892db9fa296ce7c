// The page of `rondo serve`.

import { render } from "preact";
import { useEffect, useLayoutEffect, useState } from "preact/hooks";
import { Token, useAccess } from "./access";
import { BatchView, Batches } from "./batches";
import { Compare } from "./compare";
import { useIsLost } from "./connection";
import { useKeys } from "./hooks";
import { Keys } from "./keys";
import { Prefix } from "./prefix";
import { go, routeOf, useLocation, type Route } from "./router";
import { Start } from "./start";
import "./style/index.css";
import { ThreadView } from "./thread/thread";
import { Threads } from "./threads";
import { TotalsView } from "./totals";
import { Empty, Icon, Link } from "./ui";

const THEMES = ["system", "light", "dark"] as const;
type Theme = (typeof THEMES)[number];

function useTheme(): [Theme, () => void] {
  const [theme, setTheme] = useState<Theme>(() => THEMES.find((known) => known === localStorage.getItem("theme")) ?? "system");
  useLayoutEffect(() => {
    localStorage.setItem("theme", theme);
    document.documentElement.dataset.theme = theme;
  }, [theme]);
  return [theme, () => setTheme(THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length]!)];
}

function View({ route }: { route: Route }) {
  switch (route.view) {
    case "threads":
      return <Threads />;
    case "start":
      return <Start workflow={route.workflow} />;
    case "thread":
      return <ThreadView key={route.thread} id={route.thread} seq={route.seq} />;
    case "prefix":
      return <Prefix key={route.thread} thread={route.thread} />;
    case "compare":
      return <Compare a={route.a} b={route.b} />;
    case "batches":
      return <Batches />;
    case "batch":
      return <BatchView key={route.batch} id={route.batch} />;
    case "totals":
      return <TotalsView />;
    case "nothing":
      return (
        <main>
          <h1>rondo</h1>
          <Empty title="There is no such page.">
            <p>
              <Link to="/">All threads</Link>
            </p>
          </Empty>
        </main>
      );
  }
}

/** Says that the server is lost, and for a moment that it is back. */
function Connection() {
  const isLost = useIsLost();
  const [wasLost, setWasLost] = useState(false);
  useEffect(() => {
    if (isLost) {
      setWasLost(true);
      return;
    }
    const timer = setTimeout(() => setWasLost(false), 2500);
    return () => clearTimeout(timer);
  }, [isLost]);
  return (
    <div role="status" class={`connection ${isLost ? "lost" : wasLost ? "back" : ""}`}>
      {isLost ? "The server does not answer. Trying again…" : wasLost ? "Connected again." : ""}
    </div>
  );
}

function Page() {
  const { path } = useLocation();
  const [theme, nextTheme] = useTheme();
  const [access, open] = useAccess();
  const [hasKeys, setKeys] = useState(false);
  useKeys((key) => {
    if (key === "?") setKeys(true);
    else if (key === "d") nextTheme();
    else if (key === "t") go("/");
    else if (key === "n") go("/start");
    else if (key === "b") go("/batches");
    else if (key === "u") go("/totals");
    else return false;
    return true;
  });
  const route = routeOf(path);
  useEffect(() => {
    if (route.view !== "thread") document.title = route.view === "threads" || route.view === "nothing" ? "rondo" : `${route.view} · rondo`;
  }, [path]);
  return (
    <>
      <header class="top">
        <nav aria-label="Page">
          <Link to="/" class="brand">
            <svg viewBox="0 0 20 20" width="18" height="18" aria-hidden="true">
              <path d="M16.5 10a6.5 6.5 0 1 1-2-4.7" />
              <path class="tip" d="M14.9 1.6l.2 4.2-4.2.1z" />
            </svg>
            <span>rondo</span>
          </Link>
          {access !== "closed" && (
            <>
              <Link to="/" current={route.view === "threads" ? "page" : undefined}>
                Threads
              </Link>
              <Link to="/start" current={route.view === "start" ? "page" : undefined}>
                Start
              </Link>
              <Link to="/batches" current={route.view === "batches" ? "page" : undefined}>
                Batches
              </Link>
              <Link to="/totals" current={route.view === "totals" ? "page" : undefined}>
                Totals
              </Link>
            </>
          )}
        </nav>
        <Connection />
        <button type="button" class="icon" onClick={nextTheme} aria-label={`Colours: ${theme}`} title={`Colours: ${theme}`}>
          <Icon name={theme} />
        </button>
        <button type="button" class="icon" onClick={() => setKeys(true)} aria-label="Keys" title="Keys">
          ?
        </button>
      </header>
      {access === "closed" && <Token onOpened={open} />}
      {access === "open" && <View route={route} />}
      {hasKeys && <Keys onClose={() => setKeys(false)} />}
    </>
  );
}

render(<Page />, document.getElementById("page")!);
