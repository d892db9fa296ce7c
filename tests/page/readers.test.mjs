// People who listen to the page, and narrow screens.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { close, faultsForReaders, launch, open } from "./support/browser.mjs";
import { Server } from "./support/server.mjs";

let server, browser, views;
before(async () => {
  [server, browser] = await Promise.all([Server.start(), launch()]);
  const thread = await server.finished("readers", { text: "A text." }, { label: "a name", tags: ["tag"] });
  const other = await server.finished("readers", { text: "Another text." });
  const waiting = await server.begin("letter", { to: "Ada" });
  await server.until(waiting, "waiting");
  const approval = await server.begin("deploy");
  await server.until(approval, "waiting");
  const stopped = await server.begin("relay", {}, { limits: { steps: 2 } });
  await server.until(stopped, "stopped");
  const batch = await server.batch("readers", [{ text: "A." }, { text: "B." }, {}]);
  views = {
    threads: "/",
    "start, nothing chosen": "/start",
    start: "/start/readers",
    thread: `/t/${thread}`,
    step: `/t/${thread}/s/4`,
    "thread that waits": `/t/${waiting}`,
    "thread that waits for approval": `/t/${approval}`,
    "thread that stopped": `/t/${stopped}`,
    prefix: `/t/${thread}/prefix`,
    compare: `/compare/${thread}/${other}`,
    batches: "/batches",
    batch: `/batches/${batch}`,
    totals: "/totals?by=model",
    "no such thread": "/t/01k9b6x2e0q8v3m5n7p9r1t4wz",
  };
});
after(async () => {
  await browser.close();
  await server.stop();
});

/** Waits until the view stands: it has its heading and no part of it is still being read. */
async function settled(page) {
  await page.waitForFunction(() => document.querySelector("main, [role=alert]") && !document.querySelector("[aria-busy=true]"));
  await page.waitForLoadState("load");
  await page.waitForTimeout(150);
}

for (const theme of ["light", "dark"]) {
  test(`axe finds nothing in ${theme}`, async () => {
    const page = await open(browser, server, { theme });
    const faults = {};
    for (const [name, path] of Object.entries(views)) {
      await page.goto(server.address + path);
      await settled(page);
      const found = await faultsForReaders(page);
      if (found.length > 0) faults[name] = found;
      for (const tab of await page.getByRole("tab").all()) {
        await tab.click();
        await settled(page);
        const inTab = await faultsForReaders(page);
        if (inTab.length > 0) faults[`${name}, ${await tab.innerText()}`] = inTab;
      }
    }
    await page.goto(server.address);
    await page.getByRole("button", { name: "Keys" }).click();
    const inSheet = await faultsForReaders(page);
    if (inSheet.length > 0) faults.keys = inSheet;
    await page.goto(server.address + views.step);
    await page.getByRole("button", { name: "Fork here" }).click();
    for (const way of await page.getByRole("dialog").getByRole("radio").all()) {
      await way.check();
      const inForm = await faultsForReaders(page);
      if (inForm.length > 0) faults.fork = inForm;
    }
    assert.deepEqual(faults, {});
    await close(page);
  });
}

test("no view scrolls sideways at 360 pixels", async () => {
  const page = await open(browser, server, { width: 360, height: 740 });
  const wide = {};
  for (const [name, path] of Object.entries(views)) {
    await page.goto(server.address + path);
    await settled(page);
    for (const tab of [null, ...(await page.getByRole("tab").all())]) {
      await tab?.click();
      await settled(page);
      const width = await page.evaluate(() => document.documentElement.scrollWidth);
      if (width > 360) wide[name] = width;
    }
  }
  assert.deepEqual(wide, {});
  await close(page);
});
