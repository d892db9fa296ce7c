#!/usr/bin/env python3
"""What no official client can send or see: refusals, cache rules, bytes of a stream. Standard library only."""

import contextlib
import copy
import http.client
import json
import platform

from harness import TIMEOUT_S, case, equal, play

LONG = "The pool is left by the sea for six hours, and what lives there keeps its own water. " * 260
OBJECT = {
    "type": "object",
    "properties": {"place": {"type": "string"}},
    "required": ["place"],
    "additionalProperties": False,
}
KEYS = {"authorization": "Bearer key", "x-goog-api-key": "key", "anthropic-version": "2026-10-21"}
MESSAGES, RESPONSES, CHAT = "/v1/messages", "/v1/responses", "/v1/chat/completions"
GEMINI, GEMINI_SSE = (
    "/v1beta/models/gemini-3-pro:generateContent",
    "/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse",
)


def post(url, path, body, headers=KEYS):
    with contextlib.closing(http.client.HTTPConnection(url.removeprefix("http://"), timeout=TIMEOUT_S)) as connection:
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request("POST", path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()


def ask(url, path, body, headers=KEYS):
    status, content = post(url, path, body, headers)
    assert status == 200, content
    return json.loads(content)


def refused(url, path, body, fragment, status=400, headers=KEYS):
    found, content = post(url, path, body, headers)
    assert found == status and fragment in content.decode(), f"{found} {content.decode()} instead of {fragment!r}"
    return json.loads(content)


def user(content):
    return {"role": "user", "content": content}


def text(words, mark=None):
    return {"type": "text", "text": words, **({"cache_control": mark} if mark else {})}


A_CALL = {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {}}]}
A_RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "Sunny"}
A_TOOL = {"name": "weather", "input_schema": OBJECT}


def anthropic_request(*messages, **more):
    return {"model": "claude-opus-5", "max_tokens": 100, "messages": list(messages) or [user("x")], **more}


@case("fake", "requests without a key")
def _(url):
    version = {"anthropic-version": "2023-06-01"}
    equal([post(url, path, b"{}", version)[0] for path in (CHAT, RESPONSES, MESSAGES)], [401, 401, 401])
    # Gemini takes a request without a key for one of a stranger, who may not call it.
    refused(url, GEMINI, {}, "PERMISSION_DENIED", 403, version)
    refused(url, MESSAGES, anthropic_request(), "anthropic-version: header is required", headers={"x-api-key": "key"})


