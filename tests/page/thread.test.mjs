// What can be done with a thread that has run: its steps, requests, prefixes, forks and differences.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { close, launch, open } from "./support/browser.mjs";
import { Server } from "./support/server.mjs";

let server, browser, thread;
before(async () => {
  [server, browser] = await Promise.all([Server.start(), launch()]);
  thread = await server.finished("relay");
});
after(async () => {
  await browser.close();
  await server.stop();
});

test("a link to a step opens it, and the back button leads where one came from", async () => {
  const page = await open(browser, server, { path: `/t/${thread}/s/3` });
  await page.getByRole("option", { selected: true }).waitFor();
  assert.equal(await page.getByRole("option", { selected: true }).getAttribute("aria-posinset"), "3");
  await page.getByText("Sentence 2.").first().waitFor();
  await page.getByRole("link", { name: "Prefix lane" }).click();
  await page.getByRole("heading", { name: "Prefix lane" }).waitFor();
  await page.goBack();
  await page.getByRole("option", { selected: true }).waitFor();
  await close(page);
});

test("the bytes of each request are those of `rondo messages`", async () => {
  const page = await open(browser, server, { path: `/t/${thread}/s/5` });
  await page.getByRole("tab", { name: "Bytes" }).click();
  const raw = page.getByLabel("Request as sent");
  await raw.waitFor();
  const printed = server.rondo("messages", thread, "--role", "writer", "--visit", "3", "--json");
  assert.equal(await raw.evaluate((element) => element.textContent), printed);
  await page.getByRole("button", { name: "Copy bytes" }).click();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), printed);
  await close(page);
});

test("a request shows what the role's last visit had already sent", async () => {
  const page = await open(browser, server, { path: `/t/${thread}/s/5` });
  await page.getByRole("tab", { name: "Request" }).click();
  await page
    .getByText(/shared with visit 2|sent before/)
    .first()
    .waitFor();
  const { shared, requests } = await server.api(`/threads/${thread}/steps/5/messages`);
  assert(shared[0].bytes > 0);
  assert.equal(await page.locator(".message.new[data-at]").count(), requests[0].messages.length - shared[0].messages);
  await page.getByText(requests[0].digest).waitFor();
  await close(page);
});

test("the prefix lane has a bar for each visit and its sums for each role", async () => {
  const page = await open(browser, server, { path: `/t/${thread}/prefix` });
  const { visits, roles } = await server.api(`/threads/${thread}/prefix`);
  await page.getByRole("region", { name: "Prefixes of writer" }).waitFor();
  assert.equal(await page.locator(".lane").count(), roles.length);
  assert.equal(await page.locator(".visit").count(), visits.length);
  await page.locator(".visit").nth(1).click();
  await page.waitForURL(/\/s\/\d+$/);
  await close(page);
});

test("a thread is forked at a step and compared with its fork", async () => {
  const page = await open(browser, server, { path: `/t/${thread}/s/4` });
  await page.getByRole("button", { name: "Fork here" }).click();
  const form = page.getByRole("dialog", { name: "Fork" });
  await form.getByText(/Shares steps 1–4\. \d+ steps are made again: \d+ model calls/).waitFor();
  await form.getByRole("button", { name: "Fork", exact: true }).click();
  await page.waitForURL((address) => /\/t\/[0-9a-z]{26}$/.test(address.pathname) && !address.pathname.includes(thread));
  await page.getByRole("heading", { level: 1 }).getByText("done").waitFor();
  await page.getByText(/forked from/).waitFor();
  await page.getByRole("button", { name: "Compare" }).click();
  const dialog = page.getByRole("dialog", { name: "Compare with" });
  await dialog.getByRole("link").last().click();
  await page.getByText(/Equal up to step/).waitFor();
  await page.getByRole("table").getByText("steps").waitFor();
  await close(page);
});

/** The thread that the page leads to after a fork. */
async function forkOf(page, from) {
  await page.getByRole("dialog", { name: "Fork" }).getByRole("button", { name: "Fork", exact: true }).click();
  await page.waitForURL((address) => /\/t\/[0-9a-z]{26}$/.test(address.pathname) && !address.pathname.includes(from));
  const fork = new URL(page.url()).pathname.split("/").pop();
  await server.until(fork, "done");
  return fork;
}

test("a fork answers a step otherwise, and no answer is taken that its role could not give", async () => {
  const page = await open(browser, server, { path: `/t/${thread}/s/4` });
  await page.getByRole("button", { name: "Fork here" }).click();
  const form = page.getByRole("dialog", { name: "Fork" });
  const fork = form.getByRole("button", { name: "Fork", exact: true });
  await form.getByRole("radio", { name: /Answer step 4/ }).check();
  const answer = form.getByLabel("Answer", { exact: true });
  const { steps } = await server.api(`/threads/${thread}/steps?after=3&limit=1`);
  assert.equal(await answer.inputValue(), steps[0].answer);
  await answer.fill("---\nstatus: written\n---\n");
  assert(await fork.isDisabled());
  await fork.and(page.locator(":enabled")).click();
  await form.getByRole("alert").getByText("written").waitFor();
  await answer.fill("---\nstatus: enough\n---\n");
  await form.getByRole("alert").waitFor({ state: "detached" });
  await form.getByText(/Shares steps 1–3\./).waitFor();
  const made = await forkOf(page, thread);
  const { totals } = await server.api(`/threads/${made}`);
  assert.equal(totals.steps, 4);
  await close(page);
});

