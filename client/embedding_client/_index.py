"""An index of S3 Vectors, with the caller's own AWS credentials: searches, counts and deletes.

`embed search` asks the endpoint, which may have an index, or such an index directly: the endpoint
then only embeds the text. `embed index` looks into one.
"""

import argparse
import json
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from itertools import islice
from typing import Any

from embedding_client._arguments import IN_QUOTES
from embedding_client._aws import aws_client, aws_errors
from embedding_client._client import EmbeddingClient
from embedding_client._connect import connect_to
from embedding_client._operator_arguments import INDEX_VARIABLE
from embedding_client._protocol import Match
from embedding_client.errors import (
    ConfigurationError,
    RequestError,
    VectorSpaceError,
    counted,
    print_error,
)

#: The tag of the index that names the vector space of its vectors.
SPACE_TAG = "embedding-kit:vector-space"
_ARN = re.compile(
    r"arn:aws[a-z0-9-]*:s3vectors:(?P<region>[a-z0-9-]+):\d{12}:bucket/[a-z0-9.-]+/index/[a-z0-9.-]+"
)
#: What S3 Vectors lists in parallel and in a page, and deletes in a request:
#: https://docs.aws.amazon.com/AmazonS3/latest/userguide/s3-vectors-limitations.html
_SEGMENTS = 16
_PAGE = 1000
_DELETED = 500


_EXAMPLE = """For example: --filter '{"year": {"$gte": 2020}}'"""


class VectorIndex:
    """An index of S3 Vectors. Its methods raise `AwsError` if AWS refuses or does not answer.

    Args:
        arn: The ARN of the index.
        profile: A profile of AWS's configuration.
    """

    def __init__(self, arn: str, *, profile: str | None = None) -> None:
        match = _ARN.fullmatch(arn)
        if match is None:
            raise ConfigurationError(
                "The index must be given by its ARN, such as "
                f"arn:aws:s3vectors:eu-central-1:123456789012:bucket/b/index/i; found {arn!r}."
            )
        self._arn = arn
        self._client = aws_client(
            "s3vectors", match["region"], profile=profile, connections=_SEGMENTS
        )

    @property
    def vector_space(self) -> str:
        """The vector space of the index's vectors."""
        space = self._tagged_space()
        if space is None:
            raise VectorSpaceError(
                f"The index has no tag {SPACE_TAG}, so the vector space of its vectors is unknown. "
                "Load it first; docs/search.md says how."
            )
        return space

    def search(
        self,
        client: EmbeddingClient,
        text: str,
        *,
        top: int,
        where: Mapping[str, Any] | None = None,
        is_hybrid: bool = False,
    ) -> list[Match]:
        """Return the matches, best first. The client must accept only the index's vector space.

        A hybrid search looks for the words too, in an index with full-text search.
        """
        space = client.vector_space or self.vector_space
        dimensions = int(space.rpartition("/")[2])
        try:
            vector = client.embed_one(text, input_type="query", dimensions=dimensions)
        except RequestError as error:
            if error.field != "size":
                raise
            raise VectorSpaceError(
                f"The index is of the vector space {space}, and the endpoint's model has no "
                f"vectors of {dimensions} dimensions."
            ) from error
        items = self._items(
            "query_vectors",
            topK=top,
            queryVector={"float32": vector.tolist()},
            returnMetadata=True,
            **(
                {"queryTexts": [{"metadataKey": "text", "text": text}], "returnScores": True}
                if is_hybrid
                else {"returnDistance": True}
            ),
            **({} if where is None else {"filter": where}),
        )
        return [_match(vector) for vector in islice(items, top)]

    def describe(self) -> dict[str, Any]:
        """Return what the index accepts, and its vector space, which is None until a load."""
        with aws_errors():
            index = self._client.get_index(indexArn=self._arn)["index"]
        keys = index.get("metadataConfiguration", {}).get("nonFilterableMetadataKeys", [])
        return {
            "index_arn": index["indexArn"],
            "vector_space": self._tagged_space(),
            "dimension": index["dimension"],
            "distance_metric": index["distanceMetric"],
            "non_filterable": keys,
        }

    def count(self) -> int:
        """Count the vectors, by listing their keys in 16 segments at a time."""

        def count_segment(segment: int) -> int:
            listed = self._items(
                "list_vectors",
                segmentCount=_SEGMENTS,
                segmentIndex=segment,
                PaginationConfig={"PageSize": _PAGE},
            )
            return sum(1 for _ in listed)

        with ThreadPoolExecutor(_SEGMENTS) as pool:
            return sum(pool.map(count_segment, range(_SEGMENTS)))

    def delete(self, ids: Iterable[str]) -> int:
        """Delete vectors by their ids, 500 in a request; return the number of ids.

        An id that is not in the index is no error. After an error, the earlier ids are deleted.
        """
        count, remaining = 0, iter(ids)
        while keys := list(dict.fromkeys(islice(remaining, _DELETED))):
            with aws_errors():
                self._client.delete_vectors(indexArn=self._arn, keys=keys)
            count += len(keys)
        return count

    def _tagged_space(self) -> str | None:
        with aws_errors():
            tags = self._client.list_tags_for_resource(resourceArn=self._arn)["tags"]
        space: str | None = tags.get(SPACE_TAG)
        return space

    def _items(self, operation: str, **asked: Any) -> Iterator[Mapping[str, Any]]:
        pages = self._client.get_paginator(operation).paginate(indexArn=self._arn, **asked)
        with aws_errors():
            for page in pages:
                yield from page["vectors"]


