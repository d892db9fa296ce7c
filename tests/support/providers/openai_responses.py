"""OpenAI's Responses (<https://platform.openai.com/docs/api-reference/responses>)."""

import hashlib
from collections import OrderedDict

from answers import Results, View
from exchange import CREATED, Turn, digest, dumps, event, parsed, seal, unseal
from openai_shared import Cache, Model, check_function, check_key, check_schema, check_shared, error, headers, refuse
from prompt import Prompt, tokens

NAME = "openai_responses"
MAX_RECORDS = 4096
MEMBERS = {
    "access_programs",
    "background",
    "background_options",
    "context_management",
    "conversation",
    "image",
    "include",
    "input",
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "model",
    "moderation",
    "parallel_tool_calls",
    "previous_response_id",
    "prompt",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "reasoning",
    "safety_identifier",
    "service_tier",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "truncation",
    "user",
}
ITEM_MEMBERS = {
    "message": {"type", "role", "content", "id", "status", "phase"},
    "reasoning": {"type", "id", "summary", "content", "encrypted_content", "status"},
    "function_call": {"type", "call_id", "name", "arguments", "id", "status", "namespace", "caller", "async"},
    "function_call_output": {"type", "call_id", "output", "id", "status"},
}
LENGTH = "max_output_tokens"


