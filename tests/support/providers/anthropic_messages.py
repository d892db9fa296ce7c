"""Anthropic's Messages API (<https://platform.claude.com/docs/en/api/messages>)."""

import hashlib
import re
from collections import OrderedDict

from answers import Results, View
from exchange import CREATED_RFC, Refused, Turn, digest, dumps, event, object_of, parsed, schemas, seal, unseal
from prompt import Entries, Prompt, tokens

NAME = "anthropic"
NEWEST_VERSION = "2026-10-21"
VERSIONS = ("2023-06-01", NEWEST_VERSION)
BINDING_BETA = "thinking-binding-controls-2026-08-01"
MAX_RECORDS = 4096
MAX_MARKS = 4
LOOK_BACK = 20
TTL_S = {"5m": 300, "1h": 3600}
MAX_UNIONS, MAX_STRICT_TOOLS, MAX_OPTIONAL = 16, 20, 24

SAMPLING = ("temperature", "top_p", "top_k")
MEMBERS = {
    "model",
    "max_tokens",
    "messages",
    "cache_control",
    "container",
    "diagnostics",
    "inference_geo",
    "metadata",
    "output_config",
    "service_tier",
    "speed",
    "stop_sequences",
    "stream",
    "system",
    "thinking",
    "tool_choice",
    "tools",
    "user_profile_id",
    "workspace_id",
}
BLOCK_MEMBERS = {
    "text": {"type", "text", "cache_control", "citations"},
    "tool_use": {"type", "id", "name", "input", "cache_control", "caller", "toolset_name"},
    "tool_result": {"type", "tool_use_id", "content", "is_error", "cache_control"},
    "thinking": {"type", "thinking", "signature"},
    "redacted_thinking": {"type", "data"},
}
TOOL_MEMBERS = {
    "name",
    "description",
    "input_schema",
    "strict",
    "cache_control",
    "type",
    "allowed_callers",
    "defer_loading",
    "eager_input_streaming",
    "input_examples",
}
THINKING = ("thinking", "redacted_thinking")
STOPS = {"end": "end_turn", "length": "max_tokens", "tool": "tool_use", "refusal": "refusal"}
MODELS = (
    "claude-opus-5-5",
    "claude-opus-5",
    "claude-sonnet-5-5",
    "claude-haiku-5-5",
    "claude-fable-5-1",
    "claude-opus-4-5",
)
KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}
WORDS = {
    401: "invalid x-api-key",
    429: "This request would exceed your organization's rate limit.",
    500: "Internal server error",
    529: "Overloaded",
    402: "Your credit balance is too low to access the Anthropic API.",
    413: "Request exceeds the maximum size",
}


class Model:
    """What follows from a model's name."""

    def __init__(self, name):
        self.name = name
        found = re.match(r"claude-(opus|sonnet|haiku|fable|mythos)-(\d+)(?:-(\d{1,2}))?(?:-\d{8})?$", name)
        self.family = found[1] if found else "older"
        self.version = (int(found[2]), int(found[3] or 0)) if found else (3, 5)
        self.is_new = self.family in ("fable", "mythos")

    def is_at_least(self, *version):
        return self.is_new or self.version >= version

    def floor(self):
        if self.is_at_least(5, 5) or (self.family == "opus" and self.version >= (5, 0)):
            return 512
        return {("opus", (4, 7)): 2048, ("opus", (4, 5)): 4096, ("opus", (4, 6)): 4096, ("haiku", (4, 5)): 4096}.get(
            (self.family, self.version), 1024
        )

    def binds(self):
        return (self.family, self.version) in (("fable", (5, 1)), ("opus", (5, 5)))

    def always_thinks(self):
        return self.is_new or (self.family, self.version) == ("opus", (5, 5))

    def thinks_by_default(self):
        return self.always_thinks() or (self.is_at_least(5, 0) and self.family != "haiku") or self.is_at_least(5, 5)

    def keeps_thinking(self):
        return self.is_at_least(4, 6) or (self.family == "opus" and self.version >= (4, 5))

    def reads(self, other):
        """Whether it reads the thinking of another model; else it is dropped."""
        if self.name == other.name:
            return True
        return self.version > other.version and not (other.family == "fable" and self.family == "opus")


