// The session: the token of the address, or one that is typed, is exchanged for a cookie that scripts cannot read.

import { useEffect, useState } from "preact/hooks";
import { get, post, whenUnauthorized } from "./api";
import { ProblemBox } from "./ui";

/** Takes the token out of the address, which is copied and shown. */
function takeToken(): string | null {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token) history.replaceState(null, "", location.pathname + location.search);
  return token;
}

export type Access = "unknown" | "open" | "closed";

export function useAccess(): [Access, () => void] {
  const [access, setAccess] = useState<Access>("unknown");
  useEffect(() => {
    whenUnauthorized(() => setAccess("closed"));
    const token = takeToken();
    const begun = token ? post("/session", { token }) : get("/threads?limit=1");
    // What else goes wrong, each view says itself.
    void begun.catch(() => {}).then(() => setAccess((old) => (old === "unknown" ? "open" : old)));
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
    await post("/session", { token: token.trim() }).then(onOpened, setProblem);
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
