// The forms that a thread waits for, answered in place.

import { useEffect, useId, useState } from "preact/hooks";
import { ofThread, post } from "../api";
import { Fields, beginning, collected, type Values } from "../form";
import { moment, who } from "../format";
import type { Form, Schema, Thread } from "../types";
import { Action, ProblemBox } from "../ui";

/** How long a form's buttons are dead when it has just come: a click that was meant for what stood there before is none. */
const FRESH_MS = 600;

export function Forms({ thread, onAnswered }: { thread: Thread; onAnswered: () => void }) {
  // Of all forms, because one that is answered too late has gone when its problem is told.
  const [problem, setProblem] = useState<unknown>(null);
  return (
    <div class="forms">
      <ProblemBox problem={problem} />
      {thread.forms.map((form) => (
        <OneForm key={form.digest} form={form} onAnswered={onAnswered} onProblem={setProblem} />
      ))}
    </div>
  );
}

interface OneFormProps {
  form: Form;
  onAnswered: () => void;
  onProblem: (problem: unknown) => void;
}

function OneForm({ form, onAnswered, onProblem }: OneFormProps) {
  const [isFresh, setFresh] = useState(true);
  useEffect(() => {
    const timer = setTimeout(() => setFresh(false), FRESH_MS);
    return () => clearTimeout(timer);
  }, []);
  // Whatever the server says of the answer, what stands now is read again.
  const answer = (said: object) => post(ofThread(form.thread, "/answer"), { form: form.digest, ...said }).finally(onAnswered);
  const { prompt, expires_at_ms: expires } = form.form;
  const { call } = form;
  const title = `${who(form.role, form.lane)} waits for you`;
  return (
    <section class="form" aria-label={title}>
      <h2>
        {title}
        {expires && <span class="dim"> until {moment(expires)}</span>}
      </h2>
      {call ? (
        <Approval call={call} isFresh={isFresh} answer={answer} onProblem={onProblem} />
      ) : (
        <>
          {prompt && <pre class="text">{prompt}</pre>}
          {form.schema && <Statuses schema={form.schema} isFresh={isFresh} answer={answer} onProblem={onProblem} />}
        </>
      )}
    </section>
  );
}

interface Answering {
  /** Whether the form has just come. */
  isFresh: boolean;
  answer: (said: object) => Promise<unknown>;
  onProblem: (problem: unknown) => void;
}

function Approval({ call, isFresh, answer, onProblem }: { call: NonNullable<Form["call"]> } & Answering) {
  const [why, setWhy] = useState("");
  const [typed, setTyped] = useState("");
  const isTyped = call.word === null || typed.trim() === call.word;
  const base = useId();
  return (
    <>
      <p>
        It wants to call <code>{call.tool}</code> {call.arguments ? "with" : "without arguments"}
      </p>
      {call.arguments && <pre class="mono text">{call.arguments}</pre>}
      {call.word && (
        <div class="field">
          <label for={`${base}-word`}>
            Type <code>{call.word}</code> to allow it
          </label>
          <input id={`${base}-word`} type="text" autocomplete="off" value={typed} onInput={(event) => setTyped(event.currentTarget.value)} />
        </div>
      )}
      <div class="field">
        <label for={`${base}-why`}>
          Why not<span class="optional"> the role reads it when you refuse</span>
        </label>
        <input id={`${base}-why`} type="text" value={why} onInput={(event) => setWhy(event.currentTarget.value)} />
      </div>
      <div class="buttons">
        <Action label="Allow" kind="primary" disabled={isFresh || !isTyped} run={() => answer({ approve: true })} onProblem={onProblem} />
        <Action label="Refuse" kind="danger" disabled={isFresh} run={() => answer({ approve: false, why })} onProblem={onProblem} />
      </div>
    </>
  );
}

/** A status, of which none is chosen for a person; then its fields and the text, which stay when another one is chosen. */
function Statuses({ schema, isFresh, answer, onProblem }: { schema: Schema } & Answering) {
  const all = schema.oneOf ?? [];
  const [chosen, setChosen] = useState(-1);
  const [values, setValues] = useState<Values>({});
  const [body, setBody] = useState("");
  const [isBusy, setBusy] = useState(false);
  const base = useId();
  const isChosen = chosen >= 0;
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
      {isChosen && (
        <>
          <Fields properties={properties} required={required} values={filled} onChange={setValues} />
          <div class="field">
            <label for={`${base}-body`}>
              Text<span class="optional"> optional</span>
            </label>
            <textarea id={`${base}-body`} rows={3} value={body} onInput={(event) => setBody(event.currentTarget.value)} />
          </div>
        </>
      )}
      <button type="submit" class="primary" disabled={isBusy || isFresh || !isChosen}>
        {isChosen ? `Answer: ${word}` : "Answer"}
      </button>
    </form>
  );
}