class Protocol:
    name = NAME

    def __init__(self):
        self.cache = Cache()
        self.records, self.stored = OrderedDict(), OrderedDict()
        # The reasoning that each call came with.
        self.reasoning_of = OrderedDict()

    def read(self, request, now):
        check_key(request)
        body = parsed(request.body, refuse)
        for name in body:
            if name not in MEMBERS:
                refuse(f"Unknown parameter: '{name}'.", name, "unknown_parameter")
        for name in ("model", "input"):
            if name not in body:
                refuse(f"Missing required parameter: '{name}'.", name, "missing_required_parameter")
        if body["model"].startswith(("claude-", "gemini-")):
            refuse(f"The requested model '{body['model']}' does not exist.", "model", "model_not_found")
        check_shared(body)
        if body.get("previous_response_id"):
            refuse(
                f"Previous response with id '{body['previous_response_id']}' not found.",
                "previous_response_id",
                "previous_response_not_found",
            )
        model, reasoning, form = (
            Model(body["model"]),
            body.get("reasoning") or {},
            (body.get("text") or {}).get("format") or {},
        )
        self._parameters(body, model, reasoning, form)
        tools = _tools(body)
        prompt = Prompt()
        settings = {
            "model": body["model"],
            "prompt_cache_key": body.get("prompt_cache_key") if model.has_points else None,
            "service_tier": body.get("service_tier"),
            "text_format": form,
            "reasoning_effort": reasoning.get("effort"),
            "verbosity": (body.get("text") or {}).get("verbosity"),
            "parallel": body.get("parallel_tool_calls", True),
        }
        prompt.separate(dumps(settings))
        for tool in body.get("tools") or []:
            prompt.add(dumps(tool))
        # What reasoning is bound to: everything in front of it.
        prefix = hashlib.sha256(dumps([body.get("tools"), body.get("instructions")]).encode())
        if body.get("instructions"):
            prompt.add(f"instructions {body['instructions']}")
        turn = Turn(request, body["model"], prompt, None, body.get("stream") is True)
        turn.facts = {"body": body, "prefix": prefix, "transformations": [], "reasoning": reasoning}
        system, places, results = self._items(turn, body)
        choice = body.get("tool_choice")
        forced = choice.get("name") if isinstance(choice, dict) else None
        forced = "none" if choice == "none" else (tools[0][0] if choice == "required" and tools else forced)
        turn.view = View(
            system="\n\n".join([body.get("instructions") or "", *system]),
            tools=tools,
            results=results,
            schema=form.get("schema"),
            any_object=form.get("type") == "json_object",
            forced=forced,
            thinks=model.reasons and reasoning.get("effort") != "none",
            shows_thinking=bool(reasoning.get("summary")),
        )
        turn.facts["ttls"] = self.cache.account(turn, places, body, now)
        self._diagnose(turn, settings, body)
        return turn

    def _parameters(self, body, model, reasoning, form):
        for name in ("temperature", "top_p"):
            if model.reasons and reasoning.get("effort") != "none" and body.get(name) is not None:
                refuse(f"Unsupported parameter: '{name}' is not supported with this model.", name)
        if reasoning.get("effort") is not None and not model.reasons:
            refuse(
                "Unsupported parameter: 'reasoning.effort' is not supported with this model.",
                "reasoning.effort",
                "unsupported_parameter",
            )
        ceiling = body.get("max_output_tokens")
        if ceiling is not None and (not isinstance(ceiling, int) or ceiling < 16):
            refuse(
                f"Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got {ceiling}"
                " instead.",
                "max_output_tokens",
                "integer_below_min_value",
            )
        if form.get("type") == "json_schema":
            check_function(form.get("name"), "text.format.name")
            if form.get("strict", True):
                check_schema(form.get("schema"), f"response_format '{form['name']}'", "text.format.schema")

    def _items(self, turn, body):
        prompt, prefix = turn.prompt, turn.facts["prefix"]
        items = body["input"]
        items = [{"role": "user", "content": items}] if isinstance(items, str) else items
        if not isinstance(items, list) or not items:
            refuse("Invalid 'input': expected a string or a list of items.", "input", "invalid_type")
        system, places = [], {"ends": [], "points": [], "marks": []}
        head_is_over, results, calls, answered = False, Results(), {}, set()
        behind = None
        for at, item in enumerate(items):
            kind = item.get("type", "message") if isinstance(item, dict) else None
            if kind not in ITEM_MEMBERS:
                refuse(
                    f"Invalid value: '{kind}'. Supported values are: {', '.join(ITEM_MEMBERS)}.",
                    f"input[{at}]",
                    "invalid_value",
                )
            for name in item:
                if name not in ITEM_MEMBERS[kind]:
                    refuse(f"Unknown parameter: 'input[{at}].{name}'.", f"input[{at}].{name}", "unknown_parameter")
            if kind == "reasoning":
                if behind:
                    _unfollowed(behind)
                behind = item
                self._reasoning(turn, item, at)
                continue
            if behind and (kind == "function_call_output" or item.get("role") not in (None, "assistant")):
                _unfollowed(behind)
            role = item.get("role") if kind == "message" else None
            marks = []
            if kind == "message":
                marks = _message(item, at)
                if role == "user":
                    results.turn_begins()
            elif kind == "function_call":
                if not isinstance(item.get("arguments"), str):
                    refuse(
                        f"Invalid type for 'input[{at}].arguments': expected a string.",
                        f"input[{at}].arguments",
                        "invalid_type",
                    )
                check_function(item.get("name"), f"input[{at}].name")
                needed = self.reasoning_of.get(item.get("id"))
                if needed and not any(one.get("id") == needed for one in items[:at] if isinstance(one, dict)):
                    refuse(
                        f"Item '{item['id']}' of type 'function_call' was provided without its required 'reasoning'"
                        f" item: '{needed}'.",
                        "input",
                    )
                calls[item.get("call_id")] = at
            else:
                if item.get("call_id") not in calls:
                    refuse(f"No tool call found for function call output with call_id {item.get('call_id')}.", "input")
                if not isinstance(item.get("output"), (str, list)):
                    refuse(
                        f"Invalid type for 'input[{at}].output': expected a string.",
                        f"input[{at}].output",
                        "invalid_type",
                    )
                answered.add(item["call_id"])
                results.came()
            behind = None
            if role in ("system", "developer"):
                system.append(_text(item))
            elif not head_is_over:
                prompt.head_ends()
                head_is_over = True
            text = dumps(_essence(item))
            segment = prompt.add(text)
            prefix.update(text.encode("utf-8", "surrogatepass"))
            places["marks"].extend((segment, mark.get("ttl")) for mark in marks[-1:])
            follows = items[at + 1].get("type") if at + 1 < len(items) and isinstance(items[at + 1], dict) else None
            is_group_end = kind == "function_call_output" and follows != "function_call_output"
            if kind == "message" or is_group_end:
                places["ends"].append(segment)
            if role == "user" or is_group_end or (role == "developer" and not places["points"]):
                places["points"].append(segment)
        if behind:
            _unfollowed(behind)
        for call in calls:
            if call not in answered:
                refuse(f"No tool output found for function call {call}.", "input")
        return system, places, results

    def _reasoning(self, turn, item, at):
        """Reasoning that comes back: only what was sent, and withheld without an error where it does not belong."""
        for name in ("id", "summary"):
            if name not in item:
                refuse(
                    f"Missing required parameter: 'input[{at}].{name}'.",
                    f"input[{at}].{name}",
                    "missing_required_parameter",
                )
        if item.get("encrypted_content") is None:
            if item["id"] not in self.stored:
                refuse(
                    f"Item with id '{item['id']}' not found. Items are not persisted when `store` is set to false. Try"
                    " again with `store` set to true, or remove this item from your input.",
                    "input",
                    status=404,
                )
            turn.prompt.add(f"reasoning {item['id']}")
            return
        facts = unseal(item["encrypted_content"])
        if not facts or facts["id"] != item["id"]:
            refuse(
                f"The encrypted content for item {item['id']} could not be verified. Reason: Encrypted content could"
                " not be decrypted or parsed.",
                None,
                "invalid_encrypted_content",
            )
        reason = None
        if facts["model"] != turn.model:
            reason = "model_mismatch"
        elif facts["prefix"] != turn.facts["prefix"].copy().hexdigest()[:32]:
            reason = "prefix_mismatch"
        if reason:
            turn.facts["transformations"].append(
                {"id": item["id"], "action": "removed", "reason": reason, "type": "reasoning"}
            )
            return
        turn.prompt.add(f"reasoning {item['encrypted_content']}")

    def _diagnose(self, turn, settings, body):
        turn.facts["diagnostics"] = None
        own = turn.request.identifier("resp_")
        self.records[own] = (settings, dumps(body.get("tools")), turn.prompt)
        while len(self.records) > MAX_RECORDS:
            self.records.popitem(last=False)
        compared = (body.get("prompt_cache_options") or {}).get("comparison_response_id")
        if not compared:
            return
        if compared not in self.records:
            turn.facts["diagnostics"] = {"type": "comparison_response_not_found"}
            return
        theirs, their_tools, their_prompt = self.records[compared]
        order = ("model", "prompt_cache_key", "service_tier")
        reason = next((f"{name}_changed" for name in order if settings[name] != theirs[name]), None)
        reason = reason or ("tools_changed" if dumps(body.get("tools")) != their_tools else None)
        order = ("text_format", "reasoning_effort", "verbosity")
        reason = reason or next((f"{name}_changed" for name in order if settings[name] != theirs[name]), None)
        shared = turn.prompt.shared_tokens(their_prompt)
        if reason is None and shared < their_prompt.total():
            reason = "input_changed"
        turn.facts["diagnostics"] = (
            {"type": "cache_hit"}
            if reason is None
            else {
                "type": "cache_miss",
                "reason": reason,
                "cache_missed_tokens": turn.prompt.total() - shared,
                "comparison_reusable_tokens": shared,
            }
        )

    # What is answered.

    def _output(self, turn, answer):
        """The items of an answer."""
        request, items, behind = turn.request, [], None
        if answer.thinking is not None:
            own = request.identifier("rs_")
            facts = {"id": own, "model": turn.model, "prefix": turn.facts["prefix"].copy().hexdigest()[:32]}
            text = "".join(answer.thinking)
            summary = [{"type": "summary_text", "text": text}] if text else []
            items.append({"id": own, "type": "reasoning", "summary": summary, "encrypted_content": seal(**facts)})
            behind = own
        if answer.text:
            kind = "refusal" if answer.reason() == "refusal" else "output_text"
            part = {"type": kind, kind.removeprefix("output_"): answer.whole_text()}
            part |= {"annotations": [], "logprobs": []} if kind == "output_text" else {}
            items.append(
                {
                    "id": request.identifier("msg_"),
                    "type": "message",
                    "status": "completed",
                    "role": "assistant",
                    "phase": "commentary" if answer.calls else "final_answer",
                    "content": [part],
                }
            )
        for at, (name, arguments) in enumerate(answer.calls):
            own = request.identifier("fc_", str(at))
            if behind:
                self.reasoning_of[own] = behind
                while len(self.reasoning_of) > MAX_RECORDS:
                    self.reasoning_of.popitem(last=False)
            items.append(
                {
                    "id": own,
                    "type": "function_call",
                    "status": "completed",
                    "name": name,
                    "arguments": arguments,
                    "call_id": request.identifier("call_", str(at)),
                }
            )
        if turn.facts["body"].get("store", True):
            for item in items:
                self.stored[item["id"]] = True
            while len(self.stored) > MAX_RECORDS:
                self.stored.popitem(last=False)
        return items

    def _usage(self, turn, items):
        thought = sum(tokens(dumps(item)) for item in items if item["type"] == "reasoning")
        output = thought + sum(tokens(dumps(item)) for item in items if item["type"] != "reasoning")
        details = {"cached_tokens": turn.cached, "cache_write_tokens": turn.written}
        if turn.facts["ttls"]:
            details["cache_write_tokens_details"] = turn.facts["ttls"]
        return {
            "input_tokens": turn.prompt.total(),
            "input_tokens_details": details,
            "output_tokens": output,
            "output_tokens_details": {"reasoning_tokens": thought},
            "total_tokens": turn.prompt.total() + output,
        }

    def _response(self, turn, status, items, usage, reason=None):
        body = turn.facts["body"]
        return {
            "id": turn.request.identifier("resp_"),
            "object": "response",
            "created_at": CREATED,
            "status": status,
            "background": False,
            "error": None,
            "incomplete_details": {"reason": reason} if reason else None,
            "input_transformations": turn.facts["transformations"],
            "instructions": body.get("instructions"),
            "max_output_tokens": body.get("max_output_tokens"),
            "max_tool_calls": None,
            "model": turn.model,
            "output": items,
            "parallel_tool_calls": body.get("parallel_tool_calls", True),
            "previous_response_id": None,
            "prompt_cache_diagnostics": turn.facts["diagnostics"],
            "prompt_cache_key": body.get("prompt_cache_key"),
            "reasoning": {
                "effort": turn.facts["reasoning"].get("effort"),
                "summary": turn.facts["reasoning"].get("summary"),
            },
            "service_tier": "default",
            "store": body.get("store", True),
            "temperature": 1.0,
            "text": body.get("text") or {"format": {"type": "text"}},
            "tool_choice": body.get("tool_choice", "auto"),
            "tools": body.get("tools") or [],
            "top_p": 1.0,
            "truncation": "disabled",
            "usage": usage,
            "metadata": {},
        }

    def _end(self, answer):
        reason = answer.reason()
        return {
            "length": ("incomplete", LENGTH),
            LENGTH: ("incomplete", LENGTH),
            "content_filter": ("incomplete", "content_filter"),
        }.get(reason, ("failed", None) if reason == "failed" else ("completed", None))

    def whole(self, turn, answer):
        items, (status, reason) = self._output(turn, answer), self._end(answer)
        response = self._response(turn, status, items, self._usage(turn, items), reason)
        return response | (
            {"error": {"code": "server_error", "message": "The fake was told to fail."}} if status == "failed" else {}
        )

    def events(self, turn, answer):
        made, items = [], self._output(turn, answer)
        options = turn.facts["body"].get("stream_options") or {}
        is_obscured = options.get("include_obfuscation") is not False

        def send(kind, **members):
            value = {"type": kind, "sequence_number": len(made), **members}
            if kind.endswith(".delta") and is_obscured:
                value["obfuscation"] = digest(str(len(made)))[: 3 + len(made) % 9]
            made.append(event(value, kind))

        send("response.created", response=self._response(turn, "in_progress", [], None))
        send("response.in_progress", response=self._response(turn, "in_progress", [], None))
        send("keepalive")
        for index, item in enumerate(items):
            place = {"item_id": item["id"], "output_index": index}
            begun = {"reasoning": {"summary": []}, "message": {"content": [], "status": "in_progress"}}
            begun["function_call"] = {"arguments": "", "status": "in_progress"}
            send("response.output_item.added", output_index=index, item={**item, **begun[item["type"]]})
            if item["type"] == "reasoning":
                for at, part in enumerate(item["summary"]):
                    here = {**place, "summary_index": at}
                    send("response.reasoning_summary_part.added", **here, part={**part, "text": ""})
                    for piece in answer.thinking:
                        send("response.reasoning_summary_text.delta", **here, delta=piece)
                    send("response.reasoning_summary_text.done", **here, text=part["text"])
                    send("response.reasoning_summary_part.done", **here, part=part)
            elif item["type"] == "message":
                for at, part in enumerate(item["content"]):
                    here, member = {**place, "content_index": at}, part["type"].removeprefix("output_")
                    logprobs = {"logprobs": []} if member == "text" else {}
                    send("response.content_part.added", **here, part={**part, member: ""})
                    for piece in answer.text:
                        send(f"response.{part['type']}.delta", **here, delta=piece, **logprobs)
                    send(f"response.{part['type']}.done", **here, **{member: part[member]}, **logprobs)
                    send("response.content_part.done", **here, part=part)
            else:
                text = item["arguments"]
                for start in range(0, len(text), 7):
                    send("response.function_call_arguments.delta", **place, delta=text[start : start + 7])
                send("response.function_call_arguments.done", **place, arguments=text, name=item["name"])
            send("response.output_item.done", output_index=index, item=item)
        send("response.fake_event", note="unknown to every client")
        status, reason = self._end(answer)
        response = self._response(turn, status, items, self._usage(turn, items), reason)
        if status == "failed":
            response["error"] = {"code": "server_error", "message": "The fake was told to fail."}
        send(f"response.{status}", response=response)
        return made

    def error_event(self):
        value = {
            "type": "error",
            "code": "server_error",
            "message": "The server had an error while processing your request.",
            "param": None,
            "sequence_number": 0,
        }
        return event(value, "error")

    def error(self, status):
        return error(status)

    def headers(self, turn):
        return headers(turn)