@case("fake", "refusals of Anthropic")
def _(url):
    mark = {"type": "ephemeral"}
    union = {"anyOf": [{"type": "string"}, {"type": "null"}]}
    wide = {
        "type": "object",
        "properties": {f"p{at}": union for at in range(17)},
        "required": [f"p{at}" for at in range(17)],
        "additionalProperties": False,
    }
    schema = lambda value: {"output_config": {"format": {"type": "json_schema", "schema": value}}}
    without = anthropic_request()
    del without["max_tokens"]
    body = refused(url, MESSAGES, without, "max_tokens: Field required")
    equal((body["type"], body["error"]["type"]), ("error", "invalid_request_error"))
    ask_ = anthropic_request
    for request, fragment in [
        (ask_(seed=1), "seed: Extra inputs are not permitted"),
        (ask_(temperature=1), "temperature: Extra inputs are not permitted"),
        (ask_(user("")), "text content blocks must be non-empty"),
        (ask_(user([text(" \n")])), "must contain non-whitespace text"),
        (ask_(user([])), "must have non-empty content"),
        (ask_(user("x"), {"role": "assistant", "content": "So"}), "does not support assistant message prefill"),
        (ask_(user("x"), A_CALL, user("y")), "without `tool_result` blocks immediately after: toolu_1"),
        (ask_(user("x"), A_CALL, model="claude-sonnet-4-5"), "without `tool_result` blocks immediately after: toolu_1"),
        (ask_(user("x"), A_CALL, user([text("y"), A_RESULT])), "immediately after: toolu_1"),
        (ask_(user([A_RESULT])), "unexpected `tool_use_id` found"),
        (
            ask_(user([text(str(at), mark) for at in range(5)])),
            "A maximum of 4 blocks with cache_control may be provided. Found 5.",
        ),
        (ask_(user([*(text(str(at), mark) for at in range(4)), text("y")]), cache_control=mark), "Found 5."),
        (ask_(user([text("x", mark), text("y", {**mark, "ttl": "1h"})])), "must not come after a ttl='5m'"),
        (ask_(**schema(wide)), "too many parameters with union types (17 "),
        (ask_(**schema({"type": "object"})), "'additionalProperties' must be explicitly set to false"),
        (ask_(tools=[{"name": "a b", "input_schema": OBJECT}]), "tools.0.custom.name: String should match pattern"),
        (ask_(tools=[A_TOOL, A_TOOL]), "Tool names must be unique"),
        (ask_(model="claude-opus-5-5", thinking={"type": "disabled"}), "not supported for this model"),
        (
            ask_(model="claude-opus-5-5", tools=[A_TOOL], tool_choice={"type": "any"}),
            "when tool_choice forces tool use",
        ),
        (ask_(model="claude-opus-4-5", thinking={"type": "adaptive"}), "not supported for this model"),
        (ask_(thinking={"type": "enabled", "budget_tokens": 5}), "greater than or equal to 1024"),
        (ask_(max_tokens=0, stream=True), "max_tokens: 0 is not allowed with stream"),
        ([1], "must be a JSON object"),
        (b"{", "could not parse the JSON body"),
        (ask_(tools=[7]), "Input should be a valid dictionary"),
        (ask_(messages=7), "at least one message"),
    ]:
        refused(url, MESSAGES, request, fragment)
    call = copy.deepcopy(A_CALL)
    call["content"][0]["input"] = "{}"
    refused(
        url, MESSAGES, ask_(user("x"), call, user([A_RESULT])), "tool_use.input: Input should be a valid dictionary"
    )
    older = {**KEYS, "anthropic-version": "2023-06-01"}
    refused(url, MESSAGES, ask_(temperature=0.5), "`temperature` is deprecated for this model", headers=older)
    ask(url, MESSAGES, ask_(temperature=1), older)
    ask(url, MESSAGES, ask_(model="claude-sonnet-4-5", temperature=0.5), older)
    refused(url, MESSAGES, ask_(model="opus"), "not_found_error", 404)


@case(
    "fake",
    "marks, look-back and TTLs of Anthropic",
    [{}, {}, {"advance_s": 200}, {"advance_s": 200}, {"advance_s": 400}, {}, {}],
)
def _(url):
    mark = {"type": "ephemeral"}

    def usage(blocks, **more):
        found = ask(url, MESSAGES, anthropic_request(user(blocks), **more))["usage"]
        return found["cache_read_input_tokens"], found["cache_creation_input_tokens"], found["input_tokens"]

    first = [text(LONG, mark)]
    read, written, fresh = usage(first)
    assert read == 0 and written > 5000 and fresh == 0
    # Nineteen positions behind the mark it is found, twenty behind it is not.
    equal(usage([text(LONG), *(text(str(at)) for at in range(18)), text("end", mark)])[0], written)
    # Each use refreshes the five minutes; then they are over.
    equal(usage(first)[:2], (written, 0))
    equal(usage(first)[:2], (written, 0))
    equal(usage(first)[:2], (0, written))
    equal(usage([text(LONG), *(text(f"n{at}") for at in range(19)), text("end", mark)])[0], 0)
    # Below the floor, nothing is kept.
    equal(usage([text("short", mark)])[:2], (0, 0))
    # Thinking and choices of tools lose messages, not the system text.
    system = [text(LONG, mark)]
    one = usage([text("x" * 4000, mark)], system=system)
    both = usage([text("x" * 4000, mark)], system=system, thinking={"type": "disabled"})
    assert one[0] == 0 and both[0] > 5000 and both[1] > 900, (one, both)


