"""A small hub on this machine, which speaks the few requests of the protocol."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tests.fixtures.local_server import QuietHandler, serving

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


def _handler_of(served: Hub) -> type[QuietHandler]:
    class Handler(QuietHandler):
        def respond(self) -> None:
            path = unquote(urlsplit(self.path).path)
            token = self.headers.get("Authorization")
            if self.command != "HEAD":
                served.asked.append((path, token))
            is_api = path.startswith("/api/models/")
            rest = path.removeprefix("/api/models/").lstrip("/")
            owner, name, *more = rest.split("/")
            folder = served.repositories.get(f"{owner}/{name}")
            if folder is None:
                self.answer(404, X_Error_Code="RepoNotFound")
            elif f"{owner}/{name}" in served.gated and not is_api and token != "Bearer right":
                self.answer(403, X_Error_Code="GatedRepo")
            elif len(more) > 1 and more[1] not in {served.commit, "main"}:
                self.answer(404, X_Error_Code="RevisionNotFound")
            elif is_api:
                self.answer(200, json.dumps(_api(folder, more, served.commit)).encode())
            else:
                content = (folder / "/".join(more[2:])).read_bytes()
                tag = f'"{sha256_of(content)}"'
                self.answer(200, content, ETag=tag, X_Repo_Commit=served.commit)

        do_HEAD = respond  # noqa: N815 - a name that the base class looks for

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
    with serving(_handler_of(hub)) as hub.endpoint:
        yield hub
