#!/usr/bin/env python3
"""The official clients of three providers against the fake: what they parse is what the fake meant.

Needs `anthropic`, `openai` and `google-genai` (`requirements.txt`); `make test-sdks` installs and runs it. A line for
each client and case; ends with exit code 1 if one fails.
"""

import functools
import json

import anthropic
import openai
from google import genai
from google.genai import errors as genai_errors
from google.genai import types as genai_types

from harness import TIMEOUT_S, case, equal, play, raises

LONG = "The pool is left by the sea for six hours, and what lives there keeps its own water. " * 260
SCHEMA = {
    "type": "object",
    "properties": {"place": {"type": "string"}},
    "required": ["place"],
    "additionalProperties": False,
}
ANSWER = {
    "type": "object",
    "properties": {"status": {"type": "string", "enum": ["approved", "revise"]}, "score": {"type": "integer"}},
    "required": ["status", "score"],
    "additionalProperties": False,
}
# Text that every layer has to carry: other planes, quotes, line ends, the end of a tag.
TEXT = ["Tide ", 'pools: "é", ', "🦀 \\ ", "\n</", "end>"]
WEATHER = {"place": 'Kiel "Förde" 🌊'}
SCRIPTS = {
    "text": [{"text": TEXT}],
    "tools": [{"text": ["Let me look."], "tool_calls": [{"name": "weather", "arguments": WEATHER}]}, {"text": TEXT}],
    "thinking": [
        {"thinking": ["The user ", "asks."], "tool_calls": [{"name": "weather", "arguments": WEATHER}]},
        {"thinking": ["Sunny, ", "then."], "text": TEXT},
        {"thinking": [], "text": TEXT},
    ],
}
# Anthropic.

A_TOOL = {"name": "weather", "description": "The weather.", "input_schema": SCHEMA}
A_MODEL = "claude-opus-5-5"


def a_client(url, retries=0):
    return anthropic.Anthropic(api_key="key", base_url=url, timeout=TIMEOUT_S, max_retries=retries)


def a_ask(url, messages, is_streamed, **more):
    request = {"model": A_MODEL, "max_tokens": 4096, "messages": messages, **more}
    if not is_streamed:
        return a_client(url).messages.create(**request)
    with a_client(url).messages.stream(**request) as stream:
        kinds = [event.type for event in stream]
        message = stream.get_final_message()
    equal(kinds[0], "message_start")
    equal(kinds[-1], "message_stop")
    return message


def user(text):
    return {"role": "user", "content": text}


