// The page of `rondo serve`.

import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { get, openSession, whenUnauthorized } from "./api";
import { Compare } from "./compare";
import { Prefix } from "./prefix";
import { routeOf, usePath } from "./router";
import { Start } from "./start";
import "./style.css";
import { ThreadView } from "./thread";
import { Threads } from "./threads";
import { Dialog, Link, ProblemBox, useKeys } from "./ui";

type Theme = "system" | "light" | "dark";
const THEMES: Theme[] = ["system", "light", "dark"];

function useTheme(): [Theme, () => void] {
  const [theme, setTheme] = useState<Theme>(() => (localStorage.getItem("theme") as Theme | null) ?? "system");
  useEffect(() => {
    localStorage.setItem("theme", theme);
    document.documentElement.dataset.theme = theme;
  }, [theme]);
  return [theme, () => setTheme(THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length]!)];
}

/** Asks for the token where neither the address nor the browser has one. */
function Token({ onOpened }: { onOpened: () => void }) {
  const [token, setToken] = useState("");
  const [problem, setProblem] = useState<unknown>(null);
  const open = async (event: Event) => {
    event.preventDefault();
    await openSession(token.trim()).then(onOpened, setProblem);
  };
  return (
    <main class="token">
      <h1>rondo</h1>
      <p>
        Open the address that <code>rondo serve</code> printed, or enter its token here.
      </p>
      <form onSubmit={open}>
        <label for="token">Token</label>
        <input id="token" type="password" autocomplete="off" value={token} onInput={(event) => setToken(event.currentTarget.value)} />
        <button type="submit" class="primary" disabled={!token}>
          Open
        </button>
      </form>
      <ProblemBox problem={problem} />
    </main>
  );
}

const KEYS: [string, string][] = [
  ["j  k", "next, previous"],
  ["Enter", "open the chosen thread"],
  ["/", "search in the list"],
  ["g  G", "first step, last step"],
  ["Esc", "close what is looked at"],
  ["t", "light, dark, or as the system is"],
  ["?", "this sheet"],
];

function Page() {
  const path = usePath();
  const [theme, nextTheme] = useTheme();
  const [access, setAccess] = useState<"unknown" | "open" | "closed">("unknown");
  const [hasKeys, setKeys] = useState(false);
  useEffect(() => {
    whenUnauthorized(() => setAccess("closed"));
    const token = new URLSearchParams(location.hash.slice(1)).get("token");
    // The token does not stay in the address, which is copied and shown.
    if (token) history.replaceState(null, "", location.pathname);
    const begun = token ? openSession(token) : get("/workflows?").then(() => undefined);
    begun.then(
      () => setAccess("open"),
      () => setAccess((old) => (old === "unknown" ? "open" : old)),
    );
  }, []);
  useKeys((key) => {
    if (key === "?") setKeys(true);
    else if (key === "t") nextTheme();
    else return false;
    return true;
  });
  const route = routeOf(path);
  useEffect(() => {
    const title = route.view === "thread" || route.view === "step" || route.view === "prefix" ? route.thread.slice(0, 12) : route.view;
    document.title = route.view === "threads" ? "rondo" : `${title} – rondo`;
  }, [path]);
  if (access === "closed") return <Token onOpened={() => setAccess("open")} />;
  return (
    <>
      <nav class="top" aria-label="Page">
        <Link to="/" class="brand">
          rondo
        </Link>
        <Link to="/" {...(route.view === "threads" ? { "aria-current": "page" as const } : {})}>
          Threads
        </Link>
        <Link to="/start" {...(route.view === "start" ? { "aria-current": "page" as const } : {})}>
          Start
        </Link>
        <span class="space" />
        <button type="button" class="quiet" onClick={nextTheme}>
          {theme}
        </button>
        <button type="button" class="quiet" onClick={() => setKeys(true)} aria-label="Keys">
          ?
        </button>
      </nav>
      {access === "open" && (
        <>
          {route.view === "threads" && <Threads />}
          {route.view === "start" && <Start workflow={route.workflow} />}
          {(route.view === "thread" || route.view === "step") && (
            <ThreadView key={route.thread} id={route.thread} seq={route.view === "step" ? route.seq : null} />
          )}
          {route.view === "prefix" && <Prefix thread={route.thread} />}
          {route.view === "compare" && <Compare a={route.a} b={route.b} />}
        </>
      )}
      {hasKeys && (
        <Dialog title="Keys" onClose={() => setKeys(false)}>
          <dl class="keys">
            {KEYS.map(([key, what]) => (
              <div key={key}>
                <dt>
                  <kbd>{key}</kbd>
                </dt>
                <dd>{what}</dd>
              </div>
            ))}
          </dl>
        </Dialog>
      )}
    </>
  );
}

render(<Page />, document.getElementById("page")!);
