"""What the fake answers: from a line of a script, or by itself and always the same.

Without a script, a conversation with tools and no result yet is answered by one call of the first tool, any other by
a text. Where the system text or the response format asks for rondo's contract (`engine/docs/layout-1.md`), the text has
its form, with the first status that is offered and a value for each of its fields.
"""

import json
import re
from dataclasses import dataclass, field

CONTRACT = "# Form of the answer"
PIECE_CHARACTERS = 24
MAX_SCRIPT_BYTES = 16 << 20
MAX_WAIT_MS = 120_000
# Of a schema, this deep; a schema that refers to itself ends there.
MAX_DEPTH = 16

STOPS = ("end", "length", "tool", "refusal")
MEMBERS = {
    "text",
    "thinking",
    "redacted_thinking",
    "tool_calls",
    "stop",
    "status",
    "body",
    "headers",
    "cut_after",
    "end_after",
    "error_after",
    "wait_ms",
    "gap_ms",
    "advance_s",
    "repeat_usage",
    "default",
}


class ScriptError(Exception):
    """A script that cannot be played."""


@dataclass
class Answer:
    """The content of an answer in its order, and what goes wrong with it."""

    thinking: list | None = None
    redacted: bool = False
    text: list = field(default_factory=list)
    calls: list = field(default_factory=list)
    stop: str | None = None
    repeat_usage: bool = False

    def reason(self):
        return self.stop or ("tool" if self.calls else "end")

    def whole_text(self):
        return "".join(self.text)


@dataclass
class Fault:
    status: int | None = None
    body: object = None
    headers: dict = field(default_factory=dict)
    cut_after: int | None = None
    end_after: int | None = None
    error_after: int | None = None
    wait_ms: int = 0
    gap_ms: int = 0
    advance_s: float = 0


@dataclass
class Results:
    """Whether a tool has answered: ever, and since a user last said something."""

    ever: bool = False
    in_turn: bool = False

    def came(self):
        self.ever = self.in_turn = True

    def turn_begins(self):
        self.in_turn = False


@dataclass
class View:
    """What of a request the answer depends on, whatever the protocol."""

    system: str = ""
    tools: list = field(default_factory=list)
    results: Results = field(default_factory=Results)
    schema: dict | None = None
    any_object: bool = False
    forced: str | None = None
    thinks: bool = False
    shows_thinking: bool = True


def pieces(text):
    """A text as it would be streamed; joined, it is the text."""
    return [text[at : at + PIECE_CHARACTERS] for at in range(0, len(text), PIECE_CHARACTERS)]


def _listed(value, name):
    if value is None:
        return []
    value = [value] if isinstance(value, str) else value
    if not isinstance(value, list) or not all(isinstance(piece, str) for piece in value):
        raise ScriptError(f"`{name}` must be a text or a list of texts")
    return value


def _number(line, name, ceiling):
    value = line.get(name)
    if value is not None and (
        isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= ceiling
    ):
        raise ScriptError(f"`{name}` must be a number from 0 to {ceiling}")
    return value


def read_script(path):
    """The lines of a script, each checked before the first request comes."""
    lines = []
    with open(path, encoding="utf-8") as file:
        text = file.read(MAX_SCRIPT_BYTES + 1)
    if len(text) > MAX_SCRIPT_BYTES:
        raise ScriptError(f"a script has {MAX_SCRIPT_BYTES} bytes at most")
    for number, written in enumerate(text.splitlines(), 1):
        if not written.strip():
            continue
        try:
            line = json.loads(written)
            if not isinstance(line, dict) or not line.keys() <= MEMBERS:
                raise ScriptError(f"a line is an object with some of: {', '.join(sorted(MEMBERS))}")
            lines.append((scripted(line), fault(line)))
        except (json.JSONDecodeError, ScriptError) as error:
            raise ScriptError(f"line {number}: {error}") from error
    return lines


def scripted(line):
    """The answer of a line; None leaves it to the fake."""
    if not line.keys() & {"text", "thinking", "redacted_thinking", "tool_calls", "stop"}:
        return None
    calls = []
    for call in line.get("tool_calls") or []:
        arguments = call.get("arguments", {})
        arguments = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        calls.append((call["name"], arguments))
    thinking = None if line.get("thinking") is None else _listed(line["thinking"], "thinking")
    return Answer(
        thinking=thinking,
        redacted=bool(line.get("redacted_thinking")),
        text=_listed(line.get("text"), "text"),
        calls=calls,
        stop=line.get("stop"),
        repeat_usage=bool(line.get("repeat_usage")),
    )


def fault(line):
    count = lambda name: _number(line, name, 1 << 20)
    return Fault(
        status=_number(line, "status", 599),
        body=line.get("body"),
        headers=line.get("headers") or {},
        cut_after=count("cut_after"),
        end_after=count("end_after"),
        error_after=count("error_after"),
        wait_ms=_number(line, "wait_ms", MAX_WAIT_MS) or 0,
        gap_ms=_number(line, "gap_ms", MAX_WAIT_MS) or 0,
        advance_s=_number(line, "advance_s", 1 << 20) or 0,
    )


