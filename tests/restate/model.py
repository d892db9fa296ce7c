"""A model server on loopback that remembers what it was asked.

Each request names its work in the last message of the user: `work KEY`. The answer is a chat completion in OpenAI's
form, streamed, after a delay: status `more`. What was asked is written down before the delay, and what was answered
after the last byte, so that a test can tell what a killed worker had paid for.
"""

import json
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

WORK = re.compile(r"work ([\w.-]+)")


class Model:
    def __init__(self, delay_s=0.0, reply_bytes=20):
        self.delay_s, self.reply_bytes = delay_s, reply_bytes
        self.lock = threading.Lock()
        # (time, "asked" | "answered", key, number of answers in the conversation)
        self.log = []
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log_message(self, *_):
                pass

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                users = [text(m) for m in body["messages"] if m["role"] == "user"]
                key = WORK.findall("\n".join(users))
                place = (key[-1] if key else "?", sum(m["role"] == "assistant" for m in body["messages"]))
                model.note("asked", place)
                time.sleep(model.delay_s)
                answer = json.dumps({"status": "more", "body": "a" * model.reply_bytes})
                usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
                head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": body["model"]}
                parts = [
                    {**head, "choices": [{"index": 0, "delta": {"role": "assistant", "content": answer}}]},
                    {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
                    {**head, "choices": [], "usage": usage},
                ]
                data = "".join(f"data: {json.dumps(part)}\n\n" for part in parts) + "data: [DONE]\n\n"
                try:
                    self.send_response(200)
                    self.send_header("content-type", "text/event-stream")
                    self.send_header("content-length", str(len(data)))
                    self.end_headers()
                    self.wfile.write(data.encode())
                    self.wfile.flush()
                except OSError:
                    return
                model.note("answered", place)

        class Server(ThreadingHTTPServer):
            def handle_error(self, *_):
                pass  # A worker was killed.

        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.request_queue_size = 512
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def note(self, what, place):
        with self.lock:
            self.log.append((time.monotonic(), what, *place))

    def again(self):
        """Work that was asked for after the work behind it had been: calls whose answers were acknowledged."""
        furthest, found = {}, []
        for at, what, key, place in self.log:
            if what != "asked":
                continue
            if place < furthest.get(key, 0):
                found.append((at, key, place))
            furthest[key] = max(furthest.get(key, 0), place)
        return found

    def asked(self):
        return sum(what == "asked" for _, what, *_ in self.log)

    def close(self):
        self.server.shutdown()


def text(message):
    content = message["content"]
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
