// A `rondo serve` of its own, over a folder that lies in the temporary one, and `rondo` run beside it.

import { execFileSync, spawn } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const HERE = fileURLToPath(new URL(".", import.meta.url));
export const ROOT = resolve(HERE, "../../..");
const TARGET = process.env.CARGO_TARGET_DIR ?? join(ROOT, "target");
export const RONDO = process.env.RONDO ?? join(TARGET, "debug", "rondo");

/** The token of the servers here; no store of theirs outlives its test. */
export const TOKEN = "a-token-for-the-tests-of-the-page";

/** A port that nobody listens on, so that a server that is killed can be started again at the same address. */
async function freePort() {
  const probe = createServer();
  await new Promise((done) => probe.listen(0, "127.0.0.1", done));
  const { port } = probe.address();
  await new Promise((done) => probe.close(done));
  return port;
}

export class Server {
  /** A server over a new folder that is a copy of `tests/page/folder`, with `settings` as those of its user. */
  static async start(settings = "") {
    const server = new Server();
    server.folder = mkdtempSync(join(tmpdir(), "rondo-page-"));
    const home = join(server.folder, "home");
    server.work = join(server.folder, "work");
    mkdirSync(join(home, ".config/rondo"), { recursive: true });
    writeFileSync(join(home, ".config/rondo/config.toml"), settings);
    cpSync(resolve(HERE, "../folder"), server.work, { recursive: true });
    server.environment = { PATH: process.env.PATH, HOME: home, RONDO_TOKEN: TOKEN };
    server.port = await freePort();
    server.address = `http://127.0.0.1:${server.port}`;
    await server.up();
    return server;
  }

  /** Starts the process; resolves when it listens. */
  async up() {
    const options = { cwd: this.work, env: this.environment, stdio: ["ignore", "pipe", "inherit"] };
    this.process = spawn(RONDO, ["serve", "--trust", "--json", "--port", String(this.port)], options);
    this.ended = new Promise((done) => this.process.once("exit", done));
    const lines = createInterface({ input: this.process.stdout });
    const first = await Promise.race([new Promise((done) => lines.once("line", done)), this.ended]);
    if (typeof first !== "string") throw new Error("rondo serve ended before it listened");
    /** The address that begins a session, once. */
    this.page = JSON.parse(first).page;
  }

  /** Ends the process at once, as a crash does. */
  async kill() {
    this.process.kill("SIGKILL");
    await this.ended;
  }

  async stop() {
    this.process.kill("SIGTERM");
    await this.ended;
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** What `rondo ARGUMENTS` prints in the server's folder. */
  rondo(...args) {
    return execFileSync(RONDO, args, { cwd: this.work, env: this.environment, encoding: "utf8", maxBuffer: 1 << 28 });
  }

  /** Runs a batch offline to its end, an input a line; gives its id. */
  async batch(workflow, inputs) {
    const file = join(this.work, "lines.jsonl");
    writeFileSync(file, inputs.map((input) => `${JSON.stringify(input)}\n`).join(""));
    try {
      this.rondo("run", workflow, "--input-file", file, "--offline", "--trust");
    } catch (error) {
      // The exit code tells of lines that are not done.
      if (error.status === null) throw error;
    }
    return (await this.api("/batches")).batches[0].batch;
  }

  /** Asks the API with the token. */
  async api(path, { method = "GET", body, headers = {} } = {}) {
    const response = await fetch(`${this.address}/api/v1${path}`, {
      method,
      headers: { Authorization: `Bearer ${TOKEN}`, "Content-Type": "application/json", ...headers },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
    return response.json();
  }

  /** Starts a thread offline; gives its id. */
  async begin(workflow, input = {}, rest = {}) {
    const { thread } = await this.api("/threads", { method: "POST", body: { workflow, input, offline: true, ...rest } });
    return thread;
  }

  /** The thread once its status is one of `statuses`. */
  async until(thread, ...statuses) {
    for (;;) {
      const found = await this.api(`/threads/${thread}`);
      if (statuses.includes(found.status)) return found;
      if (["failed", "cancelled"].includes(found.status)) throw new Error(`${thread} ${found.status}: ${found.reason}`);
      await new Promise((done) => setTimeout(done, 50));
    }
  }

  /** A thread that ran offline to its end; gives its id. */
  async finished(workflow, input, rest) {
    const thread = await this.begin(workflow, input, rest);
    await this.until(thread, "done");
    return thread;
  }
}
