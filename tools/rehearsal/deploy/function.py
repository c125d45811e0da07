"""The server to which the emulated AWS sends the events of every function.

MiniStack posts each event to one address, with the function's name, its version and the credentials
of its role. The rehearsal sets the callable that answers after the server has started.
"""

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tools.local_endpoint.runtime import FunctionError

__all__ = ["FunctionServer", "Invocation", "function_server"]


@dataclass(frozen=True, kw_only=True)
class Invocation:
    """An event for a function.

    Attributes:
        function: The function's name.
        version: The invoked version, or `$LATEST`.
        event: The event, as JSON.
        credentials: The environment variables with the credentials of the function's role.
    """

    function: str
    version: str
    event: bytes
    credentials: Mapping[str, str]

    @property
    def through_url(self) -> bool:
        """Whether it came through a Function URL."""
        context: Any = json.loads(self.event).get("requestContext", {})
        return "domainName" in context


class FunctionServer:
    """Answers events with a callable.

    Attributes:
        url: The address.
        events: The number of events that came through a Function URL.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.events = 0
        self._answer: Callable[[Invocation], bytes] | None = None

    def serve(self, answer: Callable[[Invocation], bytes]) -> None:
        """Set the callable that answers; it raises FunctionError for a function's error."""
        self._answer = answer

    def answer(self, invocation: Invocation) -> bytes:
        """Return the function's result, or its error in Lambda's form."""
        self.events += invocation.through_url
        if self._answer is None:
            return _error("no function runs yet")
        try:
            return self._answer(invocation)
        except FunctionError as error:
            return _error(str(error))


def _error(text: str) -> bytes:
    """Write a function's error as Lambda returns it to the caller."""
    # Only message and class are needed: the runtime's text has a long stack trace.
    found = re.search(r'"errorMessage": ?("(?:[^"\\]|\\.)*")', text)
    message = json.loads(found[1]) if found else text
    kind = re.search(r'"errorType": ?"(\w+)"', text)
    return json.dumps(
        {"errorMessage": message, "errorType": kind[1] if kind else "FunctionError"}
    ).encode()


class _Server(ThreadingHTTPServer):
    #: A batch job invokes its function many times at once. Python's default of five waiting
    #: connections is too few for that.
    request_queue_size = 128


@contextmanager
def function_server() -> Iterator[FunctionServer]:
    """Run the server until the block ends."""

    class _Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            size = int(self.headers.get("Content-Length", 0))
            invocation = Invocation(
                function=self.headers.get("X-Amzn-Lambda-Function-Name", ""),
                version=self.headers.get("X-Amzn-Lambda-Function-Version", ""),
                event=self.rfile.read(size),
                credentials=dict(parse_qsl(urlsplit(self.path).query)),
            )
            body = server.answer(invocation)
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Write no log."""

    with _Server(("127.0.0.1", 0), _Handler) as listening:
        server = FunctionServer(f"http://127.0.0.1:{listening.server_address[1]}/")
        thread = threading.Thread(target=listening.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            listening.shutdown()
            thread.join()
