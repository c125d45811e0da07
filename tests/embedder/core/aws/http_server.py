"""A small HTTP server with answers that a test decides."""

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Server:
    """The server's URL and what happened so far."""

    url: str = ""
    connections: int = 0
    #: Method, target, headers in lower case, body.
    requests: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)
    #: Closes the connection after each answer without announcing it.
    hang_up: bool = False
    answer: Callable[[], tuple[int, bytes]] = lambda: (200, b"{}")


@contextmanager
def serving(tls: ssl.SSLContext | None = None) -> Iterator[Server]:
    """Serve on this machine, with TLS if there is a context for it."""
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            state.connections += 1

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Print nothing."""

        def do_GET(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            body = self.rfile.read(int(headers.get("content-length", 0)))
            state.requests.append((self.command, self.path, headers, body))
            status, content = state.answer()
            self.send_response(status)
            self.send_header("content-length", str(len(content)))
            self.send_header("X-Mixed", "Yes")
            self.end_headers()
            self.wfile.write(content)
            self.close_connection = state.hang_up

        def do_POST(self) -> None:
            self.do_GET()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state.url = f"http://127.0.0.1:{server.server_port}"
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
        state.url = f"https://localhost:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
