"""`embed search`, and the commands of `embed index` that look into an index."""

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from embedding_client._connect import connect_to
from embedding_client._errors import ConfigurationError
from embedding_client._index import VectorIndex
from embedding_client._job_arguments import INDEX_VARIABLE
from embedding_client._protocol import Match


def index_arn(args: argparse.Namespace) -> str:
    """Return the ARN of the index that the arguments name."""
    if not args.index:
        raise ConfigurationError(
            f"No index: give its ARN, or set {INDEX_VARIABLE} to the ARN that `scripts/deploy` "
            "prints as IndexArn."
        )
    return str(args.index)


def show(args: argparse.Namespace) -> int:
    """Run `embed index show`."""
    print(json.dumps(_index(args).describe(), indent=2))
    return 0


def count(args: argparse.Namespace) -> int:
    """Run `embed index count`."""
    print(_index(args).count())
    return 0


def delete(args: argparse.Namespace) -> int:
    """Run `embed index delete`."""
    ids = args.ids
    if not ids:
        if sys.stdin.isatty():
            raise ConfigurationError("Nothing to delete: give ids, or a pipe with one id a line.")
        ids = (line.rstrip("\n") for line in sys.stdin)
    count = _index(args).delete(each for each in ids if each)
    # S3 Vectors does not say which of them existed.
    print(f"{count} ids are not in the index")
    return 0


def search(args: argparse.Namespace) -> int:
    """Run `embed search`: print the matches, best first."""
    where = _filter(args.filter)
    options = {name: getattr(args, name) for name in ("mode", "candidates", "rerank")}
    if args.index is None:
        with connect_to(args) as client:
            matches = client.search(args.text, top=args.top, filter=where, **options)
    else:
        given = [f"--{name}" for name, value in options.items() if value is not None]
        if given:
            raise ConfigurationError(
                f"An endpoint fuses and reranks; found {', '.join(given)} with INDEX; allowed: "
                "without INDEX."
            )
        index = _index(args)
        with connect_to(args, vector_space=index.vector_space) as client:
            matches = index.search(client, args.text, top=args.top, where=where)
    for match in matches:
        print(_line(match, as_json=args.json))
    return 0


def _index(args: argparse.Namespace) -> VectorIndex:
    return VectorIndex(index_arn(args), profile=args.profile)


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


def _line(match: Match, *, as_json: bool) -> str:
    if as_json:
        return json.dumps(asdict(match), ensure_ascii=False)
    # An index may be loaded without its texts; that of documents names them.
    source = match.metadata.get("document")
    place = f"{source}: " if source else ""
    return f"{match.score:.4f}  {place}{' '.join((match.text or match.id).split())}"
