// Starting a thread from its form, and watching it run.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { close, launch, open } from "./support/browser.mjs";
import { ROOT, Server } from "./support/server.mjs";

const INPUT = JSON.parse(readFileSync(join(ROOT, "workflows/describe-image/input.json"), "utf8"));
const PICTURE = Buffer.from(INPUT.picture.data.split(",").at(-1), "base64");
// The first number behind the signature and the name of the first chunk of a PNG.
const WIDTH = PICTURE.readUInt32BE(16);

const SETTINGS = '[files]\nmedia_types = ["image/*"]\n';

let server, browser;
before(async () => {
  [server, browser] = await Promise.all([Server.start(SETTINGS), launch()]);
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

test("a picture that is chosen in the form is shown beside the prompt that it went with", async () => {
  const page = await open(browser, server, { path: "/start/describe-image" });
  await page.getByLabel(/picture/).setInputFiles({ name: "tide.png", mimeType: "image/png", buffer: PICTURE });
  await page.getByLabel(/Offline/).check();
  await page.getByRole("button", { name: "Start" }).click();

  await page.waitForURL(/\/t\/[0-9a-z]{26}$/);
  await page.getByRole("heading", { level: 1 }).getByText("done").waitFor();
  await page.getByRole("option", { name: /describer/ }).first().click();
  const picture = page.getByRole("img", { name: "tide.png" });
  await picture.waitFor();
  await picture.evaluate((image) => image.decode());
  assert.equal(await picture.evaluate((image) => image.naturalWidth), WIDTH);

  const [, thread] = page.url().match(/\/t\/([0-9a-z]{26})/);
  const { input } = await server.api(`/threads/${thread}`);
  assert.deepEqual([input.picture.name, input.picture.media_type], ["tide.png", "image/png"]);
  await close(page);
});

test("a file of a type that the user's settings do not take is refused beside the form, and nothing starts", async () => {
  const page = await open(browser, server, { path: "/start/describe-image" });
  const count = (await server.api("/threads?children=true")).threads.length;
  await page.getByLabel(/picture/).setInputFiles({ name: "notes.bin", mimeType: "application/zip", buffer: Buffer.from("PK\x03\x04") });
  await page.getByLabel(/Offline/).check();
  await page.getByRole("button", { name: "Start" }).click();
  const problem = page.getByRole("alert");
  await problem.waitFor();
  assert.match(await problem.innerText(), /notes\.bin/);
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

test("the labels of a graph are whole, and no line and no other label goes through them", async () => {
  const page = await open(browser, server, { path: "/start/debate" });
  await page.locator(".edge-label").first().waitFor();
  const { texts, faults } = await page.evaluate(() => {
    const labels = [...document.querySelectorAll(".edge-label")];
    const boxes = labels.map((label) => label.querySelector("rect").getBoundingClientRect());
    const lastLine = [...document.querySelectorAll("path.edge")].at(-1);
    const faults = labels.flatMap((label, index) => {
      const [box, text] = [boxes[index], label.querySelector("text").getBoundingClientRect()];
      const isWithin = text.left >= box.left && text.right <= box.right && text.top >= box.top - 2 && text.bottom <= box.bottom + 2;
      const isOver = boxes.some((other, at) => {
        return at < index && other.left < box.right && box.left < other.right && other.top < box.bottom && box.top < other.bottom;
      });
      const isAbove = lastLine.compareDocumentPosition(label) & Node.DOCUMENT_POSITION_FOLLOWING;
      return isWithin && !isOver && isAbove ? [] : [label.textContent];
    });
    return { texts: labels.map((label) => [...label.querySelectorAll("tspan")].map((line) => line.textContent).join(" ")), faults };
  });
  assert.deepEqual(faults, []);
  assert(texts.some((text) => text.includes('hear_against after 3 times') && text.includes('close when output.verdict == "open"')), texts);
  await close(page);
});
