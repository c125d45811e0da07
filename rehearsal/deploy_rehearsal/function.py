"""The function behind the deployed URL: our handler in AWS's own runtime, or the image itself.

MiniStack sends each event of a function to an address. Here it leads to a process of ours that runs
the handler with the variables that the deployed function has.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from local_function_url.runtime import FunctionError, Runtime

__all__ = ["FunctionServer", "function_server"]


class FunctionServer:
    """An address that answers events, once it is given a runtime.

    Attributes:
        url: The address.
        events: How many events have come.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.events = 0
        self._runtime: Runtime | None = None

    def serve(self, runtime: Runtime) -> None:
        """Answer from now on by a runtime."""
        self._runtime = runtime

    def answer(self, event: bytes) -> tuple[int, bytes]:
        """Answer an event: a status, and the function's result."""
        self.events += 1
        if self._runtime is None:
            return 503, b'{"errorMessage": "no function runs yet"}'
        try:
            return 200, self._runtime.invoke(event)
        except FunctionError as error:
            return 500, str(error).encode()


@contextmanager
def function_server() -> Iterator[FunctionServer]:
    """Listen until the block ends."""

    class _Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            size = int(self.headers.get("Content-Length", 0))
            status, body = server.answer(self.rfile.read(size))
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as listening:
        server = FunctionServer(f"http://127.0.0.1:{listening.server_address[1]}/")
        thread = threading.Thread(target=listening.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            listening.shutdown()
            thread.join()
