// A headless Chromium, and pages that are logged in and report everything that a browser complains about.

import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { delimiter, join } from "node:path";
import { chromium } from "playwright-core";
import { TOKEN } from "./server.mjs";

const NAMES = ["chromium", "chromium-browser", "google-chrome"];
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const ARGUMENTS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** The browser that `CHROMIUM` names, or the system's. */
export async function launch() {
  const found = (process.env.PATH ?? "").split(delimiter).flatMap((folder) => NAMES.map((name) => join(folder, name)));
  const executablePath = process.env.CHROMIUM ?? found.find(existsSync);
  assert(executablePath, "no Chromium: install it, or name its program with CHROMIUM");
  return chromium.launch({ executablePath, headless: true, args: ARGUMENTS });
}

/**
 * A page of its own browser profile that has a session with `server`. `page.complaints` collects uncaught errors, errors
 * of the console and refusals of the content security policy; what a lost server causes is no complaint.
 */
export async function open(browser, server, { path = "/", width = 1280, height = 800, theme = "light" } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: theme, reducedMotion: "reduce" });
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  await context.addInitScript(() => {
    window.refusals = [];
    addEventListener("securitypolicyviolation", (event) => window.refusals.push(`${event.violatedDirective} ${event.blockedURI}`));
  });
  const page = await context.newPage();
  page.setDefaultTimeout(10_000);
  page.complaints = [];
  page.on("pageerror", (error) => page.complaints.push(error.stack ?? error.message));
  page.on("console", (message) => {
    const isNetwork = message.text().startsWith("Failed to load resource");
    if (message.type() === "error" && !isNetwork) page.complaints.push(message.text());
  });
  const { session } = await server.api("/session", { method: "POST", body: { token: TOKEN } });
  await context.addInitScript((key) => localStorage.getItem("rondo-session") ?? localStorage.setItem("rondo-session", key), session);
  await page.goto(server.address + path);
  await page.getByRole("navigation").first().waitFor();
  return page;
}

/** Closes a page; fails if the browser complained. */
export async function close(page) {
  const refusals = page.isClosed() ? [] : await page.evaluate(() => window.refusals);
  await page.context().close();
  assert.deepEqual([...page.complaints, ...refusals], []);
}

/** What axe finds in the page as it stands: nothing, or a list for people. */
export async function faultsForReaders(page) {
  // By the debugger, which no policy of the page concerns.
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  return violations.flatMap((rule) => rule.nodes.map((node) => `${rule.id}: ${node.target.join(" ")}: ${node.failureSummary}`));
}
