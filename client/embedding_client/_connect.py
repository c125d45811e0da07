"""The client that the arguments of `embed` describe, and the vector spaces of earlier uses.

The file with these is one of the user's: a JSON object of URLs and vector spaces, for `embed
doctor`. It is no error if it cannot be read or written.
"""

import argparse
import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2

from embedding_client._arguments import URL_VARIABLE
from embedding_client._auth import LOOPBACK, read_key
from embedding_client._client import EmbeddingClient
from embedding_client._flows import RetryPolicy
from embedding_client._targets import UrlTarget, choose_auth, function_target
from embedding_client.errors import ConfigurationError, print_error


def connect_to(args: argparse.Namespace, *, vector_space: str | None = None) -> EmbeddingClient:
    """Return a client for the endpoint in the arguments."""
    if not args.url and not args.function:
        raise ConfigurationError(f"No endpoint: give --url or --function, or set {URL_VARIABLE}.")
    settings: dict[str, Any] = {
        "allow_plain_http": args.allow_plain_http,
        "concurrency": args.concurrency,
        "vector_space": vector_space,
        "retries": _Announced() if sys.stderr.isatty() else None,
    }
    if not args.function:
        if args.endpoint_url:
            raise ConfigurationError("--endpoint-url belongs to --function.")
        return EmbeddingClient(args.url, auth=auth_for(args.url, args), **settings)
    if args.api_key_env:
        raise ConfigurationError(
            "--api-key-env belongs to a URL. Lambda's Invoke takes a signature only."
        )
    target = function_target(
        args.function,
        endpoint_url=args.endpoint_url,
        region=args.region,
        profile=args.profile,
        allow_plain_http=args.allow_plain_http,
    )
    return EmbeddingClient(
        function=target.name,
        endpoint_url=target.api,
        region=target.region,
        auth=choose_auth(target, allow_plain_http=args.allow_plain_http, profile=args.profile),
        **settings,
    )


class _Announced(RetryPolicy):
    """The default policy, which prints that the first attempt has failed."""

    def wait(self, attempt: int, headers: Mapping[str, str] | None = None) -> float | None:
        """Return the seconds to wait, as `RetryPolicy.wait` does."""
        seconds = super().wait(attempt, headers)
        if attempt == 1 and seconds is not None:
            print_error("no answer yet: the first attempt failed; trying again ...")
        return seconds


def auth_for(url: str, args: argparse.Namespace) -> httpx2.Auth:
    """Return what authenticates requests to a URL, by the arguments."""
    return choose_auth(
        UrlTarget(url),
        allow_plain_http=args.allow_plain_http,
        api_key=args.api_key_env and read_key(args.api_key_env),
        profile=args.profile,
        region=args.region,
    )


def spaces_file() -> Path:
    """Return the file: in XDG_STATE_HOME, or in ~/.local/state."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "embedding-kit" / "vector-spaces.json"


def note_space(args: argparse.Namespace, client: EmbeddingClient) -> None:
    """Note the vector space of a URL, unless one is noted: `embed doctor` reports a change."""
    space, url = client.vector_space, (args.url or "").rstrip("/")
    # Whatever this machine serves changes often, and is at another port.
    if space is None or args.function or urlsplit(url).hostname in LOOPBACK:
        return
    file = spaces_file()
    spaces = read_spaces(file)
    if url not in spaces:
        write_spaces(file, {**spaces, url: space})


def read_spaces(file: Path) -> dict[str, str]:
    """Return the vector spaces by URL; none if the file cannot be read."""
    try:
        spaces = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return {}
    return spaces if isinstance(spaces, dict) else {}


def write_spaces(file: Path, spaces: Mapping[str, str]) -> None:
    """Replace the file, if possible."""
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        written = file.with_suffix(f".{os.getpid()}")
        written.write_text(json.dumps(spaces, indent=2))
        written.replace(file)