def _unfollowed(item):
    refuse(f"Item '{item.get('id')}' of type 'reasoning' was provided without its required following item.", "input")


def _tools(body):
    tools = []
    for at, tool in enumerate(body.get("tools") or []):
        if not isinstance(tool, dict) or tool.get("type") != "function":
            refuse(
                f"Invalid value for 'tools[{at}].type': the fake knows functions only.",
                f"tools[{at}].type",
                "invalid_value",
            )
        if "function" in tool:
            refuse(f"Unknown parameter: 'tools[{at}].function'.", f"tools[{at}].function", "unknown_parameter")
        check_function(tool.get("name"), f"tools[{at}].name")
        if tool.get("strict"):
            check_schema(tool.get("parameters"), f"function '{tool['name']}'", f"tools[{at}].parameters")
        tools.append((tool["name"], tool.get("parameters") or {}))
    return tools


def _message(item, at):
    """Checks the parts of a message and returns its marks."""
    role, content, marks = item.get("role"), item.get("content"), []
    if role not in ("user", "assistant", "system", "developer"):
        refuse(f"Invalid value: '{role}'.", f"input[{at}].role", "invalid_value")
    if isinstance(content, str):
        return marks
    if not isinstance(content, list):
        refuse(
            f"Invalid type for 'input[{at}].content': expected a string or a list.",
            f"input[{at}].content",
            "invalid_type",
        )
    kinds = ("output_text", "refusal") if role == "assistant" else ("input_text", "input_image", "input_file")
    for index, part in enumerate(content):
        if part.get("type") not in kinds:
            refuse(
                f"Invalid value: '{part.get('type')}'. Supported values are:"
                f" {' and '.join(repr(kind) for kind in kinds)}.",
                f"input[{at}].content[{index}]",
                "invalid_value",
            )
        if part.get("prompt_cache_breakpoint"):
            if role == "assistant":
                where = f"input[{at}].content[{index}].prompt_cache_breakpoint"
                refuse(f"Unknown parameter: '{where}'.", where, "unknown_parameter")
            marks.append(part["prompt_cache_breakpoint"])
    return marks


def _text(item):
    content = item["content"]
    return content if isinstance(content, str) else "".join(part.get("text") or "" for part in content)


def _essence(item):
    """What of an item the model reads: neither ids of items nor their states nor marks."""
    kept = {
        name: value for name, value in item.items() if name not in ("id", "status", "content") and value is not None
    }
    kept.setdefault("type", "message")
    if kept["type"] == "message":
        kept["content"] = (
            item["content"]
            if isinstance(item["content"], str)
            else [
                {
                    name: part.get(name)
                    for name in ("text", "refusal", "image_url", "file_data")
                    if part.get(name) is not None
                }
                for part in item["content"]
            ]
        )
        if isinstance(kept["content"], list) and len(kept["content"]) == 1 and kept["content"][0].keys() == {"text"}:
            kept["content"] = kept["content"][0]["text"]
    return dict(sorted(kept.items()))
