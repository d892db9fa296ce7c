"""OpenAI's chat completions (<https://platform.openai.com/docs/api-reference/chat/create>), for others' servers too."""

from answers import Results, View
from exchange import CREATED, Turn, digest, dumps, event, parsed
from openai_shared import Cache, Model, check_function, check_key, check_schema, check_shared, error, headers, refuse
from prompt import Prompt, tokens

NAME = "openai_chat"
MEMBERS = {
    "messages",
    "model",
    "audio",
    "frequency_penalty",
    "function_call",
    "functions",
    "logit_bias",
    "logprobs",
    "max_completion_tokens",
    "max_tokens",
    "metadata",
    "modalities",
    "moderation",
    "n",
    "parallel_tool_calls",
    "prediction",
    "presence_penalty",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "reasoning_effort",
    "response_format",
    "safety_identifier",
    "seed",
    "service_tier",
    "stop",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "user",
    "verbosity",
    "web_search_options",
}
STOPS = {"end": "stop", "length": "length", "tool": "tool_calls", "refusal": "content_filter"}
ROLES = ("system", "developer", "user", "assistant", "tool")


class Protocol:
    name = NAME

    def __init__(self):
        self.cache = Cache()

    def read(self, request, now):
        check_key(request)
        body = parsed(request.body, refuse)
        for name in body:
            if name not in MEMBERS:
                refuse(f"Unrecognized request argument supplied: {name}")
        if not isinstance(body.get("model"), str):
            refuse("you must provide a model parameter")
        if not isinstance(body.get("messages"), list) or not body["messages"]:
            refuse("Missing required parameter: 'messages'.", "messages", "missing_required_parameter")
        check_shared(body)
        self._parameters(body)
        form = body.get("response_format") or {}
        named = form.get("json_schema") or {}
        if form.get("type") == "json_schema":
            check_function(named.get("name"), "response_format.json_schema.name")
            if named.get("strict"):
                check_schema(named.get("schema"), f"response_format '{named['name']}'", "response_format")
        tools = _tools(body)
        prompt = Prompt()
        prompt.separate(
            dumps(
                [
                    body["model"],
                    body.get("prompt_cache_key") if Model(body["model"]).has_points else None,
                    body.get("service_tier"),
                    form,
                    body.get("reasoning_effort"),
                    body.get("verbosity"),
                    body.get("parallel_tool_calls"),
                ]
            )
        )
        for tool in body.get("tools") or []:
            prompt.add(dumps(tool))
        system, places, results = self._messages(prompt, body["messages"])
        choice = body.get("tool_choice")
        forced = choice["function"]["name"] if isinstance(choice, dict) and "function" in choice else None
        forced = "none" if choice == "none" else (tools[0][0] if choice == "required" and tools else forced)
        view = View(
            system=system,
            tools=tools,
            results=results,
            schema=named.get("schema"),
            any_object=form.get("type") == "json_object",
            forced=forced,
        )
        turn = Turn(request, body["model"], prompt, view, body.get("stream") is True)
        turn.facts = {"body": body}
        self.cache.account(turn, places, body, now)
        return turn

    def _parameters(self, body):
        if not Model(body["model"]).reasons:
            return
        if "max_tokens" in body:
            refuse(
                "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens'"
                " instead.",
                "max_tokens",
                "unsupported_parameter",
            )
        for name in ("temperature", "top_p"):
            if body.get(name) not in (None, 1):
                refuse(
                    f"Unsupported value: '{name}' does not support {body[name]} with this model. Only the default (1)"
                    " value is supported.",
                    name,
                    "unsupported_value",
                )
        for name in ("stop", "frequency_penalty", "presence_penalty"):
            if body.get(name):
                refuse(
                    f"Unsupported parameter: '{name}' is not supported with this model.", name, "unsupported_parameter"
                )

    def _messages(self, prompt, messages):
        system, results = [], Results()
        places = {"ends": [], "points": [], "marks": []}
        first_role_ends, wanted, caller = False, [], 0
        for at, message in enumerate(messages):
            role = message.get("role") if isinstance(message, dict) else None
            if role not in ROLES:
                refuse(
                    f"Invalid value: '{role}'. Supported values are: {', '.join(repr(one) for one in ROLES)}.",
                    f"messages[{at}].role",
                    "invalid_value",
                )
            if role == "tool":
                call = message.get("tool_call_id")
                if call not in wanted:
                    refuse(
                        "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with "
                        "'tool_calls'.",
                        f"messages.[{at}].role",
                    )
                wanted.remove(call)
                results.came()
            elif wanted:
                _unanswered(wanted, caller)
            elif role == "user":
                results.turn_begins()
            text = _text(message.get("content"), at, role)
            calls = message.get("tool_calls") or []
            if text is None and not calls and not message.get("refusal") and "function_call" not in message:
                refuse("Invalid value for 'content': expected a string, got null.", f"messages.[{at}].content")
            if "tool_calls" in message and not calls:
                refuse(
                    f"Invalid 'messages[{at}].tool_calls': empty array. Expected an array with minimum length 1, but"
                    " got an empty array instead.",
                    f"messages[{at}].tool_calls",
                    "empty_array",
                )
            for call in calls:
                if not isinstance(call.get("function", {}).get("arguments"), str):
                    refuse(
                        f"Invalid type for 'messages[{at}].tool_calls[0].function.arguments': expected a string.",
                        f"messages[{at}].tool_calls[0].function.arguments",
                        "invalid_type",
                    )
                wanted.append(call.get("id"))
                caller = at
            if role in ("system", "developer"):
                system.append(text or "")
            elif not first_role_ends:
                prompt.head_ends()
                first_role_ends = True
            segment, mark = prompt.add(dumps(_without_marks(message))), _mark(message.get("content"))
            if mark:
                places["marks"].append((segment, mark.get("ttl")))
            places["ends"].append(segment)
            if role in ("user", "tool") or (role in ("system", "developer") and not places["points"]):
                places["points"].append(segment)
        if wanted:
            _unanswered(wanted, caller)
        return "\n\n".join(system), places, results

    # What is answered.

    def _calls(self, turn, answer):
        return [
            {
                "id": turn.request.identifier("call_", str(at)),
                "type": "function",
                "function": {"name": name, "arguments": text},
            }
            for at, (name, text) in enumerate(answer.calls)
        ]

    def _usage(self, turn, answer):
        thought = sum(map(tokens, answer.thinking or []))
        output = thought + tokens(answer.whole_text()) + sum(tokens(name + text) for name, text in answer.calls)
        return {
            "prompt_tokens": turn.prompt.total(),
            "completion_tokens": output,
            "total_tokens": turn.prompt.total() + output,
            "prompt_tokens_details": {
                "cached_tokens": turn.cached,
                "cache_write_tokens": turn.written,
                "audio_tokens": 0,
            },
            "completion_tokens_details": {
                "reasoning_tokens": thought,
                "audio_tokens": 0,
                "accepted_prediction_tokens": 0,
                "rejected_prediction_tokens": 0,
            },
        }

    def _frame(self, turn, kind):
        return {
            "id": turn.request.identifier("chatcmpl-"),
            "object": kind,
            "created": CREATED,
            "model": turn.model,
            "service_tier": "default",
            "system_fingerprint": None,
        }

    def whole(self, turn, answer):
        message = {"role": "assistant", "content": answer.whole_text() or None, "refusal": None, "annotations": []}
        if answer.thinking:
            # Not OpenAI's: the member of DeepSeek and others, when a script asks for it.
            message["reasoning_content"] = "".join(answer.thinking)
        if answer.calls:
            message["tool_calls"] = self._calls(turn, answer)
        stop = STOPS.get(answer.reason(), answer.reason())
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": stop}
        return {**self._frame(turn, "chat.completion"), "choices": [choice], "usage": self._usage(turn, answer)}

    def events(self, turn, answer):
        frame, made = self._frame(turn, "chat.completion.chunk"), []
        options = turn.facts["body"].get("stream_options") or {}
        wants_usage = options.get("include_usage") is True

        def chunk(delta, stop=None):
            choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": stop}
            value = {**frame, "choices": [choice], **({"usage": None} if wants_usage else {})}
            if options.get("include_obfuscation") is not False:
                value["obfuscation"] = digest(str(len(made)))[: 3 + len(made) % 9]
            made.append(event(value))

        chunk({"role": "assistant", "content": None if answer.calls else "", "refusal": None})
        for piece in answer.thinking or []:
            chunk({"reasoning_content": piece})
        for piece in answer.text:
            chunk({"content": piece})
        for at, call in enumerate(self._calls(turn, answer)):
            text = call["function"]["arguments"]
            chunk(
                {"tool_calls": [{"index": at, **call, "function": {"name": call["function"]["name"], "arguments": ""}}]}
            )
            for start in range(0, len(text), 7):
                chunk({"tool_calls": [{"index": at, "function": {"arguments": text[start : start + 7]}}]})
        chunk({}, STOPS.get(answer.reason(), answer.reason()))
        if wants_usage:
            made.append(event({**frame, "choices": [], "usage": self._usage(turn, answer)}))
        made.append(b"data: [DONE]\n\n")
        return made

    def error_event(self):
        return event(error(500))

    def error(self, status):
        return error(status)

    def headers(self, turn):
        return headers(turn)


