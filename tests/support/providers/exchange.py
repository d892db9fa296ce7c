"""What the four protocols share: a request, its refusal, the events of a stream, and sealed opaque texts."""

import base64
import hashlib
import hmac
import json
from dataclasses import dataclass, field

SEAL_KEY = b"the fake's own key: nothing else can write what it accepts"
# The fake's clock for what it writes into answers: equal requests get equal bytes.
CREATED = 1_795_000_000
CREATED_RFC = "2026-11-18T10:26:40Z"


class Refused(Exception):
    """An answer that is no success: a status, the provider's own body, headers."""

    def __init__(self, status, body, headers=None):
        super().__init__(f"{status}: {body}")
        self.status, self.body, self.headers = status, body, headers or {}


@dataclass
class Request:
    method: str
    path: str
    query: dict
    headers: dict
    body: bytes
    # Of equal requests, the first has 1.
    nth: int = 1

    def bearer(self):
        value = self.headers.get("authorization", "")
        return value[len("Bearer ") :].strip() if value.startswith("Bearer ") else ""

    def identifier(self, prefix, what=""):
        """The same for the same request: a digest of its bytes and how often they came."""
        text = f"{self.path}\0{self.nth}\0{what}\0".encode() + self.body
        return prefix + hashlib.sha256(text).hexdigest()[:24]


@dataclass
class Turn:
    """A request that the protocol has read and accepted."""

    request: Request
    model: str
    prompt: object
    view: object
    is_streamed: bool = False
    # Tokens of the prompt: `cached + written + fresh` is its whole.
    cached: int = 0
    written: int = 0
    facts: dict = field(default_factory=dict)

    def fresh(self):
        return self.prompt.total() - self.cached - self.written


def dumps(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def event(value, name=None, end="\n"):
    """The bytes of one server-sent event."""
    head = f"event: {name}{end}" if name else ""
    return f"{head}data: {dumps(value)}{end}{end}".encode("utf-8", "surrogatepass")


def digest(value):
    text = value if isinstance(value, str) else dumps(value)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def seal(**facts):
    """An opaque text that only the fake can have written."""
    text = dumps(facts).encode()
    return base64.b64encode(hmac.new(SEAL_KEY, text, hashlib.sha256).digest()[:16] + text).decode()


def unseal(text):
    """The facts in an opaque text of the fake, or None. Both alphabets of base64: google-genai writes the other one."""
    if not isinstance(text, str):
        return None
    try:
        raw = base64.b64decode(text.replace("-", "+").replace("_", "/"), validate=True)
    except ValueError:
        return None
    mark, facts = raw[:16], raw[16:]
    is_own = hmac.compare_digest(mark, hmac.new(SEAL_KEY, facts, hashlib.sha256).digest()[:16])
    return json.loads(facts) if is_own else None


def parsed(body, refuse):
    """The object of a request body; `refuse` raises the protocol's own refusal."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        refuse("We could not parse the JSON body of your request.")
    if not isinstance(value, dict):
        refuse("The body of a request must be a JSON object.")
    return value


def object_of(text):
    """The arguments of a call as an object: what is none is not sent by APIs that have objects there."""
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def schemas(schema):
    """Every schema within a schema, itself first."""
    stack = [schema]
    while stack:
        one = stack.pop()
        if not isinstance(one, dict):
            continue
        yield one
        for name in ("properties", "$defs", "definitions"):
            stack.extend((one.get(name) or {}).values())
        for name in ("anyOf", "oneOf", "allOf"):
            stack.extend(one.get(name) or [])
        stack.append(one.get("items"))
