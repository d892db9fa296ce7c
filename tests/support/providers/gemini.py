"""Gemini's generateContent (<https://ai.google.dev/api/generate-content>)."""

import base64
import re
import urllib.parse

from answers import Results, View
from exchange import Refused, Turn, dumps, event, object_of, parsed, seal, unseal
from prompt import Prompt, Stepped, tokens

NAME = "gemini"
PATH = re.compile(r"/v1(?:beta|alpha)?/models/([^/:]+):(generateContent|streamGenerateContent)")
MEMBERS = {
    "contents",
    "tools",
    "toolConfig",
    "safetySettings",
    "systemInstruction",
    "generationConfig",
    "cachedContent",
    "labels",
    "serviceTier",
    "store",
    "continuationToken",
    "model",
}
CONFIG = {
    "stopSequences",
    "responseMimeType",
    "responseSchema",
    "responseJsonSchema",
    "responseModalities",
    "candidateCount",
    "maxOutputTokens",
    "temperature",
    "topP",
    "topK",
    "seed",
    "presencePenalty",
    "frequencyPenalty",
    "responseLogprobs",
    "logprobs",
    "enableEnhancedCivicAnswers",
    "speechConfig",
    "thinkingConfig",
    "imageConfig",
    "mediaResolution",
}
THINKING = {"includeThoughts", "thinkingBudget", "thinkingLevel"}
KINDS = {"text", "functionCall", "functionResponse", "inlineData", "fileData", "executableCode", "codeExecutionResult"}
# What is within is the user's own.
FREE = {
    "args",
    "response",
    "parametersJsonSchema",
    "responseJsonSchema",
    "parameters",
    "responseSchema",
    "labels",
    "partMetadata",
}
BESIDE = {"thought", "thoughtSignature", "partMetadata", "videoMetadata", "mediaResolution"}
# Histories of other models have no signatures: the server takes these words instead.
DUMMIES = ("skip_thought_signature_validator", "context_engineering_is_the_way_to_go")
STOPS = {"end": "STOP", "tool": "STOP", "length": "MAX_TOKENS", "refusal": "SAFETY"}
STATUS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
WORDS = {
    429: "You exceeded your current quota, please check your plan and billing details.",
    500: "An internal error has occurred.",
    503: "The model is overloaded. Please try again later.",
}
MODELS = ("gemini-4-pro", "gemini-3-pro", "gemini-3-flash", "gemini-2.5-pro", "gemini-2.5-flash")
LEVELS = ("minimal", "low", "medium", "high")


class Model:
    def __init__(self, name):
        found = re.match(r"gemini-(\d+)(?:\.(\d+))?", name)
        self.version = (int(found[1]), int(found[2] or 0)) if found else (0, 0)
        self.signs = self.version >= (3, 0)
        self.floor = 4096 if self.signs else 2048


def error(status, message=None, details=None):
    name = STATUS.get(status, "UNKNOWN")
    body = {"code": status, "message": message or WORDS.get(status, name), "status": name}
    return {"error": {**body, "details": details} if details else body}


def refuse(message, status=400, details=None):
    raise Refused(status, error(status, message, details))