def error(status, message=None, request_id="req_fake"):
    kind = KINDS.get(status, "api_error" if status >= 500 else "invalid_request_error")
    body = {"type": kind, "message": message or WORDS.get(status, kind)}
    return {"type": "error", "error": body, "request_id": request_id}


def refuse(message, status=400):
    raise Refused(status, error(status, message))


class Protocol:
    name = NAME

    def __init__(self):
        self.entries = Entries()
        self.records = OrderedDict()
        # Calls that came behind thinking, which has to come back with them.
        self.calls_behind_thinking = OrderedDict()

    # What is asked.

    def read(self, request, now):
        if not request.headers.get("x-api-key") and not request.bearer():
            refuse("x-api-key header is required", 401)
        version = request.headers.get("anthropic-version")
        if version is None:
            refuse("anthropic-version: header is required")
        if version not in VERSIONS:
            refuse(f'anthropic-version: "{version}" is not a valid version')
        body = parsed(request.body, refuse)
        known = MEMBERS if version == NEWEST_VERSION else MEMBERS | set(SAMPLING)
        for name in body:
            if name not in known:
                refuse(f"{name}: Extra inputs are not permitted")
        for name in ("model", "max_tokens", "messages"):
            if name not in body:
                refuse(f"{name}: Field required")
        if not isinstance(body["model"], str) or not body["model"].startswith("claude-"):
            refuse(f"model: {body['model']}", 404)
        model = Model(body["model"])
        thinking = _thinking(body, model, request)
        _parameters(body, model, thinking)
        _schemas(body)
        prompt, reading = self._rendered(body, model, thinking)
        view = View(
            system=reading.system_text,
            tools=[(tool["name"], tool["input_schema"]) for tool in body.get("tools") or []],
            results=reading.results,
            schema=((body.get("output_config") or {}).get("format") or {}).get("schema"),
            forced=_forced(body),
            thinks=thinking["type"] != "disabled",
            shows_thinking=thinking.get("display") != "omitted",
        )
        turn = Turn(request, body["model"], prompt, view, body.get("stream") is True)
        turn.facts = {"body": body, "prefix": reading.prefix, "last_thinking": reading.last_thinking}
        self._account(turn, reading, model, now)
        self._diagnose(turn)
        return turn

    def _rendered(self, body, model, thinking):
        """The prompt in the order of the cache: tools, system, messages, each behind what else invalidates it."""
        prompt, reading = Prompt(), Reading(body, model)
        prompt.separate(f"model {body['model']}")
        for at, tool in enumerate(body.get("tools") or []):
            _tool(tool, at)
            reading.place(prompt, "tool", dumps(_without_mark(tool)), tool.get("cache_control"), f"tools.{at}")
        names = [tool["name"] for tool in body.get("tools") or []]
        if len(set(names)) < len(names):
            refuse("tools: Tool names must be unique.")
        prompt.separate(f"speed {body.get('speed')}")
        system = body.get("system")
        system = [{"type": "text", "text": system}] if isinstance(system, str) and system else system or []
        for at, block in enumerate(system):
            where = f"system.{at}"
            _block(block, where, ("text",))
            reading.place(prompt, "system", block["text"], block.get("cache_control"), where)
            reading.bind("system", block)
        reading.system_text = "\n\n".join(block["text"] for block in system)
        prompt.head_ends()
        images = any(block.get("type") == "image" for message in _messages(body, model) for block in _blocks(message))
        choice = body.get("tool_choice") or {"type": "auto"}
        config = body.get("output_config") or {}
        prompt.separate(dumps([choice, images, _without_display(thinking), config.get("effort"), config.get("format")]))
        self._messages(prompt, reading, body)
        if body.get("cache_control") is not None:
            reading.mark_last(body["cache_control"])
        reading.check_marks()
        return prompt, reading

    def _messages(self, prompt, reading, body):
        messages = body["messages"]
        turn = _current_turn(messages)
        wanted = {}
        for at, message in enumerate(messages):
            role, blocks = message["role"], _blocks(message)
            if not blocks:
                refuse(f"messages.{at}: {role} messages must have non-empty content")
            kinds = [block.get("type") for block in blocks]
            answered = [block.get("tool_use_id") for block in blocks if block.get("type") == "tool_result"]
            missing = [call for call in wanted if call not in answered]
            if "tool_result" in kinds and role == "user" and "tool_result" in kinds[kinds.count("tool_result") :]:
                missing = missing or list(wanted)
            if missing:
                refuse(
                    f"messages.{at - 1}: `tool_use` ids were found without `tool_result` blocks immediately after: "
                    f"{', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` block in the "
                    "next message."
                )
            for call in answered:
                if call not in wanted:
                    refuse(
                        f"messages.{at}.content.{kinds.index('tool_result')}: unexpected `tool_use_id` found in "
                        f"`tool_result` blocks: {call}. Each `tool_result` block must have a corresponding `tool_use` "
                        "block in the previous message."
                    )
            wanted = {}
            for index, block in enumerate(blocks):
                where = f"messages.{at}.content.{index}"
                allowed = {
                    "user": ("text", "tool_result", "image", "document"),
                    "assistant": ("text", "tool_use", *THINKING),
                    "system": ("text",),
                }[role]
                _block(block, where, allowed)
                kind = block["type"]
                if kind in THINKING:
                    reading.take_thinking(prompt, block, where, at >= turn)
                    continue
                if kind == "tool_use":
                    if block["id"] in wanted:
                        refuse("messages: `tool_use` ids must be unique")
                    wanted[block["id"]] = at
                    if at >= turn and block["id"] in self.calls_behind_thinking and not reading.thought_in_message:
                        refuse(
                            f"{where}: Expected `thinking` or `redacted_thinking`, but found `tool_use`. When"
                            " `thinking` is enabled, a final `assistant` message must start with a thinking block"
                            " (preceeding the lastmost set of `tool_use` and `tool_result` blocks)."
                        )
                if kind == "tool_result":
                    reading.results.came()
                elif role == "user":
                    reading.results.turn_begins()
                reading.place(prompt, kind, f"{role} {dumps(_essence(block))}", block.get("cache_control"), where)
                reading.bind(role, block)
            reading.thought_in_message = False
        if wanted:
            refuse(
                f"messages.{len(messages) - 1}: `tool_use` ids were found without `tool_result` blocks immediately"
                f" after: {', '.join(wanted)}. Each `tool_use` block must have a corresponding `tool_result` block in"
                " the next message."
            )

    def _account(self, turn, reading, model, now):
        """Reads the longest entry within the look-back of any mark, then writes at every mark from the floor on."""
        prompt, marks = turn.prompt, sorted(reading.marks.items())
        candidates = set()
        for at, _ in marks:
            last = reading.positions[at]
            candidates |= {
                seg for seg, position in reading.positions.items() if seg <= at and position > last - LOOK_BACK
            }
        read = self.entries.longest(prompt, candidates, now)
        turn.cached = prompt.ends[read] if read is not None else 0
        writable = [(at, ttl) for at, ttl in marks if prompt.ends[at] >= model.floor()]
        last = max((prompt.ends[at] for at, _ in writable), default=0)
        last_hour = max((prompt.ends[at] for at, ttl in writable if ttl == "1h"), default=0)
        turn.written = max(last - turn.cached, 0)
        hour = min(max(last_hour - turn.cached, 0), turn.written)
        turn.facts |= {"written_1h": hour, "written_5m": turn.written - hour}
        for at, ttl in writable:
            self.entries.write(prompt, at, TTL_S[ttl], now)

    def _diagnose(self, turn):
        body = turn.facts["body"]
        turn.facts["diagnostics"] = None
        asked = body.get("diagnostics")
        if not isinstance(asked, dict):
            return
        rest = dumps(
            [
                body.get("thinking"),
                body.get("tool_choice"),
                body.get("output_config"),
                turn.request.headers.get("anthropic-beta"),
            ]
        )
        messages = [digest(dumps([m["role"], [_essence(b) for b in _blocks(m)]])) for m in body["messages"]]
        system = [_essence(b) if isinstance(b, dict) else b for b in _listed(body.get("system"))]
        tools = [_without_mark(tool) for tool in body.get("tools") or []]
        mine = ([body["model"], body.get("speed")], dumps(system), dumps(tools), messages, rest, turn.prompt)
        self.records[turn.request.identifier("msg_")] = mine
        while len(self.records) > MAX_RECORDS:
            self.records.popitem(last=False)
        previous = asked.get("previous_message_id")
        if previous is None:
            return
        if previous not in self.records:
            turn.facts["diagnostics"] = {"cache_miss_reason": {"type": "previous_message_not_found"}}
            return
        theirs = self.records[previous]
        changed = next(
            (
                name
                for name, differs in (
                    ("model_changed", mine[0] != theirs[0]),
                    ("system_changed", mine[1] != theirs[1]),
                    ("tools_changed", mine[2] != theirs[2]),
                    ("messages_changed", messages[: len(theirs[3])] != theirs[3]),
                )
                if differs
            ),
            None,
        )
        if changed:
            missed = theirs[5].total() - turn.prompt.shared_tokens(theirs[5])
            turn.facts["diagnostics"] = {"cache_miss_reason": {"type": changed, "cache_missed_input_tokens": missed}}
        elif rest != theirs[4]:
            turn.facts["diagnostics"] = {"cache_miss_reason": {"type": "unavailable"}}

    # What is answered.

    def _content(self, turn, answer):
        """The blocks of an answer, each with the deltas that a stream sends for it."""
        if turn.facts["body"]["max_tokens"] == 0:
            return []
        request, prefix, last = turn.request, turn.facts["prefix"].copy(), turn.facts["last_thinking"]
        blocks = []

        def signed(kind, text):
            nonlocal last
            own = request.identifier("", f"{kind} {len(blocks)}")
            facts = {"id": own, "model": turn.model, "prefix": prefix.hexdigest()[:32], "text": digest(text)}
            sealed, last = seal(**facts, after=last), own
            return sealed

        if answer.thinking is not None:
            text = "".join(answer.thinking)
            signature = signed("thinking", text)
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in answer.thinking]
            deltas.append({"type": "signature_delta", "signature": signature})
            blocks.append(({"type": "thinking", "thinking": text, "signature": signature}, deltas))
        if answer.redacted:
            blocks.append(({"type": "redacted_thinking", "data": signed("redacted", "")}, []))
        if answer.text:
            deltas = [{"type": "text_delta", "text": piece} for piece in answer.text]
            blocks.append(({"type": "text", "text": answer.whole_text()}, deltas))
        for at, (name, arguments) in enumerate(answer.calls):
            call = request.identifier("toolu_", str(at))
            if answer.thinking is not None or answer.redacted:
                self.calls_behind_thinking[call] = True
                while len(self.calls_behind_thinking) > MAX_RECORDS:
                    self.calls_behind_thinking.popitem(last=False)
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in _json_pieces(arguments)]
            blocks.append(({"type": "tool_use", "id": call, "name": name, "input": object_of(arguments)}, deltas))
        return blocks

    def _message(self, turn, content, stop, usage):
        return {
            "id": turn.request.identifier("msg_"),
            "type": "message",
            "role": "assistant",
            "model": turn.model,
            "content": content,
            "stop_reason": stop,
            "stop_sequence": None,
            "stop_details": _details(stop),
            "usage": usage,
            "container": None,
            "diagnostics": turn.facts["diagnostics"],
        }

    def _usage(self, turn, output, thought):
        return {
            "input_tokens": turn.fresh(),
            "cache_creation_input_tokens": turn.written,
            "cache_read_input_tokens": turn.cached,
            "output_tokens": output,
            "output_tokens_details": {"thinking_tokens": thought},
        }

    def _first_usage(self, turn, output, thought):
        """Only the first usage of a stream splits what was written, and only it says the tier."""
        split = {
            "ephemeral_5m_input_tokens": turn.facts["written_5m"],
            "ephemeral_1h_input_tokens": turn.facts["written_1h"],
        }
        return {
            **self._usage(turn, output, thought),
            "cache_creation": split,
            "service_tier": "standard",
            "inference_geo": "global",
            "server_tool_use": None,
        }

    def whole(self, turn, answer):
        content = [block for block, _ in self._content(turn, answer)]
        output, thought = _output(content)
        return self._message(turn, content, self._stop(turn, answer), self._first_usage(turn, output, thought))

    def _stop(self, turn, answer):
        reason = "length" if turn.facts["body"]["max_tokens"] == 0 else answer.reason()
        return STOPS.get(reason, reason)

    def events(self, turn, answer):
        content = self._content(turn, answer)
        output, thought = _output([block for block, _ in content])
        message = self._message(turn, [], None, self._first_usage(turn, min(output, 1), 0))
        made = [_event({"type": "message_start", "message": message})]
        for index, (block, deltas) in enumerate(content):
            empty = {"thinking": "", "signature": ""} if block["type"] == "thinking" else {}
            empty = {"text": ""} if block["type"] == "text" else empty
            empty = {"input": {}} if block["type"] == "tool_use" else empty
            made.append(_event({"type": "content_block_start", "index": index, "content_block": {**block, **empty}}))
            if index == 0:
                made.append(_event({"type": "ping"}))
            for delta in deltas:
                made.append(_event({"type": "content_block_delta", "index": index, "delta": delta}))
            made.append(_event({"type": "content_block_stop", "index": index}))
        # Clients have to pass over what they do not know.
        made.append(_event({"type": "fake_event", "note": "unknown to every client"}))
        stop = self._stop(turn, answer)
        deltas = [(stop, output)]
        if answer.repeat_usage:
            deltas.insert(0, (None, output // 2))
        for reason, count in deltas:
            delta = {"stop_reason": reason, "stop_sequence": None, "stop_details": _details(reason), "container": None}
            usage = self._usage(turn, count, min(thought, count))
            made.append(_event({"type": "message_delta", "delta": delta, "usage": usage}))
        made.append(_event({"type": "message_stop"}))
        return made

    def error_event(self):
        return _event({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})

    def error(self, status):
        return error(status)

    def headers(self, turn):
        return {
            "request-id": turn.request.identifier("req_"),
            "anthropic-organization-id": "00000000-0000-0000-0000-000000000000",
            "anthropic-ratelimit-requests-limit": "1000",
            "anthropic-ratelimit-requests-remaining": "999",
            "anthropic-ratelimit-requests-reset": CREATED_RFC,
        }


class Reading:
    """Goes along the blocks of a request: positions, marks, and what signatures are bound to."""

    def __init__(self, body, model):
        self.model, self.positions, self.marks = model, {}, {}
        self.position, self.last_kind, self.last_cacheable = 0, None, None
        self.system_text, self.thought_in_message = "", False
        self.results = Results()
        self.last_thinking, self.mark_count = None, 0
        # A signature holds after the same tools, system and messages; marks and other thinking are free.
        self.prefix = hashlib.sha256(dumps([_without_mark(tool) for tool in body.get("tools") or []]).encode())

    def bind(self, role, block):
        self.prefix.update(f"{role} {dumps(_essence(block))}\n".encode("utf-8", "surrogatepass"))

    def place(self, prompt, kind, text, mark, where):
        """Adds a block. A run of calls, or of results, is one position."""
        if kind != self.last_kind or kind not in ("tool_use", "tool_result"):
            self.position += 1
        self.last_kind = kind
        at = prompt.add(text)
        self.positions[at] = self.position
        if kind not in THINKING:
            self.last_cacheable = at
        if mark is not None:
            self.mark(at, mark, where)

    def mark(self, at, mark, where):
        if not isinstance(mark, dict) or mark.get("type") != "ephemeral" or mark.get("ttl", "5m") not in TTL_S:
            refuse(f"{where}.cache_control: Input should be an ephemeral cache control with ttl '5m' or '1h'")
        self.mark_count += 1
        self.marks[at] = mark.get("ttl", "5m")

    def mark_last(self, mark):
        """The automatic mark at the end, which counts as one of the four."""
        at, ttl = self.last_cacheable, mark.get("ttl", "5m") if isinstance(mark, dict) else "5m"
        if at is None:
            return
        if at in self.marks:
            if self.marks[at] != ttl:
                refuse("cache_control: the last block has an explicit cache_control with a different ttl")
            return
        self.mark(at, mark, "cache_control")

    def check_marks(self):
        if self.mark_count > MAX_MARKS:
            refuse(f"A maximum of {MAX_MARKS} blocks with cache_control may be provided. Found {self.mark_count}.")
        ttls = [ttl for _, ttl in sorted(self.marks.items())]
        if "1h" in ttls and "5m" in ttls[: len(ttls) - ttls[::-1].index("1h")]:
            refuse(
                "cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. "
                "Note that blocks are processed in the following order: `tools`, `system`, `messages`."
            )

    def take_thinking(self, prompt, block, where, is_current):
        """A block of thinking: unmodified, of this conversation, none missing between two; or dropped."""
        text = block.get("thinking", "")
        facts = unseal(block.get("signature") if block["type"] == "thinking" else block.get("data"))
        if not facts or facts.get("text") != digest(text):
            refuse(f"{where}: Invalid `signature` in `thinking` block")
        self.thought_in_message = True
        theirs = Model(facts["model"])
        if not self.model.reads(theirs):
            prompt.separate(f"dropped {facts['id']}")
            return
        if self.model.binds() and theirs.name == self.model.name:
            is_moved = facts["prefix"] != self.prefix.copy().hexdigest()[:32]
            is_torn = self.last_thinking is not None and facts["after"] != self.last_thinking
            if is_moved or is_torn:
                refuse(
                    f"{where}: Invalid `signature` in `thinking` block: the block is bound to a different conversation"
                )
        self.last_thinking = facts["id"]
        if is_current or self.model.keeps_thinking():
            self.place(prompt, block["type"], f"assistant {dumps(_essence(block))}", None, where)


def _thinking(body, model, request):
    """The mode in force, after the rules of the model."""
    thinking = body.get("thinking")
    if thinking is None:
        return {"type": "adaptive" if model.thinks_by_default() else "disabled"}
    kinds = ("adaptive", "enabled", "disabled", "between_tools")
    if not isinstance(thinking, dict) or thinking.get("type") not in kinds:
        refuse(
            "thinking: Input tag does not match any of the expected tags: " + ", ".join(f"'{kind}'" for kind in kinds)
        )
    kind = thinking["type"]
    if "block_binding" in thinking and BINDING_BETA not in request.headers.get("anthropic-beta", ""):
        refuse("thinking.block_binding: Extra inputs are not permitted")
    if model.always_thinks() and kind != "adaptive":
        refuse(
            f'"thinking.type.{kind}" is not supported for this model. Thinking is always on: use'
            ' "thinking.type.adaptive".'
        )
    if not model.is_at_least(4, 6) and kind in ("adaptive", "between_tools"):
        refuse(f'"thinking.type.{kind}" is not supported for this model. Use "thinking.type.enabled".')
    if kind == "enabled":
        budget = thinking.get("budget_tokens")
        if not isinstance(budget, int) or budget < 1024:
            refuse("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")
        if isinstance(body["max_tokens"], int) and budget >= body["max_tokens"]:
            refuse("`max_tokens` must be greater than `thinking.budget_tokens`.")
    return thinking


def _parameters(body, model, thinking):
    ceiling = body["max_tokens"]
    if isinstance(ceiling, bool) or not isinstance(ceiling, int):
        refuse("max_tokens: Input should be a valid integer")
    choice = (body.get("tool_choice") or {"type": "auto"}).get("type")
    if ceiling < 0:
        refuse("max_tokens: Input should be greater than or equal to 0")
    has_format = bool((body.get("output_config") or {}).get("format"))
    if ceiling == 0 and (
        body.get("stream") or has_format or choice in ("any", "tool") or thinking["type"] == "enabled"
    ):
        refuse("max_tokens: 0 is not allowed with stream, output_config.format, a forced tool or enabled thinking")
    if choice not in ("auto", "any", "tool", "none"):
        refuse("tool_choice: Input tag does not match any of the expected tags: 'auto', 'any', 'tool', 'none'")
    if choice in ("any", "tool"):
        if not body.get("tools"):
            refuse("tool_choice: tool_choice may only be specified while providing tools.")
        if thinking["type"] == "enabled" or (model.family, model.version) == ("opus", (5, 5)):
            refuse("Thinking may not be enabled when tool_choice forces tool use.")
    if model.is_at_least(4, 7):
        for name in SAMPLING:
            if name in body and body[name] != (1 if name != "top_k" else None):
                refuse(f"`{name}` is deprecated for this model.")
    effort = (body.get("output_config") or {}).get("effort")
    if effort not in (None, "low", "medium", "high", "xhigh", "max"):
        refuse("output_config.effort: Input should be 'low', 'medium', 'high', 'xhigh' or 'max'")
    for name in body.get("output_config") or {}:
        if name not in ("effort", "format"):
            refuse(f"output_config.{name}: Extra inputs are not permitted")


def _schemas(body):
    form = (body.get("output_config") or {}).get("format")
    compiled = []
    if form is not None:
        if form.get("type") != "json_schema" or not isinstance(form.get("schema"), dict):
            refuse("output_config.format: Input should be a json_schema with a schema")
        compiled.append(("output_config.format.schema", form["schema"]))
    strict = [tool for tool in body.get("tools") or [] if isinstance(tool, dict) and tool.get("strict")]
    if len(strict) > MAX_STRICT_TOOLS:
        refuse(f"Too many strict tools: {len(strict)}. At most {MAX_STRICT_TOOLS} tools can be strict.")
    compiled.extend((f"tools.{tool.get('name')}.input_schema", tool.get("input_schema")) for tool in strict)
    unions = optional = 0
    for where, schema in compiled:
        for one in schemas(schema):
            unions += bool(one.get("anyOf")) or isinstance(one.get("type"), list)
            properties = one.get("properties") or {}
            optional += sum(name not in (one.get("required") or []) for name in properties)
            kind = one.get("type")
            if (kind == "object" or properties) and one.get("additionalProperties") is not False:
                refuse(f"{where}: For 'object' type, 'additionalProperties' must be explicitly set to false")
            ranges = {
                "minimum",
                "maximum",
                "exclusiveMinimum",
                "exclusiveMaximum",
                "multipleOf",
                "minLength",
                "maxLength",
                "maxItems",
            }
            if found := sorted(ranges & one.keys()):
                refuse(f"{where}: For '{kind}' type, properties {', '.join(found)} are not supported")
            if one.get("minItems", 0) not in (0, 1):
                refuse(f"{where}: For 'array' type, 'minItems' values other than 0 or 1 are not supported")
            if one.get("$ref") == "#":
                refuse(f"{where}: Recursive schemas are not supported")
    if unions > MAX_UNIONS:
        refuse(
            f"Schemas contains too many parameters with union types ({unions} parameters with type arrays or anyOf)."
            " This would cause exponential compilation cost. Reduce the number of nullable or union-typed parameters"
            f" (limit: {MAX_UNIONS} parameters with unions)."
        )
    if optional > MAX_OPTIONAL:
        refuse(f"Schemas contains too many optional parameters ({optional}). The limit is {MAX_OPTIONAL}.")


def _tool(tool, at):
    if not isinstance(tool, dict):
        refuse(f"tools.{at}: Input should be a valid dictionary")
    for name in tool:
        if name not in TOOL_MEMBERS:
            refuse(f"tools.{at}.custom.{name}: Extra inputs are not permitted")
    if not re.fullmatch(r"[a-zA-Z0-9_-]{1,128}", str(tool.get("name", ""))):
        refuse(f"tools.{at}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
    schema = tool.get("input_schema")
    if not isinstance(schema, dict):
        refuse(f"tools.{at}.custom.input_schema: Field required")
    if schema.get("type") != "object":
        refuse(f"tools.{at}.custom.input_schema.type: Input should be 'object'")


def _messages(body, model):
    messages = body["messages"]
    if not isinstance(messages, list) or not messages:
        refuse("messages: at least one message is required")
    for at, message in enumerate(messages):
        roles = ("user", "assistant", "system") if model.is_at_least(5, 0) else ("user", "assistant")
        role = message.get("role") if isinstance(message, dict) else None
        if role not in roles:
            refuse(f"messages.{at}.role: Input should be {' or '.join(repr(role) for role in roles)}")
        for name in message:
            if name not in ("role", "content"):
                refuse(f"messages.{at}.{name}: Extra inputs are not permitted")
        if role == "system" and (at == 0 or messages[at - 1]["role"] != "user"):
            refuse(f"messages.{at}: a system message must follow a user message")
    if messages[0]["role"] != "user":
        refuse('messages: first message must use the "user" role')
    if messages[-1]["role"] == "assistant" and model.is_at_least(4, 6):
        refuse("This model does not support assistant message prefill. The conversation must end with a user message.")
    return messages


def _block(block, where, allowed):
    kind = block.get("type") if isinstance(block, dict) else None
    if kind not in allowed:
        refuse(
            f"{where}: Input tag '{kind}' found using 'type' does not match any of the expected tags:"
            f" {', '.join(allowed)}"
        )
    for name in block:
        if kind in BLOCK_MEMBERS and name not in BLOCK_MEMBERS[kind]:
            refuse(f"{where}.{kind}.{name}: Extra inputs are not permitted")
    if kind == "text":
        if not isinstance(block.get("text"), str):
            refuse(f"{where}.text.text: Field required")
        if not block["text"]:
            refuse(f"{where.split('.')[0]}: text content blocks must be non-empty")
        if not block["text"].strip():
            refuse(f"{where.split('.')[0]}: text content blocks must contain non-whitespace text")
    if kind == "tool_use":
        for name in ("id", "name", "input"):
            if name not in block:
                refuse(f"{where}.tool_use.{name}: Field required")
        if not re.fullmatch(r"[a-zA-Z0-9_-]+", str(block["id"])):
            refuse(f"{where}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
        if not isinstance(block["input"], dict):
            refuse(f"{where}.tool_use.input: Input should be a valid dictionary")
    if kind == "tool_result" and not isinstance(block.get("tool_use_id"), str):
        refuse(f"{where}.tool_result.tool_use_id: Field required")
    if kind == "tool_result" and isinstance(block.get("content"), list):
        for index, inner in enumerate(block["content"]):
            _block(inner, f"{where}.tool_result.content.{index}", ("text", "image", "document", "search_result"))


def _current_turn(messages):
    """Where the current turn of the assistant begins: behind the last message of a user with more than results."""
    for at in range(len(messages) - 1, -1, -1):
        is_results = all(block.get("type") == "tool_result" for block in _blocks(messages[at]))
        if messages[at]["role"] == "user" and not is_results:
            return at
    return 0


def _blocks(message):
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block if isinstance(block, dict) else {} for block in content] if isinstance(content, list) else []


def _listed(value):
    return value if isinstance(value, list) else [] if value is None else [value]


def _essence(block):
    """What of a block the model reads, whatever else a client wrote beside it."""
    names = {
        "text": ("text",),
        "tool_use": ("id", "name", "input"),
        "tool_result": ("tool_use_id", "content", "is_error"),
        "thinking": ("thinking", "signature"),
        "redacted_thinking": ("data",),
    }.get(block.get("type"))
    if names is None:
        return _without_mark(block)
    return {"type": block["type"], **{name: block[name] for name in names if block.get(name) is not None}}


def _without_mark(value):
    return (
        {name: inner for name, inner in value.items() if name != "cache_control"} if isinstance(value, dict) else value
    )


def _without_display(thinking):
    return {name: value for name, value in thinking.items() if name not in ("display", "block_binding")}


def _forced(body):
    choice = body.get("tool_choice") or {}
    first = (body.get("tools") or [{}])[0].get("name")
    return {"tool": choice.get("name"), "any": first, "none": "none"}.get(choice.get("type"))


def _details(stop):
    return (
        {"type": "refusal", "category": None, "explanation": "The fake was told to refuse."}
        if stop == "refusal"
        else None
    )


def _json_pieces(text):
    """As a stream sends them: an empty first piece, then pieces that cut through tokens."""
    return ["", *(text[at : at + 7] for at in range(0, len(text), 7))]


def _output(content):
    thought = sum(tokens(dumps(block)) for block in content if block["type"] in THINKING)
    return thought + sum(tokens(dumps(block)) for block in content if block["type"] not in THINKING), thought


def _event(value):
    return event(value, value["type"])


def models():
    return {
        "data": [
            {
                "type": "model",
                "id": name,
                "display_name": name,
                "created_at": CREATED_RFC,
                "lifecycle": "active",
                "max_input_tokens": 1_000_000,
                "max_tokens": 128_000,
                "capabilities": None,
            }
            for name in MODELS
        ],
        "has_more": False,
        "first_id": MODELS[0],
        "last_id": MODELS[-1],
    }
