"""What OpenAI's two protocols share: errors, models, the prompt cache (<https://developers.openai.com/api/docs/guides>)."""

import re

from exchange import CREATED, Refused, schemas
from prompt import Entries, Stepped

FLOOR = 1024
LAST_ENDS, FIRST_MARKS, LAST_MARKS = 20, 2, 50
TTL_S = {"30m": 1800, "12h": 43200}
MODELS = ("gpt-6.1-sol", "gpt-6", "gpt-5.6", "gpt-5.5", "gpt-5", "gpt-4.1", "gpt-4.1-mini")
KINDS = {401: "invalid_request_error", 429: "rate_limit_exceeded", 500: "server_error", 503: "server_error"}
WORDS = {
    401: "Incorrect API key provided.",
    429: "Rate limit reached for requests",
    500: "The server had an error while processing your request.",
    503: "That model is currently overloaded with other requests. Slow down.",
}


class Model:
    """What follows from a model's name; a name that is not OpenAI's is a plain model without reasoning."""

    def __init__(self, name):
        found = re.match(r"gpt-(\d+)(?:\.(\d+))?", name)
        self.version = (int(found[1]), int(found[2] or 0)) if found else (0, 0)
        self.reasons = self.version >= (5, 0) or re.match(r"o\d", name) is not None
        self.has_points = self.version >= (5, 6)
        self.step = 2048 if self.version == (5, 5) else 128


def error(status, message=None, kind=None, param=None, code=None):
    kind = kind or KINDS.get(status, "invalid_request_error" if status < 500 else "server_error")
    return {"error": {"message": message or WORDS.get(status, kind), "type": kind, "param": param, "code": code}}


def refuse(message, param=None, code=None, status=400):
    raise Refused(status, error(status, message, "invalid_request_error", param, code))


def check_key(request):
    if not request.bearer():
        refuse(
            "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer"
            " auth (i.e. Authorization: Bearer YOUR_KEY).",
            status=401,
        )


def check_shared(body):
    """Members that both protocols have."""
    key = body.get("prompt_cache_key")
    if isinstance(key, str) and len(key) > 64:
        refuse(
            "Invalid 'prompt_cache_key': string too long. Expected a string with maximum length 64, but got a string"
            f" with length {len(key)} instead.",
            "prompt_cache_key",
            "string_above_max_length",
        )
    retention = body.get("prompt_cache_retention")
    if retention not in (None, "in_memory", "24h"):
        refuse(
            f"Invalid value: '{retention}'. Supported values are: 'in_memory' and '24h'.",
            "prompt_cache_retention",
            "invalid_value",
        )
    if retention == "in_memory" and Model(body["model"]).version >= (5, 5):
        refuse(
            "prompt_cache_retention='in_memory' is not supported for this model.",
            "prompt_cache_retention",
            "invalid_value",
        )


def check_schema(schema, what, param):
    """The rules of strict schemas."""
    if not isinstance(schema, dict):
        refuse(
            f"Invalid schema for {what}: schema must be a JSON Schema of 'type: \"object\"'.",
            param,
            "invalid_json_schema",
        )
    if schema.get("type") != "object" or "anyOf" in schema:
        refuse(
            f"Invalid schema for {what}: schema must be a JSON Schema of 'type: \"object\"'.",
            param,
            "invalid_json_schema",
        )
    for one in schemas(schema):
        properties = one.get("properties") or {}
        if one.get("type") != "object" and not properties:
            continue
        if one.get("additionalProperties") is not False:
            refuse(
                f"Invalid schema for {what}: In context=(), 'additionalProperties' is required to be supplied and to be"
                " false.",
                param,
                "invalid_json_schema",
            )
        if missing := [name for name in properties if name not in (one.get("required") or [])]:
            refuse(
                f"Invalid schema for {what}: In context=(), 'required' is required to be supplied and to be an array"
                f" including every key in properties. Missing '{missing[0]}'.",
                param,
                "invalid_json_schema",
            )


def check_function(name, param):
    if not isinstance(name, str) or not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name):
        refuse(
            f"Invalid '{param}': string does not match pattern. Expected a string that matches the pattern"
            " '^[a-zA-Z0-9_-]+$'.",
            param,
            "invalid_value",
        )


class Cache:
    """From GPT-5.6 on, entries at implicit points and marks; before, the longest beginning in steps."""

    def __init__(self):
        self.entries, self.stepped = Entries(), {}

    def account(self, turn, places, body, now):
        """`places` has `ends` of messages, `points` where an implicit entry may be, and `marks` with their TTL."""
        prompt, model = turn.prompt, Model(turn.model)
        if not model.has_points:
            cache = self.stepped.setdefault(turn.model, Stepped()) if len(self.stepped) < 256 else Stepped()
            turn.cached = cache.cached_tokens(prompt, FLOOR, model.step)
            cache.add(prompt)
            return {}
        options = body.get("prompt_cache_options") or {}
        is_implicit, ttl = options.get("mode", "implicit") == "implicit", options.get("ttl", "30m")
        marks = places["marks"]
        candidates = [at for at, _ in marks[:FIRST_MARKS] + marks[-LAST_MARKS:]]
        if is_implicit:
            candidates += places["ends"][-LAST_ENDS:]
        read = self.entries.longest(prompt, candidates, now)
        turn.cached = prompt.ends[read] if read is not None else 0
        points = [(at, own or ttl) for at, own in marks[-3 if is_implicit else -4 :]]
        if is_implicit and places["points"]:
            points.append((places["points"][-1], ttl))
        points = [(at, own) for at, own in points if prompt.ends[at] >= FLOOR]
        end = max((prompt.ends[at] for at, _ in points), default=0)
        turn.written = max(end - turn.cached, 0)
        long_end = max((prompt.ends[at] for at, own in points if own == "12h"), default=0)
        long = min(max(long_end - turn.cached, 0), turn.written)
        for at, own in points:
            self.entries.write(prompt, at, TTL_S.get(own, 1800), now)
        return {"ttl_30m_tokens": turn.written - long, "ttl_12h_tokens": long}


def headers(turn):
    return {
        "x-request-id": turn.request.identifier("req_"),
        "openai-version": "2020-10-01",
        "openai-processing-ms": "1",
        "x-ratelimit-limit-requests": "1000",
        "x-ratelimit-remaining-requests": "999",
        "x-ratelimit-reset-requests": "60ms",
    }


def models():
    data = [{"id": name, "object": "model", "created": CREATED, "owned_by": "openai"} for name in MODELS]
    return {"object": "list", "data": data}
