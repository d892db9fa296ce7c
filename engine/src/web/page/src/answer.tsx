// The forms that a thread waits for, answered in place.

import { useState } from "preact/hooks";
import { post } from "./api";
import { Fields, beginning, collected, type Values } from "./form";
import { who } from "./format";
import type { Form, Schema, Thread } from "./types";
import { Action, ProblemBox } from "./ui";

export function Forms({ thread, onAnswered }: { thread: Thread; onAnswered: () => void }) {
  return (
    <div class="forms">
      {thread.forms.map((form) => (
        <FormOf key={`${form.thread}${form.role}${form.lane}${form.visit}`} form={form} onAnswered={onAnswered} />
      ))}
    </div>
  );
}

function FormOf({ form, onAnswered }: { form: Form; onAnswered: () => void }) {
  const [problem, setProblem] = useState<unknown>(null);
  const answer = (said: object) =>
    post(`/threads/${form.thread}/answer`, { role: form.role, lane: form.lane, ...said }).then(onAnswered);
  const { approval, prompt } = form.form;
  return (
    <section class="form" aria-label={`${who(form.role, form.lane)} waits for you`}>
      <h2>{who(form.role, form.lane)} waits for you</h2>
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

function Approval({ approval, answer, onProblem }: { approval: NonNullable<Form["form"]["approval"]> } & Answering) {
  const [why, setWhy] = useState("");
  return (
    <>
      <p>
        May <code>{approval.tool}</code> be called?
      </p>
      <pre class="mono">{approval.arguments}</pre>
      <div class="field">
        <label for="why">
          Why not<span class="optional"> the role reads it</span>
        </label>
        <input id="why" value={why} onInput={(event) => setWhy(event.currentTarget.value)} />
      </div>
      <p class="buttons">
        <Action label="Allow" kind="primary" run={() => answer({ approve: true })} onProblem={onProblem} />
        <Action label="Refuse" kind="danger" run={() => answer({ approve: false, why })} onProblem={onProblem} />
      </p>
    </>
  );
}

/** A status, then its fields and the body. */
function Statuses({ schema, answer, onProblem }: { schema: Schema } & Answering) {
  const all = schema.oneOf ?? [];
  const [chosen, setChosen] = useState(0);
  const [values, setValues] = useState<Values>({});
  const [body, setBody] = useState("");
  const { status, body: _, ...properties } = all[chosen]?.properties ?? {};
  const required = all[chosen]?.required ?? [];
  const send = () => answer({ status: status?.const, fields: collected(properties, required, { ...beginning(properties), ...values }), body });
  return (
    <>
      <div class="statuses" role="radiogroup" aria-label="Answer">
        {all.map((one, index) => (
          <label key={index} class={index === chosen ? "chosen" : ""}>
            <input type="radio" name="status" checked={index === chosen} onChange={() => setChosen(index)} />
            {String(one.properties?.status?.const)}
          </label>
        ))}
      </div>
      <Fields properties={properties} required={required} values={{ ...beginning(properties), ...values }} onChange={setValues} />
      <div class="field">
        <label for="body">
          Text<span class="optional"> optional</span>
        </label>
        <textarea id="body" rows={4} value={body} onInput={(event) => setBody(event.currentTarget.value)} />
      </div>
      <Action label={`Answer: ${String(status?.const ?? "")}`} kind="primary" run={send} onProblem={onProblem} />
    </>
  );
}
