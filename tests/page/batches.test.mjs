// What several threads did: the lines of a batch, and the totals of all.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { close, launch, open } from "./support/browser.mjs";
import { Server } from "./support/server.mjs";

let server, browser, batch;
before(async () => {
  [server, browser] = await Promise.all([Server.start(), launch()]);
  batch = await server.batch("readers", [{ text: "One." }, { text: "Two." }, { tone: "formal" }]);
});
after(async () => {
  await browser.close();
  await server.stop();
});

test("a batch says how far it is, and its lines lead to their threads", async () => {
  const page = await open(browser, server);
  await page.keyboard.press("b");
  await page.getByRole("heading", { name: "Batches" }).waitFor();
  await page.getByText("2 of 3 done, 1 invalid").waitFor();
  await page.getByRole("link", { name: "readers" }).click();
  await page.waitForURL(`${server.address}/batches/${batch}`);
  const lines = page.getByRole("table").getByRole("row");
  await lines.nth(3).getByText("invalid").waitFor();
  await lines.nth(3).getByText(/text/).waitFor();
  // Nothing is open that could be resumed.
  assert.equal(await page.getByText("rondo resume").count(), 0);
  await lines.nth(1).getByRole("link").click();
  await page.getByRole("heading", { level: 1 }).getByText("done").waitFor();
  await close(page);
});

test("totals are added up by what is chosen, and the address keeps the choice", async () => {
  const page = await open(browser, server);
  await page.keyboard.press("u");
  await page.getByRole("row", { name: /^readers 2 8 / }).waitFor();
  await page.getByRole("row", { name: /^all 2 8 / }).waitFor();
  await page.getByLabel("By").selectOption("role");
  await page.getByLabel("Time").selectOption("7d");
  await page.getByRole("rowheader", { name: "judge" }).waitFor();
  assert.equal(new URL(page.url()).search, "?by=role&since=7d");
  await page.reload();
  await page.getByRole("rowheader", { name: "judge" }).waitFor();
  await close(page);
});
