// A form made from a JSON Schema: of a workflow's input, or of the answer that a person owes.

import { useId } from "preact/hooks";
import type { Json, Schema } from "./types";

/** What stands in the fields, by name. */
export type Values = Record<string, string | boolean>;

/**
 * How a field is filled in. An optional boolean is a choice of three, because leaving it out may mean something else than
 * `false`. A `list` of texts has one item a line; `json` is what no other kind fits.
 */
type Kind = "choice" | "switch" | "number" | "text" | "line" | "list" | "file" | "json";

/** From how many characters on a text gets several lines. */
const LONG_TEXT = 200;

/** What an input of files is given: each with its contents, as the API takes it. */
interface GivenFile {
  name: string;
  data: string;
}

function isOfFiles(schema: Schema): boolean {
  return schema.format === "file" || schema.items?.format === "file";
}

function kindOf(schema: Schema, isRequired: boolean): Kind {
  if (isOfFiles(schema)) return "file";
  if (schema.enum) return "choice";
  if (schema.type === "boolean") return isRequired || schema.default !== undefined ? "switch" : "choice";
  if (schema.type === "integer" || schema.type === "number") return "number";
  if (schema.type === "string") return schema.maxLength !== undefined && schema.maxLength <= LONG_TEXT ? "line" : "text";
  if (schema.type === "array" && schema.items?.type === "string" && !schema.items.enum) return "list";
  return "json";
}

function choicesOf(schema: Schema): Json[] {
  return schema.enum ?? [true, false];
}

function written(value: Json | undefined, kind: Kind): string | boolean {
  if (kind === "switch") return value === true;
  if (value === undefined || value === null) return "";
  if (kind === "list" && Array.isArray(value)) return value.join("\n");
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** What a form begins with: the defaults. */
export function beginning(properties: Record<string, Schema>, required: string[] = []): Values {
  const kindOfField = ([name, schema]: [string, Schema]) => kindOf(schema, required.includes(name));
  return Object.fromEntries(Object.entries(properties).map((field) => [field[0], written(field[1].default, kindOfField(field))]));
}

/** The value of a field as the API takes it; `undefined` leaves it out. */
function read(name: string, schema: Schema, isRequired: boolean, value: string | boolean | undefined): Json | undefined {
  const kind = kindOf(schema, isRequired);
  if (kind === "switch") return value === true;
  const text = String(value ?? "");
  if (kind === "list") {
    const lines = text.split("\n").filter((line) => line.trim() !== "");
    return lines.length > 0 || isRequired ? lines : undefined;
  }
  if (text === "") return isRequired && (kind === "text" || kind === "line") ? "" : undefined;
  if (kind === "number") return Number(text);
  if (kind === "choice") return choicesOf(schema).find((known) => String(known) === text) ?? text;
  if (kind !== "json" && kind !== "file") return text;
  try {
    return JSON.parse(text);
  } catch {
    throw new Error(`${name}: this is not JSON`);
  }
}

/** The values as the API takes them. What is left empty is left out unless it is required. */
export function collected(properties: Record<string, Schema>, required: string[], values: Values): { [name: string]: Json } {
  const given: { [name: string]: Json } = {};
  for (const [name, schema] of Object.entries(properties)) {
    const value = read(name, schema, required.includes(name), values[name]);
    if (value !== undefined) given[name] = value;
  }
  return given;
}

/** What a field's schema says of its values. */
function hint(schema: Schema, kind: Kind): string {
  const type = Array.isArray(schema.type) ? schema.type.join(" or ") : schema.type;
  const of = schema.items?.type ? ` of ${schema.items.type}` : "";
  const parts = [
    kind === "json" && `JSON: ${type ?? "any"}${of}`,
    kind === "list" && "one a line",
    kind === "file" && (schema.items ? "one file or several" : "a file"),
    schema.minimum !== undefined && `from ${schema.minimum}`,
    schema.maximum !== undefined && `to ${schema.maximum}`,
  ];
  return parts.filter(Boolean).join(" ");
}

/** Reads a file that was chosen, as a data URL. */
function withContents(file: File): Promise<GivenFile> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve({ name: file.name, data: String(reader.result) });
    reader.onerror = () => reject(new Error(`${file.name} cannot be read`));
    reader.readAsDataURL(file);
  });
}

interface Props {
  properties: Record<string, Schema>;
  /** The order of the fields; that of `properties` without it. */
  order?: string[];
  required: string[];
  values: Values;
  onChange: (values: Values) => void;
}

export function Fields({ properties, order, required, values, onChange }: Props) {
  const base = useId();
  return (
    <>
      {(order ?? Object.keys(properties)).map((name) => {
        const schema = properties[name];
        if (!schema) return null;
        return (
          <Field
            key={name}
            id={`${base}-${name}`}
            name={name}
            schema={schema}
            isRequired={required.includes(name)}
            value={values[name] ?? ""}
            onChange={(value) => onChange({ ...values, [name]: value })}
          />
        );
      })}
    </>
  );
}

interface FieldProps {
  id: string;
  name: string;
  schema: Schema;
  isRequired: boolean;
  value: string | boolean;
  onChange: (value: string | boolean) => void;
}

function Field({ id, name, schema, isRequired, value, onChange }: FieldProps) {
  const kind = kindOf(schema, isRequired);
  const told = [schema.description, hint(schema, kind)].filter(Boolean).join(" · ");
  const shared = { id, name, "aria-describedby": told ? `${id}-told` : undefined };
  // A required list may be empty, and so may a required text unless it has a least length.
  const mustBeFilled = isRequired && kind !== "list" && !(kind === "text" && schema.minLength === 0);
  const text = { ...shared, required: mustBeFilled, value: String(value) };
  const label = (
    <label for={id}>
      {schema.title ?? name}
      {!isRequired && kind !== "switch" && <span class="optional"> optional</span>}
    </label>
  );
  const set = (event: { currentTarget: { value: string } }) => onChange(event.currentTarget.value);
  return (
    <div class={`field ${kind}`}>
      {kind === "switch" ? (
        <>
          <input {...shared} type="checkbox" checked={value === true} onChange={(event) => onChange(event.currentTarget.checked)} />
          {label}
        </>
      ) : (
        <>
          {label}
          {kind === "choice" && (
            <select {...text} onChange={set}>
              <option value="">{isRequired ? "Choose" : "–"}</option>
              {choicesOf(schema).map((word) => (
                <option key={String(word)}>{String(word)}</option>
              ))}
            </select>
          )}
          {kind === "number" && (
            <input
              {...text}
              type="number"
              step={schema.type === "integer" ? 1 : "any"}
              min={schema.minimum}
              max={schema.maximum}
              onInput={set}
            />
          )}
          {kind === "file" && (
            <input
              {...shared}
              type="file"
              required={mustBeFilled}
              multiple={schema.items !== undefined}
              onChange={async (event) => {
                const files = await Promise.all(Array.from(event.currentTarget.files ?? []).map(withContents));
                onChange(files.length === 0 ? "" : JSON.stringify(schema.items ? files : files[0]));
              }}
            />
          )}
          {kind === "line" && <input {...text} type="text" maxLength={schema.maxLength} onInput={set} />}
          {(kind === "text" || kind === "list" || kind === "json") && (
            <textarea {...text} rows={kind === "text" ? 4 : 3} class={kind === "json" ? "mono" : ""} onInput={set} />
          )}
        </>
      )}
      {told && (
        <p class="told" id={`${id}-told`}>
          {told}
        </p>
      )}
    </div>
  );
}
