#!/usr/bin/env python3
"""A fake server of four provider protocols on loopback: OpenAI chat completions and Responses, Anthropic, Gemini.

    fake.py [--script FILE] [--log FOLDER] [--port PORT] [--words N] [--each-turn]

It prints `READY http://127.0.0.1:PORT` and ends on SIGTERM or at the end of its standard input. `README.md` beside this
file says what it checks.
"""

import argparse
import json
import os
import signal
import socket
import sys
import threading
import time
import urllib.parse
from collections import OrderedDict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import anthropic_messages
import answers
import gemini
import openai_chat
import openai_responses
import openai_shared
from exchange import Refused, Request, dumps
from prompt import Earlier

MAX_BODY_BYTES = 32 << 20
MAX_CONNECTIONS = 128
MAX_REQUESTS = 20_000
MAX_SEEN_BODIES = 65_536
MAX_HEADER_LINE = 64 << 10
SILENCE_S = 60
SECRETS = ("authorization", "x-api-key", "x-goog-api-key", "api-key")


class Cut(Exception):
    """A connection that the script ends."""


class Fake:
    """The state of the server: protocols with their caches, the script, the log, the clock."""

    def __init__(self, script, log, words, each_turn):
        self.protocols = {
            "/v1/chat/completions": openai_chat.Protocol(),
            "/v1/responses": openai_responses.Protocol(),
            "/v1/messages": anthropic_messages.Protocol(),
        }
        self.gemini = gemini.Protocol()
        self.script, self.log, self.words, self.each_turn = script, log, words, each_turn
        self.lock = threading.Lock()
        self.count, self.skipped_s = 0, 0.0
        self.seen = OrderedDict()
        self.earlier = {}

    def protocol(self, path):
        if path in self.protocols:
            return self.protocols[path]
        return self.gemini if gemini.PATH.fullmatch(urllib.parse.unquote(path)) else None

    def next_line(self):
        """The number of this request, and what the script has for it."""
        with self.lock:
            self.count += 1
            at = self.count - 1
            answer, fault = self.script[at] if at < len(self.script) else (None, answers.Fault())
            self.skipped_s += fault.advance_s
            return self.count, answer, fault

    def read(self, protocol, request, scripted):
        """Reads a request when its answer begins: only then can others read what it writes to a cache."""
        with self.lock:
            key = (request.path, request.body)
            self.seen[hash(key)] = request.nth = self.seen.get(hash(key), 0) + 1
            while len(self.seen) > MAX_SEEN_BODIES:
                self.seen.popitem(last=False)
            turn = protocol.read(request, time.monotonic() + self.skipped_s)
            earlier = self.earlier.setdefault(protocol.name, Earlier())
            turn.facts["reusable"] = earlier.longest(turn.prompt, turn.prompt.role())
            earlier.add(turn.prompt, turn.prompt.role())
            return turn, scripted or answers.by_itself(turn.view, self.words, self.each_turn)

    def write(self, name, content):
        if self.log:
            (self.log / name).write_bytes(content)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = SILENCE_S
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def version_string(self):
        return "fake"

    def do_GET(self):
        path = urllib.parse.urlsplit(self.path).path
        if not path.startswith(("/v1/models", "/v1beta/models")):
            return self.whole(
                404, {"error": {"message": f"there is nothing at {path}", "type": "invalid_request_error"}}
            )
        if "anthropic-version" in self.headers:
            known, key = anthropic_messages.models(), "data"
        elif path.startswith("/v1beta") or "x-goog-api-key" in self.headers:
            known, key = gemini.models(), "models"
        else:
            known, key = openai_shared.models(), "data"
        name = urllib.parse.unquote(path.partition("/models")[2].lstrip("/"))
        if not name:
            return self.whole(200, known)
        found = [one for one in known[key] if name in (one.get("id"), one.get("name", "").removeprefix("models/"))]
        return self.whole(200, found[0]) if found else self.whole(404, openai_shared.error(404, f"no model {name}"))

    def do_POST(self):
        fake = self.server.fake
        url = urllib.parse.urlsplit(self.path)
        try:
            body = self.body()
        except (ValueError, OSError):
            self.close_connection = True
            return
        protocol = fake.protocol(url.path)
        if protocol is None:
            return self.whole(
                404, {"error": {"message": f"there is nothing at {url.path}", "type": "invalid_request_error"}}
            )
        if body is None:
            self.close_connection = True
            return self.whole(413, protocol.error(413))
        number, scripted, fault = fake.next_line()
        if number > MAX_REQUESTS:
            return self.whole(503, protocol.error(503))
        headers = {name.lower(): value for name, value in self.headers.items()}
        query = dict(urllib.parse.parse_qsl(url.query))
        request = Request("POST", url.path, query, headers, body)
        fake.write(f"{number:05}-request.http", self.head() + body)
        try:
            self.answer(fake, protocol, request, scripted, fault, number)
        except (Cut, OSError):
            self.close_connection = True

    def answer(self, fake, protocol, request, scripted, fault, number):
        if fault.wait_ms:
            time.sleep(fault.wait_ms / 1000)
        try:
            if fault.status:
                body = fault.body if fault.body is not None else protocol.error(fault.status)
                raise Refused(fault.status, body, fault.headers)
            try:
                turn, answer = fake.read(protocol, request, scripted)
            except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
                # A member of a type that no check names.
                raise Refused(400, protocol.error(400) | {"fake": f"unreadable: {error!r}"}) from error
        except Refused as refused:
            self.note(fake, number, protocol, refused.status, {"refusal": refused.body})
            return self.whole(refused.status, refused.body, refused.headers)
        self.note(
            fake,
            number,
            protocol,
            200,
            {
                "model": turn.model,
                "role": turn.prompt.role()[:16],
                "streamed": turn.is_streamed,
                "prompt_tokens": turn.prompt.total(),
                "cached_tokens": turn.cached,
                "written_tokens": turn.written,
                "reusable_tokens": turn.facts["reusable"],
            },
        )
        with fake.lock:
            content = protocol.events(turn, answer) if turn.is_streamed else protocol.whole(turn, answer)
        headers = {**protocol.headers(turn), **fault.headers}
        if not turn.is_streamed:
            is_cut = fault.cut_after is not None or fault.end_after is not None
            return (
                self.whole(200, content, headers, is_cut)
                if fault.error_after is None
                else self.whole(500, protocol.error(500))
            )
        if protocol.name == "gemini" and request.query.get("alt") != "sse":
            texts = [event.removeprefix(b"data: ").strip() for event in content]
            return self.whole(200, b"[" + b",\r\n".join(texts) + b"]", headers)
        self.stream(content, fault, headers, protocol)

    def stream(self, events, fault, headers, protocol):
        self.send_response(200)
        for name, value in {
            "content-type": "text/event-stream; charset=utf-8",
            "cache-control": "no-cache",
            **headers,
        }.items():
            self.send_header(name, value)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for at, event in enumerate(events):
            if at == fault.cut_after:
                self.cut()
            if at == fault.end_after:
                break
            if at == fault.error_after:
                self.chunk(protocol.error_event())
                break
            self.chunk(event)
            if fault.gap_ms:
                time.sleep(fault.gap_ms / 1000)
        self.wfile.write(b"0\r\n\r\n")

    def chunk(self, event):
        self.wfile.write(f"{len(event):x}\r\n".encode() + event + b"\r\n")
        self.wfile.flush()

    def cut(self):
        """Ends the connection within the answer."""
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)
        raise Cut

    def whole(self, status, value, headers=None, is_cut=False):
        content = (
            value
            if isinstance(value, bytes)
            else value.encode() if isinstance(value, str) else dumps(value).encode("utf-8", "surrogatepass")
        )
        self.send_response(status)
        for name, text in {"content-type": "application/json", **(headers or {})}.items():
            self.send_header(name, str(text))
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        if is_cut:
            self.wfile.write(content[: len(content) // 2])
            self.cut()
        self.wfile.write(content)

    def body(self):
        """The bytes of the body; None if there are too many."""
        if "chunked" in self.headers.get("transfer-encoding", "").lower():
            body = bytearray()
            while True:
                size = int(self.rfile.readline(MAX_HEADER_LINE).split(b";")[0], 16)
                if size == 0:
                    while self.rfile.readline(MAX_HEADER_LINE).strip():
                        pass
                    return bytes(body)
                if len(body) + size > MAX_BODY_BYTES:
                    return None
                body += self.rfile.read(size)
                self.rfile.readline(MAX_HEADER_LINE)
        length = int(self.headers.get("content-length") or 0)
        return self.rfile.read(length) if 0 <= length <= MAX_BODY_BYTES else None

    def head(self):
        """The request line and headers for the log; of keys, only that they were there."""
        lines = [self.requestline]
        for name, value in self.headers.items():
            lines.append(f"{name.lower()}: {'(hidden)' if name.lower() in SECRETS else value}")
        url = urllib.parse.urlsplit(self.path)
        if "key=" in url.query:
            lines[0] = f"{self.command} {url.path}?(hidden)"
        return "\n".join(lines).encode("utf-8", "replace") + b"\n\n"

    @staticmethod
    def note(fake, number, protocol, status, facts):
        note = {"number": number, "protocol": protocol.name, "status": status, **facts}
        fake.write(
            f"{number:05}-answer.json", json.dumps(note, indent=1, ensure_ascii=False).encode("utf-8", "surrogatepass")
        )


class Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, address, fake):
        super().__init__(address, Handler)
        self.fake, self.places = fake, threading.BoundedSemaphore(MAX_CONNECTIONS)

    def process_request(self, request, client_address):
        self.places.acquire()
        super().process_request(request, client_address)

    def process_request_thread(self, request, client_address):
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.places.release()

    def handle_error(self, request, client_address):
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handle_error(request, client_address)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--script", help="JSON lines, one for each request in order; behind its end the fake answers by itself"
    )
    parser.add_argument("--log", type=Path, help="a folder for each request and what was counted for it")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--words", type=int, default=0, help="makes its own answers longer by so many words")
    parser.add_argument(
        "--each-turn", action="store_true", help="makes its own call in each turn, not only in the first"
    )
    options = parser.parse_args()
    try:
        script = answers.read_script(options.script) if options.script else []
        if options.log:
            options.log.mkdir(parents=True, exist_ok=True)
    except (OSError, answers.ScriptError) as error:
        sys.exit(f"error: {error}")
    server = Server(("127.0.0.1", options.port), Fake(script, options.log, options.words, options.each_turn))
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    print(f"READY http://127.0.0.1:{server.server_address[1]}", flush=True)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    while sys.stdin.buffer.read(4096):
        pass
    os._exit(0)


if __name__ == "__main__":
    main()
