// What other sites and other programs may try on a server of this machine.

import assert from "node:assert/strict";
import { createServer, request } from "node:http";
import { after, before, test } from "node:test";
import { launch, open } from "./support/browser.mjs";
import { Server, TOKEN } from "./support/server.mjs";

let server, browser, thread;
before(async () => {
  [server, browser] = await Promise.all([Server.start(), launch()]);
  thread = await server.finished("markup");
});
after(async () => {
  await browser.close();
  await server.stop();
});

/** The status of a request whose path and headers are sent as they are given. */
const status = (path, { method = "GET", headers = {}, body } = {}) =>
  new Promise((done, failed) => {
    const asked = request({ host: "127.0.0.1", port: server.port, path, method, headers }, (response) => {
      response.resume();
      done(response.statusCode);
    });
    asked.on("error", failed);
    asked.end(body);
  });

const bearer = { Authorization: `Bearer ${TOKEN}` };

test("a name that somebody else points here is refused", async () => {
  const headers = { ...bearer, Host: `evil.example:${server.port}` };
  assert.equal(await status("/", { headers }), 421);
  assert.equal(await status("/api/v1/threads", { headers }), 421);
});

test("a token in a query opens nothing", async () => {
  assert.equal(await status(`/api/v1/threads?token=${TOKEN}`), 401);
  assert.equal(await status("/api/v1/threads"), 401);
});

test("paths that climb or hide their slashes reach no file and no other route", async () => {
  for (const path of [
    "/../../etc/passwd",
    "/assets/..%2f..%2fCargo.toml",
    "/assets/%2e%2e/page.js",
    "/api/v1/threads/..%2f..",
    "/errors/..%2fRN1401",
  ]) {
    const answer = await fetch(server.address + path, { headers: bearer });
    const text = await answer.text();
    assert(answer.status >= 400 || text.startsWith("<!doctype html>"), `${path}: ${answer.status}`);
    assert(!text.includes("root:") && !text.includes("[workspace]"), path);
  }
});

test("a form of another site changes nothing, though the browser has a session", async () => {
  const target = `${server.address}/api/v1/threads/${thread}/fork`;
  const site = createServer((_, response) => {
    response.setHeader("Content-Type", "text/html");
    response.end(`<form method=post enctype=text/plain action="${target}"><input name='{"at":1,"x":"' value='"}'></form>`);
  });
  await new Promise((done) => site.listen(0, "localhost", done));
  const address = `http://localhost:${site.address().port}/`;
  const page = await open(browser, server);
  try {
    const count = (await server.api("/threads")).threads.length;
    // Its scripts may not read.
    await page.goto(address);
    const read = (path) => fetch(path, { credentials: "include" }).then((response) => response.text(), String);
    assert.match(await page.evaluate(read, `${server.address}/api/v1/threads`), /Failed to fetch/);
    const [answer] = await Promise.all([page.waitForResponse(target), page.evaluate(() => document.forms[0].submit())]);
    assert.equal(answer.status(), 403);
    assert.equal((await server.api("/threads")).threads.length, count);
  } finally {
    await page.context().close();
    site.closeAllConnections();
    await new Promise((done) => site.close(done));
  }
});

test("the page may be framed by nobody and runs nothing inline", async () => {
  const answer = await fetch(server.address);
  const policy = answer.headers.get("content-security-policy");
  assert.match(policy, /default-src 'self'/);
  assert.match(policy, /frame-ancestors 'none'/);
  assert.doesNotMatch(policy, /unsafe/);
  const html = await answer.text();
  assert.doesNotMatch(html, /<script(?![^>]*\bsrc=)|<style|\bon[a-z]+=|\bstyle=/i);
});