def _tools(body):
    tools = []
    for at, tool in enumerate(body.get("tools") or []):
        function = tool.get("function") if isinstance(tool, dict) else None
        if not isinstance(function, dict):
            refuse(
                f"Missing required parameter: 'tools[{at}].function'.",
                f"tools[{at}].function",
                "missing_required_parameter",
            )
        check_function(function.get("name"), f"tools[{at}].function.name")
        if function.get("strict"):
            check_schema(
                function.get("parameters"), f"function '{function['name']}'", f"tools[{at}].function.parameters"
            )
        tools.append((function["name"], function.get("parameters") or {}))
    return tools


def _unanswered(calls, at):
    refuse(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'."
        f" The following tool_call_ids did not have response messages: {', '.join(map(str, calls))}",
        f"messages.[{at + 1}].role",
    )


def _text(content, at, role):
    if content is None or isinstance(content, str):
        return content
    texts = []
    for index, part in enumerate(content):
        kinds = ("text", "refusal") if role == "assistant" else ("text", "image_url", "input_audio", "file")
        if part.get("type") not in kinds:
            refuse(f"Invalid value: '{part.get('type')}'.", f"messages[{at}].content[{index}].type", "invalid_value")
        texts.append(part.get("text") or "")
    return "".join(texts)


def _mark(content):
    parts = content if isinstance(content, list) else []
    return next(
        (part["prompt_cache_breakpoint"] for part in reversed(parts) if part.get("prompt_cache_breakpoint")), None
    )


def _without_marks(message):
    content = message.get("content")
    if not isinstance(content, list):
        return message
    hidden = ("prompt_cache_breakpoint", "cache_control")
    parts = [{name: value for name, value in part.items() if name not in hidden} for part in content]
    # A text in one part is the same text.
    is_plain = len(parts) == 1 and parts[0].keys() == {"type", "text"}
    return {**message, "content": parts[0]["text"] if is_plain else parts}
