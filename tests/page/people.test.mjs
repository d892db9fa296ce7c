// What a thread asks a person, answered in the page.

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { close, launch, open } from "./support/browser.mjs";
import { Server } from "./support/server.mjs";

let server, browser;
before(async () => {
  [server, browser] = await Promise.all([Server.start(), launch()]);
});
after(async () => {
  await browser.close();
  await server.stop();
});

test("a form is answered twice: sent back with a field, then signed", async () => {
  const thread = await server.begin("letter", { to: "Ada" });
  const page = await open(browser, server, { path: `/t/${thread}` });
  const form = page.getByRole("region", { name: "boss waits for you" });
  await form.getByText("Dear Ada, come at nine.").waitFor();
  // Nothing is chosen for a person, and what was typed outlives another choice.
  const answer = form.getByRole("button", { name: "Answer" });
  assert.equal(await form.getByRole("radio", { checked: true }).count(), 0);
  await page.waitForTimeout(700);
  assert(await answer.isDisabled());
  await form.getByRole("radio", { name: "signed" }).check();
  await answer.and(page.locator(":enabled")).waitFor();
  await form.getByLabel("Text").fill("Not like this.");
  await form.getByRole("radio", { name: "rejected" }).check();
  assert.equal(await form.getByLabel("Text").inputValue(), "Not like this.");
  await form.getByLabel("why").fill("Say please.");
  await form.getByRole("button", { name: "Answer: rejected" }).click();

  await form.getByText("please come at nine").waitFor();
  await form.getByRole("radio", { name: "signed" }).check();
  await form.getByRole("button", { name: "Answer: signed" }).click();
  await page.getByRole("heading", { level: 1 }).getByText("done").waitFor();
  assert.equal(await form.count(), 0);
  assert.equal(await page.getByRole("option").count(), 4);
  const { result } = await server.api(`/threads/${thread}`);
  assert.deepEqual(result, { letter: "Dear Ada, please come at nine. Yours, Bob." });
  await close(page);
});

test("a required field that is left empty is asked for, and the form stays", async () => {
  const thread = await server.begin("letter", { to: "Bob" });
  const page = await open(browser, server, { path: `/t/${thread}` });
  const form = page.getByRole("region", { name: "boss waits for you" });
  await form.getByRole("radio", { name: "rejected" }).check();
  await form.getByRole("button", { name: "Answer: rejected" }).click();
  assert.equal(await form.getByLabel("why").evaluate((field) => field.validity.valid), false);
  assert.equal((await server.api(`/threads/${thread}`)).status, "waiting");
  await close(page);
});

test("a tool call that needs approval shows its arguments, and continues when it is allowed", async () => {
  const thread = await server.begin("deploy");
  const page = await open(browser, server, { path: `/t/${thread}` });
  const form = page.getByRole("region", { name: "operator waits for you" });
  await form.getByText("low tide").waitFor();
  await form.getByText("write_file").first().waitFor();
  await form.getByRole("button", { name: "Allow" }).click();
  await page.getByRole("heading", { level: 1 }).getByText("done").waitFor();
  await page.getByRole("option", { name: /operator/ }).click();
  await page.getByRole("region", { name: "How it came about" }).getByText("write_file").waitFor();
  await close(page);
});

test("a refusal reaches the model with its reason", async () => {
  const thread = await server.begin("deploy");
  const page = await open(browser, server, { path: `/t/${thread}` });
  const form = page.getByRole("region", { name: "operator waits for you" });
  await form.getByLabel(/Why not/).fill("not on a Friday");
  await form.getByRole("button", { name: "Refuse" }).click();
  await page.getByRole("heading", { level: 1 }).getByText("done").waitFor();
  assert.match(server.rondo("show", thread), /not on a Friday/);
  await close(page);
});

/** The server's folder has this file. */
const isMade = (name) => existsSync(join(server.work, name));

