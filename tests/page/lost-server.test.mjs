// A server that goes and comes back, and a tab that slept.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { after, before, test } from "node:test";
import { close, launch, open } from "./support/browser.mjs";
import { RONDO, Server, TOKEN } from "./support/server.mjs";

let server, browser;
before(async () => {
  [server, browser] = await Promise.all([Server.start(), launch()]);
});
after(async () => {
  await browser.close();
  await server.stop();
});

/** A server that starts anew knows no session: its token is entered. */
async function enterToken(page) {
  await page.getByLabel("Token").fill(TOKEN);
  await page.keyboard.press("Enter");
}

/** The numbers of the steps that the page shows, in order. */
const shown = (page) => page.getByRole("option").evaluateAll((rows) => rows.map((row) => Number(row.getAttribute("aria-posinset"))));
const upTo = (count) => Array.from({ length: count }, (_, index) => index + 1);

test("a server that is killed is told of, found again, and its thread continues from the page", async () => {
  const thread = await server.begin("relay");
  const page = await open(browser, server, { path: `/t/${thread}` });
  await page.getByRole("option").nth(3).waitFor();
  await server.kill();
  await page.getByText(/server does not answer/).waitFor();
  await server.up();
  await enterToken(page);
  await page.getByText(/server does not answer/).waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Resume" }).click();
  await page.getByRole("heading", { level: 1 }).getByText("done").waitFor();
  const { totals } = await server.api(`/threads/${thread}`);
  await page
    .getByRole("option")
    .nth(totals.steps - 1)
    .waitFor();
  assert.deepEqual(await shown(page), upTo(totals.steps));
  await close(page);
});

test("the list of threads comes back too", async () => {
  const page = await open(browser, server);
  await page.getByRole("link", { name: "relay" }).first().waitFor();
  await server.kill();
  await page.getByText(/server does not answer/).waitFor();
  await server.up();
  await enterToken(page);
  await page.getByText(/server does not answer/).waitFor({ state: "detached" });
  await server.begin("markup", {}, { label: "after" });
  await page.getByText("after", { exact: true }).waitFor();
  await close(page);
});

test("a tab that slept while its thread ran shows every step once", async () => {
  const thread = await server.begin("relay");
  const page = await open(browser, server, { path: `/t/${thread}` });
  await page.getByRole("option").nth(1).waitFor();
  await page.context().setOffline(true);
  await server.until(thread, "done");
  await page.context().setOffline(false);
  await page.getByRole("heading", { level: 1 }).getByText("done").waitFor();
  const { totals } = await server.api(`/threads/${thread}`);
  assert.deepEqual(await shown(page), upTo(totals.steps));
  await close(page);
});

test("a page holds at most two streams, and none once its thread has ended", async () => {
  const thread = await server.begin("relay");
  const page = await open(browser, server, { path: "/" });
  const streams = new Set();
  page.on("request", (request) => request.url().endsWith("/events") && streams.add(request));
  page.on("requestfinished", (request) => streams.delete(request));
  page.on("requestfailed", (request) => streams.delete(request));
  await page.getByRole("link", { name: "relay" }).first().click();
  await page.getByRole("option").first().waitFor();
  assert(streams.size <= 2, `${streams.size} streams`);
  await server.until(thread, "done");
  await page.getByRole("heading", { level: 1 }).getByText("done").waitFor();
  await page.waitForTimeout(500);
  assert.equal(streams.size, 0);
  await close(page);
});

/** Hides the tab or shows it, as another tab in front of it does. */
const hide = (page, isHidden) =>
  page.evaluate((isHidden) => {
    Object.defineProperty(document, "hidden", { configurable: true, value: isHidden });
    document.dispatchEvent(new Event("visibilitychange"));
  }, isHidden);

test("a tab that nobody sees holds no stream, and shows every step once it is seen", async () => {
  const thread = await server.begin("relay");
  const page = await open(browser, server, { path: `/t/${thread}` });
  let streams = 0;
  const isStream = (request) => request.url().endsWith("/events");
  page.on("request", (request) => (streams += isStream(request)));
  await page.getByRole("option").nth(1).waitFor();
  const closed = page.waitForEvent("requestfailed", isStream);
  await hide(page, true);
  await closed;
  streams = 0;
  await server.until(thread, "done");
  assert.equal(streams, 0);
  await hide(page, false);
  await page.getByRole("heading", { level: 1 }).getByText("done").waitFor();
  const { totals } = await server.api(`/threads/${thread}`);
  assert.deepEqual(await shown(page), upTo(totals.steps));
  await close(page);
});

test("a step that is committed between two reads of a thread that ends is not missed", async () => {
  const thread = await server.finished("relay");
  const page = await open(browser, server);
  let isFirst = true;
  // As the store stood a moment ago.
  await page.route(/\/steps\?after=0/, async (route) => {
    const response = await route.fetch();
    const body = await response.json();
    if (isFirst) body.steps.pop();
    isFirst = false;
    await route.fulfill({ response, json: body });
  });
  let isRunning = true;
  await page.route(new RegExp(`/threads/${thread}$`), async (route) => {
    const response = await route.fetch();
    const body = await response.json();
    if (isRunning) Object.assign(body, { status: "running", ended_at_ms: null });
    isRunning = false;
    await route.fulfill({ response, json: body });
  });
  await page.getByRole("link", { name: "relay" }).first().click();
  await page.getByRole("heading", { level: 1 }).getByText("done").waitFor();
  const { totals } = await server.api(`/threads/${thread}`);
  assert.deepEqual(await shown(page), upTo(totals.steps));
  await close(page);
});

test("a run of another process that is killed is shown as stopped, though no event says so", async () => {
  const page = await open(browser, server);
  const run = spawn(RONDO, ["run", "relay", "--offline", "--trust", "--json"], {
    cwd: server.work,
    env: server.environment,
    stdio: "ignore",
  });
  const ended = new Promise((done) => run.once("exit", done));
  await page.getByRole("cell", { name: "running" }).waitFor();
  await page.getByRole("link", { name: "relay" }).first().click();
  await page.getByRole("option").first().waitFor();
  run.kill("SIGKILL");
  await ended;
  await page.getByRole("heading", { level: 1 }).getByText("stopped").waitFor();
  await close(page);
});
