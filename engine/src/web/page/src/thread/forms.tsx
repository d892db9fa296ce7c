// The forms that a thread waits for, answered in place.

import { useState } from "preact/hooks";
import { ofThread, post } from "../api";
import { Fields, beginning, collected, type Values } from "../form";
import { moment, who } from "../format";
import type { Form, Json, Schema, Thread } from "../types";
import { Action, ProblemBox } from "../ui";

export function Forms({ thread, onAnswered }: { thread: Thread; onAnswered: () => void }) {
  return (
    <div class="forms">
      {thread.forms.map((form) => (
        <OneForm key={`${form.thread}/${form.role}/${form.lane}/${form.visit}`} form={form} onAnswered={onAnswered} />
      ))}
    </div>
  );
}

function OneForm({ form, onAnswered }: { form: Form; onAnswered: () => void }) {
  const [problem, setProblem] = useState<unknown>(null);
  const answer = (said: object) => post(ofThread(form.thread, "/answer"), { role: form.role, lane: form.lane, ...said }).then(onAnswered);
  const { approval, prompt, expires_at_ms: expires } = form.form;
  const title = `${who(form.role, form.lane)} waits for you`;
  return (
    <section class="form" aria-label={title}>
      <h2>
        {title}
        {expires && <span class="dim"> until {moment(expires)}</span>}
      </h2>
      {approval ? (
        <Approval approval={approval} answer={answer} onProblem={setProblem} />
      ) : (
        <>
          {prompt && <pre class="text">{prompt}</pre>}
          {form.schema && <Statuses schema={form.schema} answer={answer} onProblem={setProblem} />}
        </>
      )}
      <ProblemBox problem={problem} />
    </section>
  );
}

interface Answering {
  answer: (said: object) => Promise<unknown>;
  onProblem: (problem: unknown) => void;
}

/** The arguments of a tool call by name, if they are an object. */
function argumentsOf(text: string): [string, Json][] | null {
  try {
    const value: unknown = JSON.parse(text);
    return value && typeof value === "object" && !Array.isArray(value) ? Object.entries(value) : null;
  } catch {
    return null;
  }
}

function Approval({ approval, answer, onProblem }: { approval: NonNullable<Form["form"]["approval"]> } & Answering) {
  const [why, setWhy] = useState("");
  const named = argumentsOf(approval.arguments);
  return (
    <>
      <p>
        It wants to call <code>{approval.tool}</code> with
      </p>
      {named ? (
        <dl class="fields">
          {named.map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd class="mono">{typeof value === "string" ? value : JSON.stringify(value)}</dd>
            </div>
          ))}
        </dl>
      ) : (
        <pre class="mono">{approval.arguments}</pre>
      )}
      <div class="field">
        <label for="why">
          Why not<span class="optional"> the role reads it when you refuse</span>
        </label>
        <input id="why" type="text" value={why} onInput={(event) => setWhy(event.currentTarget.value)} />
      </div>
      <div class="buttons">
        <Action label="Allow" kind="primary" run={() => answer({ approve: true })} onProblem={onProblem} />
        <Action label="Refuse" kind="danger" run={() => answer({ approve: false, why })} onProblem={onProblem} />
      </div>
    </>
  );
}

/** A status, then its fields and the text. */
function Statuses({ schema, answer, onProblem }: { schema: Schema } & Answering) {
  const all = schema.oneOf ?? [];
  const [chosen, setChosen] = useState(0);
  const [values, setValues] = useState<Values>({});
  const [body, setBody] = useState("");
  const [isBusy, setBusy] = useState(false);
  const { status, body: _, ...properties } = all[chosen]?.properties ?? {};
  const required = all[chosen]?.required ?? [];
  const filled = { ...beginning(properties, required), ...values };
  const word = String(status?.const ?? "");
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    onProblem(null);
    try {
      await answer({ status: word, fields: collected(properties, required, filled), body });
    } catch (problem) {
      onProblem(problem);
    }
    setBusy(false);
  };
  return (
    <form onSubmit={submit}>
      <div class="statuses" role="radiogroup" aria-label="Answer">
        {all.map((one, index) => (
          <label key={index} class={index === chosen ? "chosen" : ""}>
            <input type="radio" name="status" checked={index === chosen} onChange={() => setChosen(index)} />
            {String(one.properties?.status?.const)}
          </label>
        ))}
      </div>
      <Fields properties={properties} required={required} values={filled} onChange={setValues} />
      <div class="field">
        <label for="body">
          Text<span class="optional"> optional</span>
        </label>
        <textarea id="body" rows={3} value={body} onInput={(event) => setBody(event.currentTarget.value)} />
      </div>
      <button type="submit" class="primary" disabled={isBusy}>
        Answer: {word}
      </button>
    </form>
  );
}