class Protocol:
    name = NAME

    def __init__(self):
        self.caches = {}

    def read(self, request, now):
        if not request.headers.get("x-goog-api-key") and not request.query.get("key"):
            refuse(
                "Method doesn't allow unregistered callers (callers without established identity). Please use API Key"
                " or other form of API consumer identity to call this API.",
                403,
            )
        name, method = PATH.fullmatch(urllib.parse.unquote(request.path)).groups()
        if not name.startswith("gemini-"):
            refuse(f"models/{name} is not found for API version v1beta, or is not supported for generateContent.", 404)
        body = parsed(request.body, refuse)
        body = _camel(body, MEMBERS, "")
        config = _camel(body.get("generationConfig") or {}, CONFIG, "generation_config.")
        model = Model(name)
        _configured(config, body, model)
        tools = _tools(body)
        prompt = Prompt()
        prompt.separate(f"model {name}")
        system = _parts(body.get("systemInstruction") or {}, "systemInstruction", ("text",))
        for part in system:
            prompt.add(f"system {part['text']}")
        for declaration in tools:
            prompt.add(dumps(declaration))
        prompt.separate(
            dumps([body.get("toolConfig"), config.get("responseMimeType"), config.get("responseJsonSchema")])
        )
        prompt.head_ends()
        results = self._contents(prompt, body, model)
        calling = (body.get("toolConfig") or {}).get("functionCallingConfig") or {}
        allowed = calling.get("allowedFunctionNames") or [tool["name"] for tool in tools]
        forced = {"ANY": allowed[0] if allowed else None, "NONE": "none"}.get(calling.get("mode"))
        thinking = config.get("thinkingConfig") or {}
        view = View(
            system="\n\n".join(part["text"] for part in system),
            results=results,
            forced=forced,
            tools=[(tool["name"], tool.get("parametersJsonSchema") or tool.get("parameters") or {}) for tool in tools],
            schema=config.get("responseJsonSchema") or config.get("responseSchema"),
            any_object=config.get("responseMimeType") == "application/json",
            thinks=model.version >= (2, 5) and thinking.get("thinkingBudget") != 0,
            shows_thinking=thinking.get("includeThoughts") is True,
        )
        turn = Turn(request, name, prompt, view, method == "streamGenerateContent")
        turn.facts = {"model": model}
        cache = self.caches.setdefault(name, Stepped()) if len(self.caches) < 256 else Stepped()
        turn.cached = cache.cached_tokens(prompt, model.floor)
        cache.add(prompt)
        return turn

    def _contents(self, prompt, body, model):
        contents = body.get("contents")
        if not isinstance(contents, list) or not contents:
            refuse("* GenerateContentRequest.contents: contents is not specified\n")
        turn = _current_turn(contents)
        came, calls, before = Results(), [], None
        for at, content in enumerate(contents):
            role = content.get("role", "user")
            if role not in ("user", "model"):
                refuse("Please use a valid role: user, model.")
            kinds = ("text", "functionCall", "inlineData", "executableCode", "codeExecutionResult")
            kinds = kinds if role == "model" else ("text", "functionResponse", "inlineData", "fileData")
            parts = _parts(content, f"contents[{at}]", kinds)
            called = [part["functionCall"] for part in parts if "functionCall" in part]
            results = [part["functionResponse"] for part in parts if "functionResponse" in part]
            if len(results) != len(calls):
                refuse(
                    "Please ensure that the number of function response parts is equal to the number of function call"
                    " parts of the function call turn."
                )
            if called and before != "user":
                refuse(
                    "Please ensure that function call turn comes immediately after a user turn or after a function"
                    " response turn."
                )
            for call, result in zip(calls, results, strict=True):
                if result.get("name") != call.get("name") or (
                    call.get("id") and result.get("id") not in (None, call["id"])
                ):
                    refuse(
                        "Please ensure that function response parts have the name and the id of their function call"
                        " parts."
                    )
                if not isinstance(result.get("response"), dict):
                    refuse(
                        f"Invalid value at 'contents[{at}].parts[0].function_response.response'"
                        " (type.googleapis.com/google.protobuf.Struct)"
                    )
            for call in called:
                if not isinstance(call.get("args", {}), dict):
                    refuse(
                        f"Invalid value at 'contents[{at}].parts[0].function_call.args'"
                        " (type.googleapis.com/google.protobuf.Struct)"
                    )
            if results:
                came.came()
            elif role == "user":
                came.turn_begins()
            calls, before = called, role
            self._signatures(parts, at, at >= turn and model.signs)
            for part in parts:
                prompt.add(f"{role} {dumps(part)}")
        if calls:
            refuse(
                "Please ensure that the number of function response parts is equal to the number of function call parts"
                " of the function call turn."
            )
        return came

    def _signatures(self, parts, at, is_checked):
        is_first = True
        for index, part in enumerate(parts):
            signature, call = part.get("thoughtSignature"), part.get("functionCall")
            if signature is not None and not _is_dummy(signature):
                facts = unseal(signature)
                if not facts or facts["of"] != (call["name"] if call else ""):
                    refuse("Corrupted thought signature.")
            if call and is_first and is_checked and signature is None:
                refuse(
                    "Function call is missing a thought_signature in functionCall parts. This is required for tools to"
                    " work correctly, and missing thought_signature may lead to degraded model performance. Additional"
                    f" data, function call `default_api:{call['name']}` , position {at + index + 1}. Please refer to"
                    " https://ai.google.dev/gemini-api/docs/thought-signatures for more details."
                )
            is_first = is_first and not call

    # What is answered.

    def _content(self, turn, answer):
        """The parts of an answer in the pieces of a stream."""
        signs, parts = turn.facts["model"].signs, []
        for piece in answer.thinking or []:
            parts.append({"text": piece, "thought": True})
        for piece in answer.text:
            parts.append({"text": piece})
        for at, (name, arguments) in enumerate(answer.calls):
            call = {"name": name, "args": object_of(arguments)}
            # Only the newer models name their calls; only the first call of a step is signed.
            call |= {"id": turn.request.identifier("", str(at))[:8]} if signs else {}
            signature = (
                {"thoughtSignature": seal(of=name, id=turn.request.identifier("", "sig"))} if signs and at == 0 else {}
            )
            parts.append({"functionCall": call, **signature})
        if signs and not answer.calls and answer.text:
            parts.append({"text": "", "thoughtSignature": seal(of="", id=turn.request.identifier("", "sig"))})
        return parts

    def _usage(self, turn, answer, output=True):
        thought = sum(map(tokens, answer.thinking or ["thought of it"] if turn.view.thinks else []))
        said = tokens(answer.whole_text()) + sum(tokens(name + text) for name, text in answer.calls)
        total = turn.prompt.total()
        usage = {"promptTokenCount": total}
        if output:
            usage |= {"candidatesTokenCount": said}
        usage |= {"totalTokenCount": total + (said if output else 0) + thought}
        if turn.cached:
            usage |= {
                "cachedContentTokenCount": turn.cached,
                "cacheTokensDetails": [{"modality": "TEXT", "tokenCount": turn.cached}],
            }
        usage |= {"promptTokensDetails": [{"modality": "TEXT", "tokenCount": total}]}
        return usage | ({"thoughtsTokenCount": thought} if thought else {})

    def _chunk(self, turn, parts, usage, stop=None):
        candidate = {"content": {"parts": parts, "role": "model"}, "index": 0}
        candidate |= {"finishReason": stop} if stop else {}
        return {
            "candidates": [candidate],
            "usageMetadata": usage,
            "modelVersion": turn.model,
            "responseId": turn.request.identifier(""),
        }

    def whole(self, turn, answer):
        parts = []
        for part in self._content(turn, answer):
            last = parts[-1] if parts else {}
            is_text = part.keys() <= {"text", "thought"} and last.keys() == part.keys()
            if is_text:
                parts[-1] = {**last, "text": last["text"] + part["text"]}
            elif part.get("text") == "" and last.keys() == {"text"}:
                parts[-1] = {**last, "thoughtSignature": part["thoughtSignature"]}
            else:
                parts.append(part)
        return self._blocked(turn, answer) or self._chunk(turn, parts, self._usage(turn, answer), self._stop(answer))

    def events(self, turn, answer):
        parts = self._content(turn, answer)
        if blocked := self._blocked(turn, answer):
            return [_event(blocked)]
        early, late = self._usage(turn, answer, output=False), self._usage(turn, answer)
        chunks = [self._chunk(turn, [part], early) for part in parts[:-1]]
        chunks.append(self._chunk(turn, parts[-1:], late, self._stop(answer)))
        return [_event(chunk) for chunk in chunks]

    def _blocked(self, turn, answer):
        """A refused prompt has no candidate at all; a script asks for it with the stop `blocked`."""
        if answer.stop != "blocked":
            return None
        usage = {"promptTokenCount": turn.prompt.total(), "totalTokenCount": turn.prompt.total()}
        return {
            "promptFeedback": {"blockReason": "PROHIBITED_CONTENT"},
            "usageMetadata": usage,
            "modelVersion": turn.model,
        }

    def _stop(self, answer):
        return STOPS.get(answer.reason(), answer.reason())

    def error_event(self):
        return _event(error(503))

    def error(self, status):
        return error(status)

    def headers(self, turn):
        return {"server-timing": "gfet4t7; dur=1"}


