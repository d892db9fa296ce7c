// A thread of many steps, made by two roles that write to each other.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const WORKFLOW = `rondo: 1
name: long
roles:
  writer: { system: Write the next paragraph., output: { drafted: { title: string } } }
  editor: { system: Ask for the next one., output: { more: { wish: string }, enough: {} } }
graph:
  start: { to: writer, prompt: Begin. }
  writer:
    drafted: { to: editor, prompt: "{{ body }}" }
  editor:
    more: { to: writer, prompt: "{{ output.wish }}", max: 5000, on_max: { to: end } }
    enough: { to: end }
limits: { steps: 20000, tokens: 900000000 }
`;

/** Runs a thread of `steps` steps, an even number, to its end; gives its id. */
export async function longThread(server, steps) {
  const folder = join(server.work, "workflows", "long");
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "workflow.yaml"), WORKFLOW);
  const visits = Array.from({ length: steps / 2 }, (_, index) => index + 1);
  const text = "It continues for a while and says what happens next. ".repeat(8).trim();
  const drafts = visits.map((visit) => `  - { status: drafted, fields: { title: Part ${visit} }, body: "Part ${visit}. ${text}" }`);
  const wishes = visits.map((visit) =>
    visit < visits.length ? `  - { status: more, fields: { wish: "What follows part ${visit}?" } }` : "  - { status: enough }",
  );
  writeFileSync(join(folder, "script.yaml"), ["writer:", ...drafts, "editor:", ...wishes, ""].join("\n"));
  return server.finished("long");
}
