// The session: it begins with the code of the address, which works once, or with a token that is typed.

import { useEffect, useState } from "preact/hooks";
import { get, keepSession, post, whenUnauthorized } from "./api";
import { ProblemBox } from "./ui";

/** Takes the code out of the address, which is copied and shown. */
function takeCode(): string | null {
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (code) history.replaceState(null, "", location.pathname + location.search);
  return code;
}

/** Begins a session and keeps its key. */
async function begin(by: { code: string } | { token: string }) {
  const { session } = await post<{ session: string }>("/session", by);
  keepSession(session);
}

export type Access = "unknown" | "open" | "closed";

export function useAccess(): [Access, () => void] {
  const [access, setAccess] = useState<Access>("unknown");
  useEffect(() => {
    const code = takeCode();
    // A code that was used before, such as by this tab before it was loaded again, leaves the session as it is.
    const begun = code ? begin({ code }).catch(() => {}) : Promise.resolve();
    void begun
      .then(() => {
        whenUnauthorized(() => setAccess("closed"));
        return get("/threads?limit=1");
      })
      // What else goes wrong, each view says itself.
      .catch(() => {})
      .then(() => setAccess((old) => (old === "unknown" ? "open" : old)));
  }, []);
  return [access, () => setAccess("open")];
}

/** Asks for the token where neither the address nor the browser has one. */
export function Token({ onOpened }: { onOpened: () => void }) {
  const [token, setToken] = useState("");
  const [problem, setProblem] = useState<unknown>(null);
  const open = async (event: Event) => {
    event.preventDefault();
    setProblem(null);
    await begin({ token: token.trim() }).then(onOpened, setProblem);
  };
  return (
    <main class="token">
      <h1>rondo</h1>
      <p>
        Open the address that <code>rondo serve</code> printed, or enter its token here.
      </p>
      <form onSubmit={open}>
        <label for="token">Token</label>
        <div class="line">
          <input id="token" type="password" autocomplete="off" value={token} onInput={(event) => setToken(event.currentTarget.value)} />
          <button type="submit" class="primary" disabled={!token}>
            Open
          </button>
        </div>
      </form>
      <ProblemBox problem={problem} />
    </main>
  );
}
