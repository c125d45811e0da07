"""The command `embed search`."""

import argparse
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from embedding_client.errors import ConfigurationError

if TYPE_CHECKING:
    from embedding_client.client import EmbeddingClient
    from embedding_client.protocol import Match

__all__ = ["run_search"]


def run_search(args: argparse.Namespace, connect: Callable[[str | None], "EmbeddingClient"]) -> int:
    """Search, and print the matches, best first.

    Args:
        args: The arguments of `embed search`.
        connect: Makes a client that accepts this vector space, or any if it is None.

    Raises:
        EmbeddingClientError: If there is no result.
    """
    where = _filter(args.filter)
    if args.index is None:
        with connect(None) as client:
            matches = client.search(args.text, top=args.top, filter=where)
    else:
        from embedding_client.index.search import IndexSearch  # noqa: PLC0415  (slow)

        index = IndexSearch(args.index, profile=args.profile)
        with connect(index.vector_space) as client:
            matches = index.search(client, args.text, top=args.top, where=where)
    for match in matches:
        print(_line(match, as_json=args.json))
    return 0


def _filter(text: str | None) -> Mapping[str, Any] | None:
    if text is None:
        return None
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ConfigurationError(f"--filter must be JSON: {error}.") from None
    if not isinstance(value, dict):
        raise ConfigurationError(
            """--filter must be a JSON object, such as '{"year": {"$gte": 2020}}'."""
        )
    return value


def _line(match: "Match", *, as_json: bool) -> str:
    if as_json:
        return json.dumps(asdict(match), ensure_ascii=False)
    # An index may be loaded without its texts.
    return f"{match.score:.4f}  {' '.join((match.text or match.id).split())}"