test("a fork changes inputs, and sends only those", async () => {
  const given = await server.finished("readers", { text: "One.", strict: true });
  const page = await open(browser, server, { path: `/t/${given}/s/1` });
  await page.getByRole("button", { name: "Fork here" }).click();
  const form = page.getByRole("dialog", { name: "Fork" });
  await form.getByRole("radio", { name: "Change inputs" }).check();
  await form.getByText(/No input differs/).waitFor();
  await form.getByLabel("strict").fill("fal");
  await form.getByText("strict: this is not JSON").waitFor();
  assert(await form.getByRole("button", { name: "Fork", exact: true }).isDisabled());
  await form.getByLabel("strict").fill("true");
  await form.getByLabel("text").fill("Two.");
  await form.getByText(/Shares no step/).waitFor();
  const sent = page.waitForRequest((request) => request.url().endsWith("/fork") && !request.postDataJSON().dry_run);
  const made = await forkOf(page, given);
  assert.deepEqual((await sent).postDataJSON(), { input: { text: "Two." } });
  assert.deepEqual((await server.api(`/threads/${made}`)).input, { text: "Two.", strict: true });
  await close(page);
});

test("threads of two versions of a workflow show which words differ", async () => {
  const a = await server.finished("markup");
  const file = `${server.work}/workflows/markup/workflow.yaml`;
  writeFileSync(file, readFileSync(file, "utf8").replace("system: Write.", "system: Write well."));
  const b = await server.finished("markup");
  const page = await open(browser, server, { path: `/compare/${a}/${b}` });
  await page.getByRole("heading", { name: "Definitions that differ" }).waitFor();
  await page.getByText("roles.writer.system").waitFor();
  await page.getByRole("deletion").getByText("Write.", { exact: true }).waitFor();
  await page.getByRole("insertion").getByText("Write well.").waitFor();
  await close(page);
});

test("a run is played again step by step", async () => {
  const page = await open(browser, server, { path: `/t/${thread}` });
  await page.getByRole("slider", { name: "Step" }).fill("2");
  await page.waitForURL(/\/s\/2$/);
  assert.equal(await page.locator(".graph .node.chosen").count(), 1);
  await page.getByRole("button", { name: "Play" }).click();
  await page.waitForURL(/\/s\/4$/);
  await page.getByRole("button", { name: "Pause" }).click();
  await close(page);
});

test("a thread becomes a scenario that the tester accepts", async () => {
  const page = await open(browser, server, { path: `/t/${thread}` });
  await page.getByRole("button", { name: "Make a scenario" }).click();
  const dialog = page.getByRole("dialog");
  const [download] = await Promise.all([page.waitForEvent("download"), dialog.getByRole("button", { name: "Save" }).click()]);
  await download.saveAs(`${server.work}/workflows/relay/tests/saved.yaml`);
  server.rondo("test", "workflows/relay", "--accept");
  assert.match(server.rondo("test", "workflows/relay", "--check"), /passed/);
  await close(page);
});

test("a thread that stopped at a limit continues when the limit is raised", async () => {
  const stopped = await server.begin("relay", {}, { limits: { steps: 3 } });
  await server.until(stopped, "stopped");
  const page = await open(browser, server, { path: `/t/${stopped}` });
  await page.getByRole("button", { name: "Raise the limit and resume" }).click();
  // What the hint offers is filled in.
  assert.equal(await page.getByLabel("Limit", { exact: true }).inputValue(), "steps");
  assert.equal(await page.getByLabel("New value").inputValue(), "6");
  await page.getByLabel("New value").fill("30");
  await page.getByRole("dialog").getByRole("button", { name: "Resume" }).click();
  await page.getByRole("heading", { level: 1 }).getByText("done").waitFor();
  await close(page);
});

test("a run is stopped, resumed and cancelled from the page", async () => {
  const running = await server.begin("relay");
  const page = await open(browser, server, { path: `/t/${running}` });
  await page.getByRole("button", { name: "Stop" }).click();
  await page.getByRole("heading", { level: 1 }).getByText("stopped").waitFor();
  await page.getByRole("button", { name: "Resume" }).click();
  await page.getByRole("heading", { level: 1 }).getByText("running").waitFor();
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Cancel the thread" }).click();
  await page.getByRole("heading", { level: 1 }).getByText("cancelled").waitFor();
  await close(page);
});

test("a thread and a step that do not exist are said, with the code", async () => {
  const page = await open(browser, server, { path: "/t/01k9b6x2e0q8v3m5n7p9r1t4wz" });
  await page
    .getByRole("alert")
    .getByRole("link", { name: /^RN\d{4}$/ })
    .waitFor();
  await page.goto(`${server.address}/t/${thread}/s/999`);
  await page.getByText(/no step 999/).waitFor();
  await page.goto(`${server.address}/nothing/here`);
  await page.getByText(/no such page/i).waitFor();
  await close(page);
});