@case("fake", "a long conversation with Anthropic", [{"thinking": ["So."], "tool_calls": [{"name": "weather"}]}] * 30)
def _(url):
    mark = {"type": "ephemeral"}
    messages, before = [user([text("Weather?", mark)])], 0
    for at in range(30):
        request = anthropic_request(*messages, model="claude-opus-5-5", system=[text(LONG, mark)], tools=[A_TOOL])
        answer = ask(url, MESSAGES, request)
        usage = answer["usage"]
        # Each request reads the whole of the one before it, and writes what is new.
        equal(usage["cache_read_input_tokens"], before)
        equal(usage["input_tokens"], 0)
        before += usage["cache_creation_input_tokens"]
        equal([block["type"] for block in answer["content"]], ["thinking", "tool_use"])
        result = {"type": "tool_result", "tool_use_id": answer["content"][-1]["id"], "content": f"Sunny {at}"}
        messages[-1] = json.loads(json.dumps(messages[-1]).replace(f', "cache_control": {json.dumps(mark)}', ""))
        messages += [{"role": "assistant", "content": answer["content"]}, user([{**result, "cache_control": mark}])]

    # Thinking may go from the end and from the start, but not from the middle.
    def without(*numbers):
        found = copy.deepcopy(messages)
        for number in numbers:
            del found[number]["content"][0]
        return anthropic_request(*found, user("Go on."), model="claude-opus-5-5", system=LONG, tools=[A_TOOL])

    ask(url, MESSAGES, without(1, 3))
    ask(url, MESSAGES, without(57, 59))
    refused(url, MESSAGES, without(21), "Invalid `signature` in `thinking` block")


