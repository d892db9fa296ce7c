// Starting a thread from its form, and watching it run.

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

test("a thread is started from its form and watched while its lanes speak side by side", async () => {
  const page = await open(browser, server);
  await page.getByRole("link", { name: "Start a thread" }).click();
  await page.getByRole("link", { name: /^readers/ }).click();
  await page.getByRole("heading", { name: "readers", level: 1 }).waitFor();
  await page.getByRole("img", { name: /Graph of readers/ }).waitFor();
  await page.getByLabel("text").fill("The tide comes in twice a day.");
  await page.getByLabel(/strict/).selectOption("true");
  await page.getByLabel(/tone/).selectOption("formal");
  await page.getByLabel(/Offline/).check();
  await page.getByLabel(/Name of the thread/).fill("tides");
  await page.getByRole("button", { name: "Start" }).click();

  await page.waitForURL(/\/t\/[0-9a-z]{26}$/);
  const now = page.getByRole("img", { name: /speaking: .*clear.*correct.*brief|speaking: .*brief/ });
  await now.waitFor();
  assert.equal(await page.locator(".graph .node.active").count(), 3);
  await page.getByRole("option", { name: /judge/ }).waitFor();
  await page.getByRole("heading", { level: 1 }).getByText("done").waitFor();
  assert.equal(await page.getByRole("option").count(), 4);
  assert.equal(await page.locator(".graph .node.active").count(), 0);

  const [thread] = (await server.api("/threads?name=tides")).threads;
  const { input } = await server.api(`/threads/${thread.thread}`);
  assert.deepEqual(input, { strict: true, text: "The tide comes in twice a day.", tone: "formal" });
  await close(page);
});

test("an input that the workflow refuses is said beside the form, and nothing starts", async () => {
  const page = await open(browser, server, { path: "/start/readers" });
  const count = (await server.api("/threads?children=true")).threads.length;
  await page.getByLabel(/Offline/).check();
  // The browser's own check is for people who type; the server's is for everybody.
  await page.locator("form").evaluateAll((forms) => forms.forEach((form) => (form.noValidate = true)));
  await page.getByRole("button", { name: "Start" }).click();
  const problem = page.getByRole("alert");
  await problem.waitFor();
  assert.match(await problem.innerText(), /text/);
  await problem.getByRole("link", { name: /^RN\d{4}$/ }).waitFor();
  assert.equal((await server.api("/threads?children=true")).threads.length, count);
  await close(page);
});

test("what a model writes is text", async () => {
  const thread = await server.finished("markup");
  const page = await open(browser, server, { path: `/t/${thread}` });
  await page.getByText("<script id=own>").first().waitFor();
  await page.goto(`${server.address}/t/${thread}/s/1`);
  await page.getByText("<img id=own").last().waitFor();
  for (const tab of ["Request", "Bytes"]) {
    await page.getByRole("tab", { name: tab }).click();
    await page.getByText("<b id=own>Begin</b>").last().waitFor();
  }
  assert.equal(await page.locator("#own").count(), 0);
  assert.notEqual(await page.title(), "taken");
  await close(page);
});
