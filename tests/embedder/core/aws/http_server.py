"""A small HTTP server with answers that a test decides."""

import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.fixtures import local_server


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

    class Handler(local_server.QuietHandler):
        def setup(self) -> None:
            super().setup()
            state.connections += 1

        def respond(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            state.requests.append((self.command, self.path, headers, self.read_body()))
            status, content = state.answer()
            self.answer(status, content, X_Mixed="Yes")
            self.close_connection = state.hang_up

    with local_server.serving(Handler, tls=tls) as state.url:
        yield state