for streamed in (False, True):
    way = "streamed" if streamed else "whole"

    @case("anthropic", f"text, {way}", SCRIPTS["text"])
    def _(url, streamed=streamed):
        message = a_ask(url, [user("Tide pools?")], streamed)
        equal([block.text for block in message.content], ["".join(TEXT)])
        equal(message.stop_reason, "end_turn")
        usage = message.usage
        equal((usage.cache_read_input_tokens, usage.cache_creation_input_tokens), (0, 0))
        assert usage.input_tokens > 0 and usage.output_tokens > 1

    @case("anthropic", f"tool round trip, {way}", SCRIPTS["tools"])
    def _(url, streamed=streamed):
        messages = [user("Weather?")]
        first = a_ask(url, messages, streamed, tools=[A_TOOL])
        equal(first.stop_reason, "tool_use")
        call = first.content[-1]
        equal((call.name, call.input), ("weather", WEATHER))
        result = {"type": "tool_result", "tool_use_id": call.id, "content": "Sunny"}
        messages += [first.to_param(), {"role": "user", "content": [result]}]
        equal(a_ask(url, messages, streamed, tools=[A_TOOL]).content[0].text, "".join(TEXT))

    @case("anthropic", f"thinking round trip, {way}", SCRIPTS["thinking"])
    def _(url, streamed=streamed):
        messages = [user("Weather?")]
        first = a_ask(url, messages, streamed, tools=[A_TOOL])
        equal(first.content[0].thinking, "The user asks.")
        answer = {"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in first.content]}
        messages += [
            answer,
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": first.content[-1].id, "content": "Sunny"}],
            },
        ]
        second = a_ask(url, messages, streamed, tools=[A_TOOL])
        equal([block.type for block in second.content], ["thinking", "text"])
        messages += [second.to_param(), user("And now?")]
        third = a_ask(url, messages, streamed, tools=[A_TOOL])
        equal((third.content[0].thinking, bool(third.content[0].signature)), ("", True))
        # The same conversation behind another system text, with another thought, and without it.
        error = raises(
            anthropic.BadRequestError, lambda: a_ask(url, messages, streamed, tools=[A_TOOL], system="Other.")
        )
        assert "bound to a different conversation" in error.message
        answer["content"][0]["thinking"] += "!"
        error = raises(anthropic.BadRequestError, lambda: a_ask(url, messages, streamed, tools=[A_TOOL]))
        assert "Invalid `signature` in `thinking` block" in error.message
        del answer["content"][0], messages[3:]
        error = raises(anthropic.BadRequestError, lambda: a_ask(url, messages, streamed, tools=[A_TOOL]))
        assert "Expected `thinking`" in error.message, error.message

    @case("anthropic", f"structured output, {way}")
    def _(url, streamed=streamed):
        config = {"format": {"type": "json_schema", "schema": ANSWER}}
        message = a_ask(url, [user("Good?")], streamed, output_config=config)
        equal(json.loads(message.content[-1].text), {"status": "approved", "score": 1})

    @case("anthropic", f"prompt cache, {way}")
    def _(url, streamed=streamed):
        mark = {"type": "ephemeral", "ttl": "1h"}
        system = [{"type": "text", "text": LONG, "cache_control": mark}]
        more = {
            "system": system,
            "cache_control": {"type": "ephemeral"},
            "extra_body": {"diagnostics": {"previous_message_id": None}},
        }
        messages = [user("One")]
        first = a_ask(url, messages, streamed, **more)
        usage = first.usage
        assert usage.cache_creation.ephemeral_1h_input_tokens > 5000, usage
        equal(
            usage.cache_creation.ephemeral_1h_input_tokens + usage.cache_creation.ephemeral_5m_input_tokens,
            usage.cache_creation_input_tokens,
        )
        total = usage.input_tokens + usage.cache_creation_input_tokens
        messages += [first.to_param(), user("Two")]
        more["extra_body"] = {"diagnostics": {"previous_message_id": first.id}}
        second = a_ask(url, messages, streamed, **more)
        equal(second.usage.cache_read_input_tokens, total)
        equal(second.diagnostics, None)
        more["extra_body"] = {"diagnostics": {"previous_message_id": second.id}}
        more["system"] = "Short."
        third = a_ask(url, [user("One")], streamed, **more)
        equal(third.diagnostics.cache_miss_reason.type, "system_changed")


@case(
    "anthropic",
    "errors",
    [{"status": 529}, {"status": 529}, {"text": "There."}, {"status": 429, "headers": {"retry-after": "0"}}],
)
def _(url):
    error = raises(anthropic.InternalServerError, lambda: a_ask(url, [user("x")], False))
    equal((error.status_code, error.body["error"]["type"]), (529, "overloaded_error"))
    equal(a_client(url, 1).messages.create(model=A_MODEL, max_tokens=9, messages=[user("x")]).content[0].text, "There.")
    raises(anthropic.RateLimitError, lambda: a_ask(url, [user("x")], True))
    error = raises(anthropic.BadRequestError, lambda: a_ask(url, [user("x")], True, extra_body={"temperature": 1}))
    assert "Extra inputs are not permitted" in error.message
    error = raises(anthropic.BadRequestError, lambda: a_ask(url, [user(" ")], True))
    assert "non-whitespace" in error.message
    equal(a_client(url).models.list().data[0].id, A_MODEL)