@case("fake", "refusals of OpenAI")
def _(url):
    message = {"role": "user", "content": "x"}
    responses = lambda *items, **more: {"model": "gpt-5.6", "input": list(items) or [message], **more}
    chat = lambda *messages, **more: {"model": "gpt-5", "messages": list(messages) or [message], **more}
    call = {"type": "function_call", "call_id": "c", "name": "weather", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c", "output": "Sunny"}
    loose = {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False}
    form = {"type": "json_schema", "name": "answer", "schema": loose, "strict": True}
    for path, request, fragment in [
        (RESPONSES, responses(seed=1), "Unknown parameter: 'seed'."),
        (RESPONSES, responses(temperature=0.5), "Unsupported parameter: 'temperature'"),
        (RESPONSES, responses(message, call), "No tool output found for function call c."),
        (RESPONSES, responses(message, output), "No tool call found for function call output"),
        (RESPONSES, responses(message, {**call, "arguments": {}}, output), "expected a string"),
        (
            RESPONSES,
            responses(message, {"role": "assistant", "content": [{"type": "input_text", "text": "x"}]}),
            "Supported values are: 'output_text'",
        ),
        (
            RESPONSES,
            responses(
                message, {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "bm8="}, call, output
            ),
            "invalid_encrypted_content",
        ),
        (RESPONSES, responses(text={"format": form}), "Missing 'a'"),
        (RESPONSES, responses(tools=[{"type": "function", "function": {"name": "weather"}}]), "tools[0].function"),
        (RESPONSES, responses(max_output_tokens=5), "Expected a value >= 16"),
        (RESPONSES, responses(prompt_cache_key="k" * 65), "string_above_max_length"),
        (RESPONSES, responses(prompt_cache_retention="in_memory"), "in_memory"),
        (CHAT, chat(cache_control={}), "Unrecognized request argument supplied: cache_control"),
        (CHAT, chat(max_tokens=5), "Use 'max_completion_tokens' instead"),
        (CHAT, chat(temperature=0.5), "Only the default (1) value is supported"),
        (
            CHAT,
            chat({"role": "tool", "tool_call_id": "c", "content": "x"}),
            "must be a response to a preceeding message",
        ),
        (CHAT, chat({"role": "assistant", "content": "x", "tool_calls": []}), "empty_array"),
    ]:
        refused(url, path, request, fragment)
    refused(
        url,
        RESPONSES,
        responses({"type": "reasoning", "id": "rs_1", "summary": []}, call, output),
        "Items are not persisted",
        404,
    )


@case("fake", "refusals of Gemini")
def _(url):
    said = {"role": "user", "parts": [{"text": "x"}]}
    call = {
        "role": "model",
        "parts": [
            {"functionCall": {"name": "weather", "args": {}}, "thoughtSignature": "skip_thought_signature_validator"}
        ],
    }
    result = {"role": "user", "parts": [{"functionResponse": {"name": "weather", "response": {"output": "Sunny"}}}]}
    bare = {"role": "model", "parts": [{"functionCall": {"name": "weather", "args": {}}}]}
    wrong = {"role": "model", "parts": [{"functionCall": {"name": "weather", "args": {}}, "thoughtSignature": "bm8="}]}
    request = lambda *contents, **more: {"contents": list(contents) or [said], **more}
    for body, fragment in [
        (request(tempo=1), 'Unknown name \\"tempo\\": Cannot find field.'),
        (request(generationConfig={"seeds": 1}), "Unknown name \\\"seeds\\\" at 'generation_config'"),
        ({}, "contents is not specified"),
        (request({"role": "assistant", "parts": [{"text": "x"}]}), "Please use a valid role: user, model."),
        (request({"role": "user", "parts": []}), "must not be empty"),
        (request({"role": "user", "parts": [{"text": "x", "functionCall": {}}]}), "oneof field"),
        (request(said, bare, result), "missing a thought_signature"),
        (request(said, wrong, result), "Corrupted thought signature"),
        (request(said, call), "number of function response parts is equal"),
        (request(said, call, said), "number of function response parts is equal"),
        (
            request(generationConfig={"thinkingConfig": {"thinkingBudget": 5, "thinking_level": "low"}}),
            "only one of thinking budget",
        ),
        (request(generationConfig={"responseJsonSchema": OBJECT}), "response_mime_type"),
    ]:
        equal(refused(url, GEMINI, body, fragment)["error"]["status"], "INVALID_ARGUMENT")
    ask(url, GEMINI, request(said, call, result))
    ask(url, GEMINI, request(said, bare, result, {"role": "model", "parts": [{"text": "So."}]}, said))
    ask(url, "/v1beta/models/gemini-2.5-pro:generateContent", request(said, bare, result))


@case(
    "fake",
    "bytes of a stream",
    [{"text": ["a", "b"], "repeat_usage": True}, {"text": ["a"]}, {"text": ["a"]}, {"text": ["a"]}],
)
def _(url):
    def events(path, body):
        status, content = post(url, path, {**body, **({} if "Generate" in path else {"stream": True})})
        equal(status, 200)
        end = b"\r\n\r\n" if "Generate" in path else b"\n\n"
        assert content.endswith(end)
        return [block.decode().splitlines() for block in content.removesuffix(end).split(end)]

    names = [lines[0] for lines in events(MESSAGES, anthropic_request(thinking={"type": "disabled"}))]
    equal(
        names,
        [
            f"event: {name}"
            for name in (
                "message_start",
                "content_block_start",
                "ping",
                "content_block_delta",
                "content_block_delta",
                "content_block_stop",
                "fake_event",
                "message_delta",
                "message_delta",
                "message_stop",
            )
        ],
    )
    blocks = events(RESPONSES, {"model": "gpt-4.1", "input": "x"})
    equal(
        [lines[0] for lines in blocks],
        [
            f"event: {name}"
            for name in (
                "response.created",
                "response.in_progress",
                "keepalive",
                "response.output_item.added",
                "response.content_part.added",
                "response.output_text.delta",
                "response.output_text.done",
                "response.content_part.done",
                "response.output_item.done",
                "response.fake_event",
                "response.completed",
            )
        ],
    )
    numbers = [json.loads(lines[1].removeprefix("data: "))["sequence_number"] for lines in blocks]
    equal(numbers, list(range(len(blocks))))
    assert '"obfuscation"' in blocks[5][1]
    blocks = events(CHAT, {"model": "m", "messages": [user("x")], "stream_options": {"include_usage": True}})
    equal(blocks[-1], ["data: [DONE]"])
    equal(json.loads(blocks[-2][0].removeprefix("data: "))["choices"], [])
    blocks = events(GEMINI_SSE, {"contents": [{"parts": [{"text": "x"}]}]})
    assert all(len(lines) == 1 and lines[0].startswith("data: {") for lines in blocks)
    last = json.loads(blocks[-1][0].removeprefix("data: "))["candidates"][0]
    equal((last["finishReason"], last["content"]["parts"][0]["text"]), ("STOP", ""))


FRONT = """Be brief.

# Form of the answer

An answer begins with a front matter in YAML between two lines `---`. After it stands the body, in Markdown. Choose one.

The form of `approved`:

---
status: approved
summary: <a text: one sentence>
score: <a whole number, may be left out>
places:
  - <a text>
  - <and so on>
weight: <minor or major>
---

<the body>

The form of `revise`:

---
status: revise
---

<the body>
"""
JSON = """# Form of the answer

An answer is one JSON object and nothing else: no text around it and no code fence.

The form of `approved`:

{"status": "approved", "summary": <a text: one > two>, "sizes": <a list of whole numbers>, "body": <a text>}
"""


@case("fake", "answers by itself")
def _(url):
    said = ask(url, CHAT, {"model": "m", "messages": [{"role": "system", "content": FRONT}, user("x")]})["choices"][0][
        "message"
    ]["content"]
    equal(
        said,
        '---\nstatus: "approved"\nsummary: "a text of the fake"\nscore: 1\nplaces: ["a text of the fake"]\nweight:'
        ' "minor"\n---\n\nThis is the answer of the fake.',
    )
    said = ask(url, MESSAGES, anthropic_request(system=JSON, thinking={"type": "disabled"}))["content"][0]["text"]
    equal(
        json.loads(said),
        {
            "status": "approved",
            "summary": "a text of the fake",
            "sizes": [1],
            "body": "This is the answer of the fake.",
        },
    )
    null = {"anyOf": [{"type": "string"}, {"type": "null"}]}
    schema = {
        "type": "object",
        "properties": {
            "status": {"type": "string", "enum": ["approved", "revise"]},
            "other": null,
            "summary": null,
            "sizes": {"type": "array", "items": {"type": "integer"}},
            "body": {"type": "string"},
        },
        "required": ["status", "other", "summary", "sizes", "body"],
        "additionalProperties": False,
    }
    form = {"format": {"type": "json_schema", "name": "answer", "schema": schema, "strict": True}}
    output = ask(url, RESPONSES, {"model": "gpt-4.1", "instructions": JSON, "input": "x", "text": form})["output"]
    equal(
        list(json.loads(output[0]["content"][0]["text"]).items())[:3],
        [("status", "approved"), ("other", None), ("summary", "a text of the fake")],
    )
    tool = {"functionDeclarations": [{"name": "weather", "parametersJsonSchema": OBJECT}]}
    parts = ask(url, GEMINI, {"contents": [{"parts": [{"text": "x"}]}], "tools": [tool]})["candidates"][0]["content"][
        "parts"
    ]
    equal(parts[-1]["functionCall"]["args"], {"place": "text"})
    # Equal requests get equal bytes, but for their ids.
    equal(ask(url, MESSAGES, anthropic_request())["content"][1], ask(url, MESSAGES, anthropic_request())["content"][1])


if __name__ == "__main__":
    play(f"Python {platform.python_version()}")