def _match(vector: Mapping[str, Any]) -> Match:
    metadata = dict(vector.get("metadata") or {})
    text = metadata.pop("text", None)
    return Match(
        text=text if isinstance(text, str) else None,
        index=None,
        score=vector["scores"]["fused"] if "scores" in vector else 1.0 - vector["distance"],
        id=vector["key"],
        metadata=metadata,
    )


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
    count = _index(args).delete(id_ for id_ in ids if id_)
    # S3 Vectors does not say which of them existed.
    print(f"not in the index: {counted(count, 'id')}")
    return 0


def search(args: argparse.Namespace) -> int:
    """Run `embed search`: print the matches, best first."""
    where = _filter(args.filter)
    options = {name: getattr(args, name) for name in ("mode", "candidates", "rerank")}
    if args.index is None:
        with connect_to(args) as client:
            find = partial(client.search, args.text, **options)
            matches = find(top=args.top, filter=where)
            if not matches:
                _explain_nothing(where, lambda condition: find(top=1, filter=condition))
    else:
        if not args.index.startswith("arn:"):
            raise ConfigurationError(
                f"{IN_QUOTES}: embed search {shlex.quote(f'{args.index} {args.text}')}. With an "
                f"index, its ARN comes before the text; found {args.index!r}."
            )
        mode = options.pop("mode")
        refused = [f"--{name}" for name, value in options.items() if value is not None]
        if refused or mode == "sparse":
            raise ConfigurationError(
                "An endpoint reranks and searches sparse vectors; found "
                f"{', '.join(refused) or '--mode sparse'} with INDEX; allowed: without INDEX."
            )
        index = _index(args)
        with connect_to(args, vector_space=index.vector_space) as client:
            find = partial(index.search, client, args.text, is_hybrid=mode == "hybrid")
            matches = find(top=args.top, where=where)
            if not matches:
                _explain_nothing(where, lambda condition: find(top=1, where=condition))
    for match in matches:
        print(_line(match, as_json=args.json))
    return 0


def _explain_nothing(
    where: Mapping[str, Any] | None, find: Callable[[Mapping[str, Any] | None], Sequence[Match]]
) -> None:
    """Say on standard error why a search has no results, by searches for one entry."""
    unfiltered = find(None) if where else []
    if not unfiltered:
        print_error("no results: nothing in the index matches")
        return
    missing = [key for key in _keys(where) if not find({key: {"$exists": True}})]
    if not missing:
        print_error("no results: no entry matches the filter")
        return
    print_error(
        f"no results: no entry has {' or '.join(map(repr, missing))}, which the filter asks for; "
        f"the first entry without it has {', '.join(unfiltered[0].metadata) or 'no metadata'}"
    )


def _keys(where: object) -> list[str]:
    """Return the keys of metadata in a filter, also those in its lists of conditions."""
    if isinstance(where, list):
        return list(dict.fromkeys(key for condition in where for key in _keys(condition)))
    if not isinstance(where, Mapping):
        return []
    inner = [key for name, value in where.items() if name[:1] == "$" for key in _keys(value)]
    return list(dict.fromkeys([*(name for name in where if name[:1] != "$"), *inner]))


def _index(args: argparse.Namespace) -> VectorIndex:
    return VectorIndex(index_arn(args), profile=args.profile)


def _filter(text: str | None) -> Mapping[str, Any] | None:
    if text is None:
        return None
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ConfigurationError(f"--filter must be JSON: {error}. {_EXAMPLE}.") from None
    if not isinstance(value, dict):
        raise ConfigurationError(f"--filter must be a JSON object. {_EXAMPLE}.")
    return value


def _line(match: Match, *, as_json: bool) -> str:
    if as_json:
        return json.dumps(asdict(match), ensure_ascii=False)
    # An index may be loaded without its texts; that of documents names them.
    source = match.metadata.get("document")
    prefix = f"{source}: " if source else ""
    return f"{match.score:.4f}  {prefix}{' '.join((match.text or match.id).split())}"