@case("anthropic", "error within a stream", [{"text": TEXT, "error_after": 4}])
def _(url):
    error = raises(anthropic.APIStatusError, lambda: a_ask(url, [user("x")], True))
    assert "overloaded_error" in str(error)


@case("anthropic", "cut stream", [{"text": TEXT, "end_after": 5}, {"text": TEXT, "cut_after": 5}])
def _(url):
    with a_client(url).messages.stream(model=A_MODEL, max_tokens=9, messages=[user("x")]) as stream:
        # Cut between two events, it is a success without a reason to this client.
        equal(stream.get_final_message().stop_reason, None)
    raises(Exception, lambda: a_ask(url, [user("x")], True))


# OpenAI Responses.

R_TOOL = {"type": "function", "name": "weather", "description": "The weather.", "parameters": SCHEMA, "strict": True}
R_MODEL = "gpt-5.6"


def o_client(url):
    return openai.OpenAI(api_key="key", base_url=f"{url}/v1", timeout=TIMEOUT_S, max_retries=0)


def r_ask(url, items, is_streamed, **more):
    request = {"model": R_MODEL, "input": items, "store": False, **more}
    if not is_streamed:
        return o_client(url).responses.create(**request)
    with o_client(url).responses.stream(**request) as stream:
        kinds = [event.type for event in stream]
        response = stream.get_final_response()
    equal(kinds[0], "response.created")
    assert "keepalive" in kinds and "response.fake_event" in kinds, kinds
    return response


for streamed in (False, True):
    way = "streamed" if streamed else "whole"

    @case("openai responses", f"text, {way}", SCRIPTS["text"])
    def _(url, streamed=streamed):
        response = r_ask(url, "Tide pools?", streamed)
        equal((response.output_text, response.status), ("".join(TEXT), "completed"))
        usage = response.usage
        equal(usage.total_tokens, usage.input_tokens + usage.output_tokens)
        equal(usage.input_tokens_details.cached_tokens, 0)

    @case("openai responses", f"tool round trip, {way}", SCRIPTS["tools"])
    def _(url, streamed=streamed):
        items = [{"role": "user", "content": "Weather?"}]
        first = r_ask(url, items, streamed, tools=[R_TOOL])
        equal((first.output_text, first.output[0].phase), ("Let me look.", "commentary"))
        call = first.output[-1]
        equal((call.name, json.loads(call.arguments)), ("weather", WEATHER))
        items += [
            item.model_dump(exclude_none=True, exclude={"parsed_arguments": True, "content": {"__all__": {"parsed"}}})
            for item in first.output
        ]
        items += [{"type": "function_call_output", "call_id": call.call_id, "output": "Sunny"}]
        equal(r_ask(url, items, streamed, tools=[R_TOOL]).output_text, "".join(TEXT))

    @case("openai responses", f"reasoning round trip, {way}", SCRIPTS["thinking"])
    def _(url, streamed=streamed):
        items = [{"role": "user", "content": "Weather?"}]
        more = {"tools": [R_TOOL], "reasoning": {"effort": "low", "summary": "auto"}}
        first = r_ask(url, items, streamed, **more)
        thought, call = first.output
        equal((thought.summary[0].text, thought.type), ("The user asks.", "reasoning"))
        back = [item.model_dump(exclude_none=True, exclude={"parsed_arguments"}) for item in first.output]
        output = {"type": "function_call_output", "call_id": call.call_id, "output": "Sunny"}
        second = r_ask(url, [*items, *back, output], streamed, **more)
        equal((second.output_text, second.input_transformations), ("".join(TEXT), []))
        error = raises(openai.BadRequestError, lambda: r_ask(url, [*items, back[1], output], streamed, **more))
        assert "without its required 'reasoning' item" in error.message
        error = raises(openai.BadRequestError, lambda: r_ask(url, [*items, back[0], user("Now?")], streamed, **more))
        assert "without its required following item" in error.message
        moved = r_ask(url, [user("Other?"), *back, output], streamed, **more)
        equal(moved.input_transformations[0].reason, "prefix_mismatch")

    @case("openai responses", f"structured output, {way}")
    def _(url, streamed=streamed):
        form = {"format": {"type": "json_schema", "name": "answer", "schema": ANSWER, "strict": True}}
        equal(json.loads(r_ask(url, "Good?", streamed, text=form).output_text), {"status": "approved", "score": 1})

    @case("openai responses", f"prompt cache, {way}")
    def _(url, streamed=streamed):
        items = [{"role": "developer", "content": LONG}, user("One")]
        first = r_ask(url, items, streamed, prompt_cache_key="k")
        details = first.usage.input_tokens_details
        equal((details.cached_tokens, details.cache_write_tokens), (0, first.usage.input_tokens))
        equal(details.cache_write_tokens_details.ttl_30m_tokens, details.cache_write_tokens)
        items += [{"role": "assistant", "content": first.output_text}, user("Two")]
        options = {"comparison_response_id": first.id}
        second = r_ask(url, items, streamed, prompt_cache_key="k", prompt_cache_options=options)
        equal(second.usage.input_tokens_details.cached_tokens, first.usage.input_tokens)
        equal(second.prompt_cache_diagnostics.type, "cache_hit")
        third = r_ask(url, items, streamed, prompt_cache_key="other", prompt_cache_options=options)
        equal(third.usage.input_tokens_details.cached_tokens, 0)
        equal(third.prompt_cache_diagnostics.reason, "prompt_cache_key_changed")


