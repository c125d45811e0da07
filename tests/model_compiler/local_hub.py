"""A small hub on this machine, which speaks the few requests of the protocol."""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Hub:
    """Repositories by name, each a folder; records the requests and their tokens."""

    repositories: dict[str, Path] = field(default_factory=dict)
    gated: set[str] = field(default_factory=set)
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    endpoint: str = ""
    commit: str = COMMIT

    def paths(self) -> list[str]:
        """Return the files that were fetched, without their repository."""
        return sorted(
            path.partition(f"/resolve/{self.commit}/")[2]
            for path, _ in self.asked
            if "/resolve/" in path
        )


def _handler_of(served: Hub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(body=True)

        def do_HEAD(self) -> None:
            self._answer(body=False)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

        def _answer(self, *, body: bool) -> None:
            path = unquote(urlsplit(self.path).path)
            token = self.headers.get("Authorization")
            if body:
                served.asked.append((path, token))
            is_api = path.startswith("/api/models/")
            rest = path.removeprefix("/api/models/").lstrip("/")
            owner, name, *more = rest.split("/")
            folder = served.repositories.get(f"{owner}/{name}")
            if folder is None:
                self._send(404, b"", {"X-Error-Code": "RepoNotFound"}, body=body)
            elif f"{owner}/{name}" in served.gated and not is_api and token != "Bearer right":
                self._send(403, b"", {"X-Error-Code": "GatedRepo"}, body=body)
            elif len(more) > 1 and more[1] not in {served.commit, "main"}:
                self._send(404, b"", {"X-Error-Code": "RevisionNotFound"}, body=body)
            elif is_api:
                self._send(
                    200, json.dumps(_api(folder, more, served.commit)).encode(), {}, body=body
                )
            else:
                content = (folder / "/".join(more[2:])).read_bytes()
                headers = {"ETag": f'"{sha256_of(content)}"', "X-Repo-Commit": served.commit}
                self._send(200, content, headers, body=body)

        def _send(
            self, status: int, content: bytes, headers: dict[str, str], *, body: bool
        ) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            if body:
                self.wfile.write(content)

    return Handler


def sha256_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _api(folder: Path, more: list[str], commit: str) -> object:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    if more[:1] == ["tree"]:
        return [
            {
                "type": "file",
                "path": path.relative_to(folder).as_posix(),
                "size": path.stat().st_size,
                "oid": sha256_of(path.read_bytes())[:40],
            }
            for path in files
        ]
    return {
        "id": "acme/tiny",
        "modelId": "acme/tiny",
        "sha": commit,
        "private": False,
        "tags": ["sentence-transformers", "license:mit"],
        "siblings": [{"rfilename": path.relative_to(folder).as_posix()} for path in files],
    }


@contextmanager
def serve() -> Iterator[Hub]:
    """Serve an empty hub at a free port."""
    hub = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(hub))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    hub.endpoint = f"http://127.0.0.1:{server.server_port}"
    yield hub
    server.shutdown()
    server.server_close()
    thread.join()
