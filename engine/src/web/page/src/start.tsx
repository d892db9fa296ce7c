// Starts a thread: a workflow, its graph, and a form made from its input.

import { useEffect, useState } from "preact/hooks";
import { get, post } from "./api";
import { Fields, beginning, collected, type Values } from "./form";
import { Graph } from "./graph";
import { go } from "./router";
import type { Picture, Thread, Workflow, WorkflowDetails } from "./types";
import { Copy, Link, ProblemBox, useLoaded } from "./ui";

export function Start({ workflow }: { workflow: string | null }) {
  const [list, problem] = useLoaded((signal) => get<{ workflows: Workflow[] }>("/workflows", signal), "");
  const own = list?.workflows.filter((one) => one.origin === "folder") ?? [];
  const shipped = list?.workflows.filter((one) => one.origin === "shipped") ?? [];
  const group = (title: string, all: Workflow[]) =>
    all.length > 0 && (
      <section>
        <h2>{title}</h2>
        <ul>
          {all.map((one) => (
            <li key={one.name}>
              <Link to={`/start/${encodeURIComponent(one.name)}`} class={one.name === workflow ? "chosen" : ""} {...(one.name === workflow ? { "aria-current": "page" as const } : {})}>
                <strong>{one.name}</strong>
                <span>{one.faults.length > 0 ? `${one.faults.length} faults` : one.about}</span>
              </Link>
            </li>
          ))}
        </ul>
      </section>
    );
  return (
    <main class="start">
      <nav class="workflows" aria-label="Workflows">
        <ProblemBox problem={problem} />
        {group("In this folder", own)}
        {group("Shipped with rondo", shipped)}
      </nav>
      <div class="chosen-workflow">
        {workflow ? <StartForm key={workflow} name={workflow} /> : <p class="empty">Choose a workflow to start.</p>}
      </div>
    </main>
  );
}

function StartForm({ name }: { name: string }) {
  const path = `/workflows/${encodeURIComponent(name)}`;
  const [details, problem] = useLoaded((signal) => get<WorkflowDetails>(path, signal), name);
  const [picture] = useLoaded((signal) => get<Picture>(`${path}/graph`, signal), name);
  const [values, setValues] = useState<Values>({});
  const [label, setLabel] = useState("");
  const [isOffline, setOffline] = useState(false);
  const [isBusy, setBusy] = useState(false);
  const [refusal, setRefusal] = useState<unknown>(null);
  // A repeated click or a lost answer starts nothing twice; a changed form is another request.
  const [key, setKey] = useState(() => crypto.randomUUID());
  useEffect(() => {
    if (details) setValues(beginning(details.input.properties ?? {}));
  }, [details]);
  useEffect(() => setKey(crypto.randomUUID()), [values, label, isOffline]);
  if (problem) return <ProblemBox problem={problem} />;
  if (!details) return null;
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
    <>
      <header>
        <h1>{details.name}</h1>
        {details.about && <p class="about">{details.about}</p>}
        {details.file && <p class="id">{details.file}</p>}
      </header>
      <div class="columns">
        <form onSubmit={submit} aria-label={`Start ${details.name}`}>
          {!details.consent.is_given && (
            <div class="problem">
              <p>This workflow asks for more than you have agreed to. Look at it and agree in a terminal:</p>
              <p>
                <code>{details.consent.command}</code> <Copy text={details.consent.command ?? ""} label="Copy" />
              </p>
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
            <div class="field of-switch">
              <label for="offline">Offline: its script answers, no model is asked</label>
              <input id="offline" type="checkbox" checked={isOffline} onChange={(event) => setOffline(event.currentTarget.checked)} />
            </div>
          )}
          <ProblemBox problem={refusal} />
          <p>
            <button type="submit" class="primary" disabled={isBusy}>
              Start
            </button>
          </p>
        </form>
        {picture && (
          <div class="picture" tabIndex={0} role="region" aria-label="Graph">
            <Graph picture={picture} hasHooks={false} marks={null} />
          </div>
        )}
      </div>
    </>
  );
}