test("a form that has just come takes no click, and each click allows the call that it was made on", async () => {
  const thread = await server.begin("sequence");
  const page = await open(browser, server);
  // What the buttons are like at the moment at which they come.
  await page.evaluate(() => {
    window.came = [];
    new MutationObserver(() => {
      const form = document.querySelector(".form");
      const text = form?.querySelector("pre")?.textContent;
      if (!text || window.came.some((known) => known.text === text)) return;
      window.came.push({ text, areDead: [...form.querySelectorAll(".buttons button")].every((button) => button.disabled) });
    }).observe(document, { subtree: true, childList: true });
  });
  await page.locator(`a[href="/t/${thread}"]`).click();
  const form = page.getByRole("region", { name: "operator waits for you" });
  const allow = form.getByRole("button", { name: "Allow" });
  await form.getByText("path = one.txt").waitFor();
  await allow.dblclick();
  await form.getByText("path = two.txt").waitFor();
  assert(!isMade("two.txt"));
  await allow.click();
  // Escapes are decoded, what is not seen is named, and only its word allows a dangerous call.
  await form.getByText("script = true [U+202E]# [U+200B] hidden").waitFor();
  await form.getByRole("button", { name: "Refuse" }).and(page.locator(":enabled")).waitFor();
  assert(await allow.isDisabled());
  await form.getByLabel("Type true to allow it").fill("yes");
  assert(await allow.isDisabled());
  await form.getByLabel("Type true to allow it").fill("true");
  await allow.click();
  await page.getByRole("heading", { level: 1 }).getByText("done").waitFor();
  const came = await page.evaluate(() => window.came);
  assert.deepEqual(came.map(({ areDead }) => areDead), [true, true, true], JSON.stringify(came));
  await close(page);
});

test("a click on a call that was decided meanwhile allows no other, and the page says so", async () => {
  const thread = await server.begin("sequence");
  await server.until(thread, "waiting");
  const page = await open(browser, server, { path: `/t/${thread}` });
  const form = page.getByRole("region", { name: "operator waits for you" });
  await form.getByText("path = one.txt").waitFor();
  // The page does not hear of what follows.
  const [stale] = (await server.api(`/threads/${thread}`)).forms;
  let isDeaf = true;
  await page.route(new RegExp(`/threads/${thread}$`), async (route) => {
    const response = await route.fetch();
    const body = await response.json();
    if (isDeaf) Object.assign(body, { status: "waiting", forms: [stale] });
    await route.fulfill({ response, json: body });
  });
  const body = { form: stale.digest, approve: false };
  await server.api(`/threads/${thread}/answer`, { method: "POST", body });
  const [next] = (await server.until(thread, "waiting")).forms;
  assert.notEqual(next.digest, stale.digest);
  const [answer] = await Promise.all([
    page.waitForResponse((response) => response.url().endsWith("/answer")),
    form.getByRole("button", { name: "Allow" }).click(),
  ]);
  assert.equal(answer.status(), 409);
  isDeaf = false;
  await page.getByText("does not wait for that form").waitFor();
  assert.deepEqual((await server.api(`/threads/${thread}`)).forms, [next]);
  await close(page);
});

test("a form appears also if the thread is read just before its run has ended", async () => {
  const thread = await server.begin("letter", { to: "Eve" });
  await server.until(thread, "waiting");
  const page = await open(browser, server);
  // The event of the form comes a moment before the thread is said to wait.
  const begun = Date.now();
  await page.route(new RegExp(`/threads/${thread}$`), async (route) => {
    const response = await route.fetch();
    const body = await response.json();
    if (Date.now() - begun < 1500) Object.assign(body, { status: "running", forms: [] });
    await route.fulfill({ response, json: body });
  });
  await page.locator(`a[href="/t/${thread}"]`).click();
  await page.getByRole("region", { name: "boss waits for you" }).waitFor();
  await close(page);
});

test("a join says how many of its lanes have arrived, also to a page that comes later", async () => {
  const thread = await server.begin("board");
  await server.until(thread, "waiting");
  const page = await open(browser, server, { path: `/t/${thread}` });
  const judge = page.locator(".graph .node", { hasText: "judge" });
  await page.getByText("judge waits: 1 of 3 arrived").waitFor();
  await judge.getByText("1 of 3 arrived").waitFor();
  const sign = async (role) => {
    const form = page.getByRole("region", { name: new RegExp(`${role}.* waits for you`) });
    await form.getByRole("radio", { name: "signed" }).check();
    await form.getByRole("button", { name: "Answer: signed" }).click();
  };
  await sign("chair");
  await page.getByText("judge waits: 2 of 3 arrived").waitFor();
  await page.reload();
  await page.getByText("judge waits: 2 of 3 arrived").waitFor();
  assert.equal(await page.locator(".graph .node.active").count(), 0);
  await sign("member");
  await page.getByRole("heading", { level: 1 }).getByText("done").waitFor();
  await page.getByText(/of 3 arrived/).waitFor({ state: "detached" });
  await close(page);
});