@case(
    "openai responses",
    "errors",
    [
        {
            "status": 429,
            "body": {
                "error": {"message": "m", "type": "insufficient_quota", "param": None, "code": "insufficient_quota"}
            },
        }
    ],
)
def _(url):
    error = raises(openai.RateLimitError, lambda: r_ask(url, "x", False))
    equal(error.code, "insufficient_quota")
    error = raises(openai.BadRequestError, lambda: r_ask(url, "x", False, temperature=0.5))
    equal(error.param, "temperature")
    error = raises(openai.BadRequestError, lambda: r_ask(url, "x", True, extra_body={"seed": 1}))
    equal((error.code, error.param), ("unknown_parameter", "seed"))
    assert R_MODEL in [model.id for model in o_client(url).models.list()]


@case(
    "openai responses",
    "ends of a stream",
    [
        {"text": TEXT, "error_after": 8},
        {"text": TEXT, "end_after": 8},
        {"text": TEXT, "stop": "length"},
        {"text": TEXT, "stop": "failed"},
        {"text": ["I cannot."], "stop": "refusal"},
    ],
)
def _(url):
    def events():
        return list(o_client(url).responses.create(model=R_MODEL, input="x", stream=True))

    equal(events()[-1].type, "error")
    assert events()[-1].type != "response.completed"
    equal(events()[-1].response.incomplete_details.reason, "max_output_tokens")
    equal(events()[-1].response.error.code, "server_error")
    equal(events()[-1].response.output[-1].content[0].refusal, "I cannot.")


# OpenAI chat completions.

C_TOOL = {"type": "function", "function": {key: R_TOOL[key] for key in ("name", "description", "parameters", "strict")}}


def c_ask(url, messages, is_streamed, **more):
    request = {"model": "gpt-4.1", "messages": messages, **more}
    if not is_streamed:
        return o_client(url).chat.completions.create(**request)
    with o_client(url).chat.completions.stream(**request, stream_options={"include_usage": True}) as stream:
        for _ in stream:
            pass
        return stream.get_final_completion()


