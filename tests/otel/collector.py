"""An OpenTelemetry collector on loopback that keeps what it is sent."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Collector:
    """What came: spans in the order of their arrival. With `down` it refuses everything."""

    def __init__(self) -> None:
        self.url = ""
        self.spans = []
        self.paths = []
        self.down = False

    def take(self, path: str, body: bytes) -> int:
        """Answer one request with a status."""
        self.paths.append(path)
        if self.down:
            return 400
        request = ExportTraceServiceRequest.FromString(body)
        for resource in request.resource_spans:
            for scope in resource.scope_spans:
                self.spans += scope.spans
        return 200

    def named(self, beginning: str) -> list:
        """The spans whose names begin so."""
        return [span for span in self.spans if span.name.startswith(beginning)]


def attributes_of(span) -> dict:
    """A span's attributes as Python has them."""
    values = {}
    for attribute in span.attributes:
        kind = attribute.value.WhichOneof("value")
        values[attribute.key] = getattr(attribute.value, kind)
    return values


@contextmanager
def running_collector() -> Iterator[Collector]:
    """A collector, as long as the context."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            self.send_response(collector.take(self.path, body))
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector.url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