def by_itself(view, words, each_turn=False):
    """The answer without a script: the same for equal requests."""
    answer = Answer()
    if view.thinks:
        answer.thinking = pieces("First what is asked, then the answer.") if view.shows_thinking else []
    tool = next((tool for tool in view.tools if tool[0] == view.forced), None)
    has_result = view.results.in_turn if each_turn else view.results.ever
    tool = tool or (view.tools[0] if view.tools and not has_result and view.forced != "none" else None)
    if tool:
        name, schema = tool
        answer.calls = [(name, json.dumps(fitting(schema, schema), ensure_ascii=False))]
    else:
        answer.text = pieces(_text(view, words))
    return answer


def _text(view, words):
    body = " ".join(["This is the answer of the fake.", *("word" for _ in range(words))])
    contract = _contract(view.system)
    if view.schema is not None or view.any_object or (contract and contract[0] == "json"):
        values = dict(contract[1]) if contract and contract[0] == "json" else None
        if values is not None:
            values["body"] = body
        return json.dumps(_object(view.schema, values), ensure_ascii=False)
    if contract:
        front = "".join(f"{key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in contract[1])
        return f"---\n{front}---\n\n{body}"
    return body


def _object(schema, values):
    """An object of a schema: with the values of the contract, else the least that fits."""
    if schema is None or not isinstance(schema.get("properties"), dict):
        return {} if values is None else values
    if values is None:
        return fitting(schema, schema)
    made = {}
    for key, inner in schema["properties"].items():
        if key in values:
            made[key] = values[key]
        elif key in (schema.get("required") or []):
            made[key] = None if _takes_null(inner) else fitting(inner, schema)
    return made


def _takes_null(schema):
    kinds = schema.get("type")
    return (
        kinds == "null"
        or (isinstance(kinds, list) and "null" in kinds)
        or any(_takes_null(one) for one in schema.get("anyOf") or [])
    )


def fitting(schema, root, depth=0):
    """The least value that fits a schema, as far as its usual keywords say."""
    if not isinstance(schema, dict) or depth > MAX_DEPTH:
        return None
    if isinstance(schema.get("$ref"), str):
        found = root
        for step in schema["$ref"].lstrip("#/").split("/"):
            found = found.get(step, {}) if isinstance(found, dict) else {}
        return fitting(found, root, depth + 1)
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][0]
    if schema.get("anyOf") or schema.get("oneOf"):
        choices = schema.get("anyOf") or schema["oneOf"]
        return fitting(next((one for one in choices if one.get("type") != "null"), choices[0]), root, depth + 1)
    kind = schema.get("type", "object" if "properties" in schema else "string")
    kind = next((one for one in kind if one != "null"), "null") if isinstance(kind, list) else kind
    kind = kind.lower()
    if kind == "object":
        inner = schema.get("properties") or {}
        return {key: fitting(inner.get(key, {}), root, depth + 1) for key in schema.get("required") or []}
    if kind == "array":
        return [fitting(schema.get("items") or {}, root, depth + 1) for _ in range(min(schema.get("minItems", 1), 64))]
    if kind in ("integer", "number"):
        return schema.get("minimum", schema.get("maximum", 1))
    if kind == "boolean":
        return True
    return None if kind == "null" else "text".ljust(min(schema.get("minLength", 0), 4096), ".")


def _contract(system):
    """The form that rondo's contract asks for, and the fields of its first status with a value each."""
    at = system.rfind(CONTRACT)
    if at < 0:
        return None
    text = system[at:]
    shown = re.search(r'^\{"(?:status|body)": .*\}$', text, re.M) if "one JSON object" in text else None
    if shown or "An answer is one JSON object" in text:
        return "json", _json_fields(shown.group()) if shown else [("body", "")]
    front = re.search(r"^---\n(.*?)^---$", text[text.find("\n\n", text.find("An answer begins")) :], re.M | re.S)
    return "frontmatter", _front_fields(front.group(1) if front else "")


def _json_fields(line):
    found = re.finditer(r'"((?:[^"\\]|\\.)*)": (?:<(.*?)>(?=, "|\}$)|("(?:[^"\\]|\\.)*"))', line)
    return [(m[1], json.loads(m[3]) if m[3] else _value(m[2])) for m in found if m[1] != "body"]


def _front_fields(front):
    fields = []
    for line in front.splitlines():
        if line.startswith("  - <"):
            if "<and so on>" not in line and fields:
                key, values = fields[-1]
                fields[-1] = (key, [*(values or []), _value(line[5:].rstrip(">"))])
            continue
        key, _, value = line.partition(": ")
        if value.startswith("<"):
            fields.append((key, _value(value[1:].rstrip(">"))))
        else:
            fields.append((key.rstrip(":"), value or None))
    return fields


def _value(placeholder):
    """A value for what the contract shows in angle brackets."""
    schema = placeholder.find("fits the JSON Schema ")
    if schema >= 0:
        try:
            read, _ = json.JSONDecoder().raw_decode(placeholder, schema + len("fits the JSON Schema "))
            return fitting(read, read)
        except json.JSONDecodeError:
            return None
    shown = re.split(r", may be left out|: ", placeholder)[0]
    plain = {
        "a text": "a text of the fake",
        "a whole number": 1,
        "a number": 1,
        "true or false": True,
        "a list of texts": ["a text of the fake"],
        "a list of whole numbers": [1],
        "a list of numbers": [1],
        "a list": [],
        "an object": {},
        "a value": "a text of the fake",
    }
    if shown in plain:
        return plain[shown]
    return shown.split(" or ")[0]