for streamed in (False, True):
    way = "streamed" if streamed else "whole"

    @case("openai chat", f"text, {way}", SCRIPTS["text"])
    def _(url, streamed=streamed):
        completion = c_ask(url, [user("Tide pools?")], streamed)
        equal((completion.choices[0].message.content, completion.choices[0].finish_reason), ("".join(TEXT), "stop"))
        usage = completion.usage
        equal(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens)

    @case("openai chat", f"tool round trip, {way}", SCRIPTS["tools"])
    def _(url, streamed=streamed):
        messages = [user("Weather?")]
        first = c_ask(url, messages, streamed, tools=[C_TOOL]).choices[0]
        equal(first.finish_reason, "tool_calls")
        call = first.message.tool_calls[0]
        equal((call.function.name, json.loads(call.function.arguments)), ("weather", WEATHER))
        answer = first.message.model_dump(
            exclude_none=True, exclude={"parsed": True, "tool_calls": {"__all__": {"function": {"parsed_arguments"}}}}
        )
        messages += [answer, {"role": "tool", "tool_call_id": call.id, "content": "Sunny"}]
        equal(c_ask(url, messages, streamed, tools=[C_TOOL]).choices[0].message.content, "".join(TEXT))
        error = raises(openai.BadRequestError, lambda: c_ask(url, messages[:2], streamed, tools=[C_TOOL]))
        assert "must be followed by tool messages" in error.message

    @case("openai chat", f"structured output, {way}")
    def _(url, streamed=streamed):
        form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": ANSWER, "strict": True}}
        completion = c_ask(url, [user("Good?")], streamed, response_format=form)
        equal(json.loads(completion.choices[0].message.content), {"status": "approved", "score": 1})

    @case("openai chat", f"prompt cache, {way}")
    def _(url, streamed=streamed):
        messages = [{"role": "system", "content": LONG}, user("One")]
        first = c_ask(url, messages, streamed)
        equal(first.usage.prompt_tokens_details.cached_tokens, 0)
        messages += [{"role": "assistant", "content": first.choices[0].message.content}, user("Two")]
        cached = c_ask(url, messages, streamed).usage.prompt_tokens_details.cached_tokens
        assert cached % 128 == 0 and first.usage.prompt_tokens - 128 <= cached <= first.usage.prompt_tokens, cached


@case("openai chat", "errors", [{"status": 503}, {"text": TEXT, "error_after": 3}])
def _(url):
    equal(raises(openai.InternalServerError, lambda: c_ask(url, [user("x")], False)).status_code, 503)
    raises(openai.APIError, lambda: c_ask(url, [user("x")], True))
    error = raises(openai.BadRequestError, lambda: c_ask(url, [user("x")], True, extra_body={"cache_control": {}}))
    assert "Unrecognized request argument" in error.message
    error = raises(
        openai.BadRequestError, lambda: c_ask(url, [user("x")], False, extra_body={"model": "gpt-5", "max_tokens": 5})
    )
    equal(error.code, "unsupported_parameter")


# Gemini.

G_MODEL = "gemini-3-pro"


@functools.cache
def g_client(url):
    """Kept, because this client closes its connections when nobody holds it."""
    options = genai_types.HttpOptions(base_url=url, timeout=TIMEOUT_S * 1000)
    return genai.Client(api_key="key", http_options=options)


def g_ask(url, contents, is_streamed, model=G_MODEL, **config):
    config = genai_types.GenerateContentConfig(
        automatic_function_calling=genai_types.AutomaticFunctionCallingConfig(disable=True), **config
    )
    if not is_streamed:
        return [g_client(url).models.generate_content(model=model, contents=contents, config=config)]
    return list(g_client(url).models.generate_content_stream(model=model, contents=contents, config=config))


def g_parts(chunks):
    return [part for chunk in chunks for part in chunk.candidates[0].content.parts]


def g_text(chunks):
    return "".join(part.text or "" for part in g_parts(chunks) if not part.thought)


def g_user(text):
    return genai_types.Content(role="user", parts=[genai_types.Part(text=text)])


G_TOOL = genai_types.Tool(
    function_declarations=[
        genai_types.FunctionDeclaration(name="weather", description="The weather.", parameters_json_schema=SCHEMA)
    ]
)

