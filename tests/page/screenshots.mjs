// Makes the README's pictures of the page from real runs of shipped workflows: `make screenshots`.

import { cpSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { launch, open } from "./support/browser.mjs";
import { ROOT, Server } from "./support/server.mjs";

const TO = join(ROOT, "engine/docs");
const SIZE = { width: 1280, height: 720 };

const inputOf = (workflow) => JSON.parse(readFileSync(join(ROOT, "workflows", workflow, "input.json"), "utf8"));

/** A copy of a shipped workflow whose models take a while, so that its run can be seen. */
function slowed(server, workflow) {
  const folder = join(server.work, "workflows", workflow);
  cpSync(join(ROOT, "workflows", workflow), folder, { recursive: true });
  const script = join(folder, "script.yaml");
  const text = readFileSync(script, "utf8");
  writeFileSync(
    script,
    text.replace(/^( *)- (?=status:|raw:)/gm, "$1- delay_ms: 2500\n$1  ").replace(/- \{ (?=status:)/g, "- { delay_ms: 2500, "),
  );
}

const [server, browser] = await Promise.all([Server.start(), launch()]);
const shot = async (name, path, prepare = async () => {}) => {
  const page = await open(browser, server, { path, ...SIZE });
  await prepare(page);
  await page.waitForTimeout(600);
  await page.screenshot({ path: join(TO, `page-${name}.png`) });
  await page.context().close();
  console.log(`engine/docs/page-${name}.png`);
};

const loop = await server.finished("review-loop", { topic: "tide pools" }, { label: "pools", tags: ["article"] });
await server.finished("panel", inputOf("panel"), { tags: ["docs"] });
await server.finished("debate", inputOf("debate"));
await server.until(await server.begin("triage", inputOf("triage"), { label: "crash on resume" }), "waiting", "done");
slowed(server, "map-files");
const live = await server.begin("map-files", inputOf("map-files"), { label: "review of a change" });

await shot("live", `/t/${live}`, async (page) => {
  await page.getByText("reviewer[1]").first().waitFor();
});
await shot("threads", "/");
await shot("request", `/t/${loop}/s/5`, async (page) => {
  await page.getByRole("tab", { name: "Request" }).click();
  await page.getByText("new", { exact: true }).first().waitFor();
});
await shot("prefix", `/t/${loop}/prefix`);
await browser.close();
await server.stop();