def _event(value):
    return event(value, end="\r\n")


def _camel(body, known, where):
    """Both spellings of a name are the same, and clients mix them; an unknown one is refused."""
    made = {}
    for name, value in body.items():
        camel = _spelled(name)
        value = value if camel in FREE else _respelled(value)
        if camel not in known:
            place = f" at '{where.rstrip('.')}'" if where else ""
            said = f'Invalid JSON payload received. Unknown name "{name}"{place}: Cannot find field.'
            detail = {"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": [{"description": said}]}
            refuse(said, details=[detail])
        made[camel] = value
    return made


def _spelled(name):
    return re.sub(r"_([a-z])", lambda found: found[1].upper(), name)


def _respelled(value):
    if isinstance(value, list):
        return [_respelled(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    return {_spelled(name): inner if _spelled(name) in FREE else _respelled(inner) for name, inner in value.items()}


def _configured(config, body, model):
    thinking = _camel(config.get("thinkingConfig") or {}, THINKING, "generation_config.thinking_config.")
    if "thinkingLevel" in thinking and "thinkingBudget" in thinking:
        refuse("You can only set only one of thinking budget and thinking level.")
    if "thinkingLevel" in thinking:
        if not model.signs:
            refuse("Thinking level is not supported for this model.")
        if str(thinking["thinkingLevel"]).lower() not in LEVELS:
            refuse(
                f"Invalid value at 'generation_config.thinking_config.thinking_level', \"{thinking['thinkingLevel']}\""
            )
    is_json = config.get("responseMimeType") in ("application/json", "text/x.enum")
    if ("responseJsonSchema" in config or "responseSchema" in config) and not is_json:
        refuse("response_mime_type must be set to application/json when a response schema is given.")
    if "responseJsonSchema" in config and "responseSchema" in config:
        refuse("Only one of response_schema and response_json_schema can be set.")
    if is_json and body.get("tools") and not model.signs:
        refuse("Function calling with a response mime type: 'application/json' is unsupported")


def _tools(body):
    declared = []
    for at, tool in enumerate(body.get("tools") or []):
        for declaration in tool.get("functionDeclarations") or []:
            if not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}", str(declaration.get("name", ""))):
                refuse(
                    f"* GenerateContentRequest.tools[{at}].function_declarations[{len(declared)}].name: Invalid"
                    " function name. Must start with a letter or an underscore. Must be alphanumeric (a-z, A-Z, 0-9),"
                    " underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of 128.\n"
                )
            if "parameters" in declaration and "parametersJsonSchema" in declaration:
                refuse("parameters and parameters_json_schema cannot both be set.")
            declared.append(declaration)
    return declared


def _parts(content, where, allowed):
    """The parts of a content, each of one kind, in one spelling."""
    parts = content.get("parts") or []
    if isinstance(parts, dict):
        parts = [parts]
    if not parts and where != "systemInstruction":
        refuse(f"* GenerateContentRequest.{where}.parts: contents.parts must not be empty.\n")
    made = []
    for at, part in enumerate(parts):
        part = _camel(part, KINDS | BESIDE, f"{where}.parts[{at}].")
        kinds = [kind for kind in part if kind in KINDS]
        if len(kinds) != 1:
            word = "required oneof field 'data' must have one initialized field"
            refuse(f"* GenerateContentRequest.{where}.parts[{at}].data: {word}\n")
        if kinds[0] not in allowed:
            refuse(f"Please use a valid role: a part `{kinds[0]}` does not belong to {where}.")
        made.append(part)
    return made


def _current_turn(contents):
    """Behind the last content of a user that holds more than responses."""
    for at in range(len(contents) - 1, -1, -1):
        parts = contents[at].get("parts") or []
        parts = parts if isinstance(parts, list) else [parts]
        is_results = all("functionResponse" in part for part in parts)
        if contents[at].get("role", "user") == "user" and not is_results:
            return at
    return 0


def _is_dummy(signature):
    try:
        return (
            signature in DUMMIES
            or base64.urlsafe_b64decode(signature.replace("+", "-").replace("/", "_")).decode() in DUMMIES
        )
    except ValueError:
        return False


def models():
    return {
        "models": [
            {
                "name": f"models/{name}",
                "version": "001",
                "displayName": name,
                "inputTokenLimit": 1_048_576,
                "outputTokenLimit": 65_536,
                "supportedGenerationMethods": ["generateContent", "countTokens"],
                "thinking": True,
            }
            for name in MODELS
        ]
    }
