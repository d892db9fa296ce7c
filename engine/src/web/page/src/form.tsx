// A form made from a JSON Schema: of a workflow's input, or of the answer that a person owes.

import { useId } from "preact/hooks";
import type { Json, Schema } from "./types";

export type Values = Record<string, string | boolean>;

/** How a field is filled in. */
function kindOf(schema: Schema): "choice" | "switch" | "number" | "text" | "line" | "json" {
  if (schema.enum) return "choice";
  if (schema.type === "boolean") return "switch";
  if (schema.type === "integer" || schema.type === "number") return "number";
  if (schema.type === "string") return schema.maxLength !== undefined && schema.maxLength <= 200 ? "line" : "text";
  return "json";
}

/** What a form begins with: the defaults. */
export function beginning(properties: Record<string, Schema>, given?: { [name: string]: Json }): Values {
  const values: Values = {};
  for (const [name, schema] of Object.entries(properties)) {
    const value = given?.[name] ?? schema.default;
    if (value === undefined || value === null) values[name] = schema.type === "boolean" ? false : "";
    else if (typeof value === "boolean") values[name] = value;
    else values[name] = typeof value === "string" ? value : JSON.stringify(value);
  }
  return values;
}

/** The values as the API takes them. What is left empty is left out unless it is required. */
export function collected(properties: Record<string, Schema>, required: string[], values: Values): { [name: string]: Json } {
  const given: { [name: string]: Json } = {};
  for (const [name, schema] of Object.entries(properties)) {
    const value = values[name];
    const kind = kindOf(schema);
    if (kind === "switch") {
      if (value || required.includes(name) || schema.default !== undefined) given[name] = Boolean(value);
    } else if (value === "" || value === undefined) {
      if (required.includes(name) && (kind === "text" || kind === "line")) given[name] = "";
    } else if (kind === "number") {
      given[name] = Number(value);
    } else if (kind === "json") {
      try {
        given[name] = JSON.parse(String(value));
      } catch {
        throw new Error(`${name}: this is not JSON`);
      }
    } else if (kind === "choice") {
      given[name] = schema.enum!.find((known) => String(known) === value) ?? String(value);
    } else {
      given[name] = String(value);
    }
  }
  return given;
}

function hint(schema: Schema): string {
  const type = Array.isArray(schema.type) ? schema.type.join(" or ") : schema.type;
  const range = [schema.minimum !== undefined && `from ${schema.minimum}`, schema.maximum !== undefined && `to ${schema.maximum}`];
  const of = schema.items?.type ? ` of ${schema.items.type}` : "";
  return [kindOf(schema) === "json" && `JSON: ${type ?? "any"}${of}`, ...range].filter(Boolean).join(" ");
}

export function Fields(props: {
  properties: Record<string, Schema>;
  order?: string[];
  required: string[];
  values: Values;
  onChange: (values: Values) => void;
}) {
  const base = useId();
  const names = props.order ?? Object.keys(props.properties);
  return (
    <>
      {names.map((name) => {
        const schema = props.properties[name];
        if (!schema) return null;
        const id = `${base}-${name}`;
        const value = props.values[name] ?? "";
        const isRequired = props.required.includes(name);
        const set = (next: string | boolean) => props.onChange({ ...props.values, [name]: next });
        const kind = kindOf(schema);
        const told = [schema.description, hint(schema)].filter(Boolean).join(" – ");
        const shared = { id, name, required: isRequired, "aria-describedby": told ? `${id}-told` : undefined };
        return (
          <div class={`field of-${kind}`} key={name}>
            <label for={id}>
              {schema.title ?? name}
              {!isRequired && kind !== "switch" && <span class="optional"> optional</span>}
            </label>
            {kind === "choice" ? (
              <select {...shared} value={String(value)} onChange={(event) => set(event.currentTarget.value)}>
                <option value="">{isRequired ? "choose" : "–"}</option>
                {schema.enum!.map((word) => (
                  <option key={String(word)} value={String(word)}>
                    {String(word)}
                  </option>
                ))}
              </select>
            ) : kind === "switch" ? (
              <input id={id} type="checkbox" checked={Boolean(value)} onChange={(event) => set(event.currentTarget.checked)} />
            ) : kind === "number" ? (
              <input
                {...shared}
                type="number"
                step={schema.type === "integer" ? 1 : "any"}
                min={schema.minimum}
                max={schema.maximum}
                value={String(value)}
                onInput={(event) => set(event.currentTarget.value)}
              />
            ) : kind === "line" ? (
              <input {...shared} value={String(value)} onInput={(event) => set(event.currentTarget.value)} />
            ) : (
              <textarea {...shared} rows={kind === "json" ? 3 : 4} value={String(value)} class={kind === "json" ? "mono" : ""} onInput={(event) => set(event.currentTarget.value)} />
            )}
            {told && (
              <p class="told" id={`${id}-told`}>
                {told}
              </p>
            )}
          </div>
        );
      })}
    </>
  );
}
