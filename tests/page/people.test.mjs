// What a thread asks a person, answered in the page.

import assert from "node:assert/strict";
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
  await form.getByRole("radio", { name: "rejected" }).check();
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

test("a tool call that needs approval shows its arguments, and goes on when it is allowed", async () => {
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
