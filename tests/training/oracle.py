"""A model on loopback whose answers are a function in the test; it counts, and may do something first."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[list[dict[str, Any]]], str]


class Oracle:
    """A running one. `asked` are the messages of each request; `before` is called with their number first."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.asked: list[list[dict[str, Any]]] = []
        self.before: Callable[[int], None] = lambda _: None
        self.base_url = ""

    def config(self) -> dict[str, Any]:
        """What run.yaml says of it."""
        return {
            "model": "oracle/m",
            "backends": {"oracle": {"base_url": self.base_url, "key_required": False}},
        }

    def take(self, body: bytes) -> bytes:
        """Answer one request."""
        messages = json.loads(body)["messages"]
        self.asked.append(messages)
        self.before(len(self.asked))
        message = {"role": "assistant", "content": self.answer(messages)}
        usage = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return json.dumps(
            {"id": "c", "object": "chat.completion", "model": "m", "choices": [choice], "usage": usage}
        ).encode()


@contextmanager
def running_oracle(answer: Answer) -> Iterator[Oracle]:
    """Serve it as long as the context."""
    oracle = Oracle(answer)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = oracle.take(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    oracle.base_url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield oracle
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
