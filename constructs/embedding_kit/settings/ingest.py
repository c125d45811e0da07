"""Documents in S3 that an index is kept equal to."""

import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from embedding_kit.settings.base import Settings, allowed, optional, rule_error
from embedding_kit.settings.index import TEXT_KEY, VectorIndexSettings
from embedding_kit.settings.locations import FolderUrl, Location, location_of
from embedding_kit.settings.model import ModelSettings

#: The folder of the documents' lists, in their bucket.
RECORDS = "_ingest/"
#: Unless the model takes less.
_DEFAULT_TOKENS = 256
#: The metadata keys that each chunk has.
_OWN_KEYS = frozenset({"document", "headings", "tenant", "title"})
#: Names that are no documents, as the function that indexes documents ignores them.
_NO_DOCUMENT = re.compile(r"(^|/)[._]")
_Questions = Annotated[
    str, allowed("a key such as _questions/golden.jsonl", pattern=r"^[A-Za-z0-9!_.'()/-]+\.jsonl$")
]


class IngestSettings(Settings):
    """The documents of an S3 folder in the index of `[index]`; off without this table."""

    source: FolderUrl | None = optional(
        "The folder of the documents, in an existing bucket of the same region that sends its "
        "events to EventBridge. By default the kit makes a bucket. It writes its records to the "
        "folder `_ingest` of the bucket."
    )
    chunk_tokens: Annotated[int, Field(ge=8, le=8192)] | None = optional(
        "The most tokens of a chunk. With special tokens and prompt it must fit the model: synth "
        "knows the limits of the catalog's, less a prompt. By default 256, or what the model "
        "takes. Title and headings are embedded too, and get up to a quarter of what the model "
        "takes; a chunk below them has the tokens that they leave."
    )
    overlap_tokens: Annotated[int, Field(ge=0, le=4096)] | None = optional(
        "The most tokens that a chunk repeats from the end of the one before it; up to half of "
        "`chunk_tokens`. By default 32, or half of `chunk_tokens`."
    )

    tags: bool = Field(
        default=False,
        description="Whether documents have the values of their objects' tags as metadata. It "
        "takes a request to S3 for each document that is compared.",
    )
    questions: _Questions | None = optional(
        "The key of a file with golden questions in the documents' bucket, with `query` and "
        "`document` on each line, which the nightly comparison asks. It is no document itself, so "
        "outside the folder of `source`, or with a name that begins with `_`."
    )

    @property
    def location(self) -> Location | None:
        """The folder of the documents; None for a bucket of the kit's."""
        return location_of(self.source) if self.source else None


def check_prefixes(
    *, ingest: IngestSettings | None, index: VectorIndexSettings | None, ways: Mapping[str, object]
) -> None:
    """Refuse limits of callers that cannot hold.

    `ways` has, by their names, the tables that let callers come without a role, or to a version
    that may have no limits.
    """
    unlimited = [f"[{name}]" for name, table in ways.items() if table]
    filtered = index is not None and "tenant" not in index.non_filterable
    if ingest is None or not filtered or unlimited:
        missing = "no [ingest]" if ingest is None else "tenant in non_filterable of [index]"
        raise rule_error(
            "prefixes of [callers] limit searches of documents by their tenant, for callers of the "
            "Function URL and its newest version",
            found=unlimited[0] if unlimited else missing,
            allowed="[ingest] and [index] with a filterable tenant, without [front], [server] and "
            "[experiment]; or no prefixes",
        )


def check_ingest(ingest: IngestSettings, index: VectorIndexSettings | None) -> None:
    """Refuse documents without an index, with its keys, or among the records or questions."""
    if index is None:
        raise rule_error(
            "documents are searched in an index of S3 Vectors",
            found="[ingest] without [index]",
            allowed="both tables, or none of them",
        )
    if ingest.location and ingest.location.prefix.startswith(RECORDS):
        raise rule_error(
            f"the folder {RECORDS} has the records of documents",
            found=f"source = {ingest.source}",
            allowed="another folder",
        )
    if ingest.tags and not index.metadata:
        raise rule_error(
            "tags are values of the index's metadata keys",
            found="tags = true without such a key",
            allowed="keys in filterable or non_filterable of [index]",
        )
    folder = ingest.location.prefix if ingest.location else ""
    key = ingest.questions or "_"
    if key.startswith(folder) and not _NO_DOCUMENT.search(key.removeprefix(folder)):
        raise rule_error(
            "golden questions are no document",
            found=f"questions = {key} in the folder of the documents",
            allowed="a key such as _questions/golden.jsonl",
        )
    taken = sorted(_OWN_KEYS & set(index.metadata) - set(index.non_filterable))
    if taken:
        raise rule_error(
            f"each chunk has its own {', '.join(sorted(_OWN_KEYS))} and {TEXT_KEY}",
            found=f"index.filterable with {', '.join(taken)}",
            allowed="other keys; in non_filterable, those of the chunks too",
        )


def check_chunks(ingest: IngestSettings, model: ModelSettings) -> None:
    """Refuse chunks that the model does not take, as far as the catalog has its limit.

    With a prompt it takes less, which is known only once it is compiled.
    """
    room = model.catalog.text_tokens if model.catalog else None
    tokens = ingest.chunk_tokens or min(_DEFAULT_TOKENS, room or _DEFAULT_TOKENS)
    if room is not None and tokens > room:
        raise rule_error(
            f"{model.name} takes up to {room} tokens of a text",
            found=f"chunk_tokens = {tokens}",
            allowed=f"8 to {room}",
        )
    if (ingest.overlap_tokens or 0) * 2 > tokens:
        raise rule_error(
            "chunks overlap by half at most",
            found=f"overlap_tokens = {ingest.overlap_tokens} with chunk_tokens = {tokens}",
            allowed=f"0 to {tokens // 2}",
        )
