// Starts a thread: a workflow, its graph, and a form made from its input.

import { useEffect, useRef, useState } from "preact/hooks";
import { get, post } from "./api";
import { Fields, beginning, collected, type Values } from "./form";
import { many } from "./format";
import { Graph } from "./graph/graph";
import { useLoaded } from "./hooks";
import { go } from "./router";
import type { Picture, Thread, Workflow, WorkflowDetails } from "./types";
import { Command, Empty, Link, ProblemBox, Reading, WithCode } from "./ui";

export function Start({ workflow }: { workflow: string | null }) {
  const { value: list, problem } = useLoaded((signal) => get<{ workflows: Workflow[] }>("/workflows", signal), "");
  const menu = useRef<HTMLElement>(null);
  useEffect(() => menu.current!.querySelector(".chosen")?.scrollIntoView({ block: "nearest" }), [list, workflow]);
  const of = (origin: Workflow["origin"]) => list?.workflows.filter((one) => one.origin === origin) ?? [];
  return (
    <main class={`start ${workflow ? "has-chosen" : ""}`}>
      <nav class="workflows" aria-label="Workflows" ref={menu}>
        <ProblemBox problem={problem} />
        {!list && !problem && <Reading what="workflows" />}
        <Group title="In this folder" workflows={of("folder")} chosen={workflow} />
        <Group title="Shipped with rondo" workflows={of("shipped")} chosen={workflow} />
      </nav>
      {workflow ? (
        <StartForm key={workflow} name={workflow} />
      ) : (
        <section class="chosen-workflow">
          <h1>Start a thread</h1>
          <Empty title="Choose a workflow.">
            <p>
              Workflows are found below <code>workflows/</code> of the folder that <code>rondo serve</code> was started in.
            </p>
          </Empty>
        </section>
      )}
    </main>
  );
}

function Group({ title, workflows, chosen }: { title: string; workflows: Workflow[]; chosen: string | null }) {
  if (workflows.length === 0) return null;
  return (
    <section>
      <h2>{title}</h2>
      <ul>
        {workflows.map((one) => (
          <li key={one.name}>
            <Link
              to={`/start/${encodeURIComponent(one.name)}`}
              class={one.name === chosen ? "chosen" : ""}
              current={one.name === chosen ? "page" : undefined}
            >
              <strong>{one.name}</strong>
              {one.faults.length > 0 ? <span class="bad">{many(one.faults.length, "fault")}</span> : <span>{one.about}</span>}
            </Link>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** A new key for each request that is not a repetition. */
function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function StartForm({ name }: { name: string }) {
  const path = `/workflows/${encodeURIComponent(name)}`;
  const { value: details, problem } = useLoaded((signal) => get<WorkflowDetails>(path, signal), name);
  const { value: picture } = useLoaded((signal) => get<Picture>(`${path}/graph`, signal), name);
  const [values, setValues] = useState<Values>({});
  const [label, setLabel] = useState("");
  const [isOffline, setOffline] = useState(false);
  const [isBusy, setBusy] = useState(false);
  const [refusal, setRefusal] = useState<unknown>(null);
  // A repeated click or a lost answer starts nothing twice; a changed form is another request.
  const [key, setKey] = useState(newKey);
  useEffect(() => {
    if (details) setValues(beginning(details.input.properties ?? {}, details.input.required));
  }, [details]);
  useEffect(() => setKey(newKey()), [values, label, isOffline]);
  if (problem || !details) {
    return (
      <section class="chosen-workflow">
        <h1>{name}</h1>
        <ProblemBox problem={problem} />
        {!problem && <Reading what="the workflow" />}
      </section>
    );
  }
  const properties = details.input.properties ?? {};
  const required = details.input.required ?? [];
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setRefusal(null);
    try {
      const input = collected(properties, required, values);
      const body = { workflow: name, input, offline: isOffline, label: label.trim() || null };
      const thread = await post<Thread>("/threads", body, key);
      go(`/t/${thread.thread}`);
    } catch (found) {
      setRefusal(found);
      setBusy(false);
    }
  };
  return (
    <section class="chosen-workflow">
      <header class="head">
        <h1>{details.name}</h1>
        {details.about && (
          <p class="about">
            <WithCode text={details.about} />
          </p>
        )}
        {details.file && <p class="id">{details.file}</p>}
      </header>
      {picture && <Graph picture={picture} />}
      <form class="panel" onSubmit={submit} aria-label={`Start ${details.name}`}>
        {!details.consent.is_given && (
          <div class="notice">
            <p>This workflow asks for more than you have agreed to. Look at what it asks for, and agree, in a terminal:</p>
            <Command text={details.consent.command ?? "rondo trust"} />
          </div>
        )}
        <Fields properties={properties} order={details.inputs} required={required} values={values} onChange={setValues} />
        <div class="field">
          <label for="label">
            Name of the thread<span class="optional"> optional</span>
          </label>
          <input id="label" type="text" maxLength={80} value={label} onInput={(event) => setLabel(event.currentTarget.value)} />
        </div>
        {details.has_script && (
          <div class="field switch">
            <input id="offline" type="checkbox" checked={isOffline} onChange={(event) => setOffline(event.currentTarget.checked)} />
            <label for="offline">
              Offline<span class="optional"> its script answers, no model is asked</span>
            </label>
          </div>
        )}
        <ProblemBox problem={refusal} />
        <button type="submit" class="primary" disabled={isBusy}>
          Start
        </button>
      </form>
    </section>
  );
}
