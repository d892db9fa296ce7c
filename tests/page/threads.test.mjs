// The list of threads, and the keyboard.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { close, launch, open } from "./support/browser.mjs";
import { Server, TOKEN } from "./support/server.mjs";

let server, browser, signed, done;
before(async () => {
  [server, browser] = await Promise.all([Server.start(), launch()]);
  done = await server.finished("markup", {}, { label: "first one", tags: ["red"] });
  signed = await server.begin("letter", { to: "Ada Lovelace" }, { label: "to ada" });
  await server.until(signed, "waiting");
});
after(async () => {
  await browser.close();
  await server.stop();
});

const rows = (page) => page.getByRole("table").getByRole("row");

test("the list is filtered by status, workflow and words, and the address keeps the filter", async () => {
  const page = await open(browser, server);
  await page.getByText("first one").waitFor();
  assert.equal(await rows(page).count(), 3);
  await page.getByLabel("Status").selectOption("waiting");
  await page.getByText("first one").waitFor({ state: "detached" });
  await page.getByText("to ada").waitFor();
  await page.reload();
  await page.getByText("to ada").waitFor();
  assert.equal(await rows(page).count(), 2);
  await page.getByLabel("Status").selectOption("");
  await page.getByRole("searchbox").fill("red");
  await page.getByText("to ada").waitFor({ state: "detached" });
  await page.getByText("first one").waitFor();
  // Inputs are searched too.
  await page.getByRole("searchbox").fill("lovelace");
  await page.getByText("first one").waitFor({ state: "detached" });
  await page.getByText("to ada").waitFor();
  await close(page);
});

test("a thread that starts elsewhere appears by itself", async () => {
  const page = await open(browser, server);
  await page.getByText("first one").waitFor();
  await server.begin("markup", {}, { label: "a later one" });
  await page.getByText("a later one").waitFor();
  await close(page);
});

test("everything can be reached by keys", async () => {
  const page = await open(browser, server);
  await page.getByText("first one").waitFor();
  await page.keyboard.press("/");
  await page.keyboard.type("first one");
  await page.getByText("to ada").waitFor({ state: "detached" });
  await page.keyboard.press("Escape");
  await page.keyboard.press("Enter");
  await page.waitForURL(`${server.address}/t/${done}`);
  await page.getByRole("option").first().waitFor();
  await page.keyboard.press("j");
  await page.waitForURL(`${server.address}/t/${done}/s/1`);
  await page.getByRole("tab", { name: "Answer" }).waitFor();
  await page.keyboard.press("Escape");
  await page.waitForURL(`${server.address}/t/${done}`);
  await page.keyboard.press("?");
  const sheet = page.getByRole("dialog", { name: "Keys" });
  await sheet.waitFor();
  await page.keyboard.press("Escape");
  await sheet.waitFor({ state: "hidden" });
  await page.goBack();
  await page.getByText("first one").waitFor();
  await close(page);
});

test("the keyboard alone starts a thread, and focus is always seen", async () => {
  const page = await open(browser, server, { path: "/start/markup" });
  await page.getByRole("heading", { name: "markup", level: 1 }).waitFor();
  const offline = page.getByLabel(/Offline/);
  for (let presses = 0; !(await offline.evaluate((field) => field === document.activeElement)); presses += 1) {
    assert(presses < 60, "the switch is not in the tab order");
    await page.keyboard.press("Tab");
    const outline = await page.evaluate(() => {
      const { outlineStyle, outlineWidth } = getComputedStyle(document.activeElement);
      return document.activeElement === document.body || (outlineStyle !== "none" && outlineWidth !== "0px");
    });
    assert(outline, `focus is not seen after ${presses + 1} presses`);
  }
  await page.keyboard.press("Space");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/t\/[0-9a-z]{26}$/);
  await page.getByRole("heading", { level: 1 }).getByText("done").waitFor();
  await close(page);
});

test("without a session the page asks for the token; a code opens it once, and leaves the address", async () => {
  const context = await browser.newContext();
  const page = await context.newPage();
  await page.goto(server.address);
  const field = page.getByLabel("Token");
  await field.fill("not-the-token-of-this-server");
  await page.keyboard.press("Enter");
  await page.getByRole("alert").waitFor();
  await field.fill(TOKEN);
  await page.keyboard.press("Enter");
  await page.getByText("first one").waitFor();
  assert.equal(await page.evaluate(() => document.cookie), "");
  await context.close();

  const code = new URL(server.page).hash;
  const other = await browser.newContext();
  const opened = await other.newPage();
  await opened.goto(`${server.address}/t/${done}${code}`);
  await opened.getByRole("option").first().waitFor();
  assert.equal(new URL(opened.url()).hash, "");
  await opened.reload();
  await opened.getByRole("option").first().waitFor();
  // The address again: this browser keeps its session, another one begins none.
  await opened.goto(`${server.address}/t/${done}${code}`);
  await opened.getByRole("option").first().waitFor();
  await other.close();
  const third = await browser.newContext();
  const refused = await third.newPage();
  await refused.goto(`${server.address}/t/${done}${code}`);
  await refused.getByLabel("Token").waitFor();
  await third.close();
});