for streamed in (False, True):
    way = "streamed" if streamed else "whole"

    @case("google-genai", f"text, {way}", SCRIPTS["text"])
    def _(url, streamed=streamed):
        chunks = g_ask(url, "Tide pools?", streamed)
        equal(g_text(chunks), "".join(TEXT))
        equal(chunks[-1].candidates[0].finish_reason.value, "STOP")
        usage = chunks[-1].usage_metadata
        equal(
            usage.total_token_count,
            usage.prompt_token_count + usage.candidates_token_count + (usage.thoughts_token_count or 0),
        )

    @case("google-genai", f"tool and thought round trip, {way}", SCRIPTS["thinking"])
    def _(url, streamed=streamed):
        contents = [g_user("Weather?")]
        more = {"tools": [G_TOOL], "thinking_config": genai_types.ThinkingConfig(include_thoughts=True)}
        parts = g_parts(g_ask(url, contents, streamed, **more))
        equal("".join(part.text for part in parts if part.thought), "The user asks.")
        call = parts[-1]
        equal((call.function_call.name, dict(call.function_call.args)), ("weather", WEATHER))
        response = genai_types.FunctionResponse(id=call.function_call.id, name="weather", response={"output": "Sunny"})
        result = genai_types.Content(role="user", parts=[genai_types.Part(function_response=response)])
        contents += [genai_types.Content(role="model", parts=[call]), result]
        chunks = g_ask(url, contents, streamed, **more)
        equal(g_text(chunks), "".join(TEXT))
        assert g_parts(chunks)[-1].thought_signature
        bare = genai_types.Part(function_call=call.function_call)
        contents[1] = genai_types.Content(role="model", parts=[bare])
        error = raises(genai_errors.ClientError, lambda: g_ask(url, contents, streamed, **more))
        assert "missing a thought_signature" in error.message
        bare.thought_signature = b"skip_thought_signature_validator"
        g_ask(url, contents, streamed, **more)
        # Of earlier turns, nothing is checked.
        bare.thought_signature = None
        g_ask(
            url,
            [*contents, genai_types.Content(role="model", parts=[genai_types.Part(text="So.")]), g_user("And?")],
            streamed,
            **more,
        )

    @case("google-genai", f"structured output, {way}")
    def _(url, streamed=streamed):
        chunks = g_ask(url, "Good?", streamed, response_mime_type="application/json", response_json_schema=ANSWER)
        equal(json.loads(g_text(chunks)), {"status": "approved", "score": 1})

    @case("google-genai", f"prompt cache, {way}")
    def _(url, streamed=streamed):
        contents = [g_user("One")]
        first = g_ask(url, contents, streamed, system_instruction=LONG)[-1].usage_metadata
        equal(first.cached_content_token_count, None)
        contents += [genai_types.Content(role="model", parts=[genai_types.Part(text="So.")]), g_user("Two")]
        second = g_ask(url, contents, streamed, system_instruction=LONG)[-1].usage_metadata
        equal(second.cached_content_token_count, first.prompt_token_count)


@case(
    "google-genai",
    "errors",
    [{"status": 503}, {"text": TEXT, "error_after": 2}, {"text": TEXT, "end_after": 2}, {"stop": "blocked"}],
)
def _(url):
    error = raises(genai_errors.ServerError, lambda: g_ask(url, "x", False))
    equal((error.code, error.status), (503, "UNAVAILABLE"))
    raises(genai_errors.ServerError, lambda: g_ask(url, "x", True))
    # Cut between two events, it is a success without a reason to this client.
    equal(g_ask(url, "x", True)[-1].candidates[0].finish_reason, None)
    equal(g_ask(url, "x", True)[-1].prompt_feedback.block_reason.value, "PROHIBITED_CONTENT")
    thinking = genai_types.ThinkingConfig(thinking_budget=100, thinking_level="low")
    error = raises(genai_errors.ClientError, lambda: g_ask(url, "x", False, thinking_config=thinking))
    equal((error.code, error.status), (400, "INVALID_ARGUMENT"))
    assert f"models/{G_MODEL}" in [model.name for model in g_client(url).models.list()]


if __name__ == "__main__":
    play(f"anthropic {anthropic.__version__}, openai {openai.__version__}, google-genai {genai.__version__}")
