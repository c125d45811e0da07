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
        serve: Returns a function's result; it raises FunctionError for a function's error.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.events = 0
        self.serve: Callable[[Invocation], bytes] = _no_function

    def answer(self, invocation: Invocation) -> bytes:
        """Return the function's result, or its error in Lambda's form."""
        self.events += invocation.through_url
        try:
            return self.serve(invocation)
        except FunctionError as error:
            # Only message and class are needed: the runtime's text has a long stack trace.
            found = re.search(r'"errorMessage": ?("(?:[^"\\]|\\.)*")', str(error))
            kind = re.search(r'"errorType": ?"(\w+)"', str(error))
            message = json.loads(found[1]) if found else str(error)
            told = {"errorMessage": message, "errorType": kind[1] if kind else "FunctionError"}
            return json.dumps(told).encode()


def _no_function(_: Invocation) -> bytes:
    raise FunctionError("no function runs yet")


class _Server(ThreadingHTTPServer):
    #: A batch job invokes its function many times at once. Python's default of five waiting
    #: connections is too few for that.
    request_queue_size = 128


@contextmanager
def function_server() -> Iterator[FunctionServer]:
    """Run the server until the block ends."""

    class _Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            invocation = Invocation(
                function=self.headers["X-Amzn-Lambda-Function-Name"],
                version=self.headers["X-Amzn-Lambda-Function-Version"],
                event=self.rfile.read(int(self.headers["Content-Length"])),
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
