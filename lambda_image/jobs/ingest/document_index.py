"""Makes the chunks of a document in the index those of the object as it is now.

Each document has a list in S3, named by the hash of its key: which chunks are in the index, and
which may be there. It is written before the index is, and under the condition that no other run has
written it, so that a run that ends anywhere leaves no chunk that the list does not name. While a
run writes to the index, the list says until when; others wait. So messages may arrive twice, late
and in any order: each run takes the object as it is, and the last one sees its last state.
"""

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

from embedder.core.chunking import Chunker
from embedder.core.embedding_request import EmbedRequest, Inputs
from embedder.core.engine import Engine
from jobs.errors import BatchError, UnavailableError
from jobs.ingest.documents import RefusedDocumentError, digest, read_chunks
from jobs.load.index_client import IndexClient, encode
from jobs.storage import Folder, StoredObject

#: Changes when an equal object would give other chunks.
_FORMAT = 1
#: Chunks that are embedded and written together; what an interrupted run has written, the next one
#: does not embed again.
_SLICE = 32
#: How long others wait for a run that writes to the index. A request to S3 Vectors with all its
#: attempts takes up to 380 seconds.
_LEASE_SECONDS = 600
_REQUEST_SECONDS = 400
#: How long a run waits for another one, before its message is tried again later.
_PATIENCE_SECONDS = 20
_ATTEMPTS = 5


class BusyDocumentError(UnavailableError):
    """Another run writes the chunks of the document."""


class Counts(NamedTuple):
    """What became of documents."""

    documents: int = 0
    #: Chunks that the index has of them.
    chunks: int = 0
    #: Documents with a chunk that was written or deleted.
    changed: int = 0
    embedded: int = 0
    deleted: int = 0
    refused: int = 0
    #: Documents that another run is writing.
    busy: int = 0
    #: Refused documents that could not be reported.
    unsent: int = 0

    def plus(self, other: "Counts") -> "Counts":
        """Return the sums."""
        return Counts(*map(sum, zip(self, other, strict=True)))


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentList:
    """What is known of a document's chunks in the index."""

    key: str
    #: The object that the chunks are of, with the settings; empty while they may be of several.
    version: str = ""
    #: Keys of vectors that are in the index.
    present: list[str] = field(default_factory=list)
    #: Keys that may be in the index too, if a run ended before it was done.
    possible: list[str] = field(default_factory=list)
    #: Until when a run may write to the index, in seconds since 1970.
    until: float = 0.0
    #: Why the document cannot be read.
    refused: str | None = None


class DocumentIndex:
    """The documents of the folder `source` in an index, with their lists in the folder `lists`.

    Args:
        metadata: The metadata keys of the index, which documents may have values of.
        refuse: Reports the key of a document that cannot be read, and the reason, once its list is
            written; returns whether that was possible.

    Raises:
        VectorSpaceError: If the index has the vectors of another model.
    """

    def __init__(
        self,
        engine: Engine,
        chunker: Chunker,
        *,
        source: Folder,
        lists: Folder,
        index: IndexClient,
        metadata: tuple[str, ...],
        refuse: Callable[[str, str], bool],
        now: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._dimension = index.describe().dimension
        space = engine.vector_space(self._dimension)
        self._non_filterable = index.claim(space).non_filterable
        self._engine, self._chunker = engine, chunker
        self._source, self._lists, self._index = source, lists, index
        self._metadata, self._refuse = metadata, refuse
        self.now, self._sleep = now, sleep
        self._settings = digest(_FORMAT, space, chunker.settings, sorted(metadata))[:12]

    def update(self, key: str, *, deadline: float) -> Counts:
        """Make the index's chunks of a document those of its object; without one, delete them.

        After the `deadline`, in seconds since 1970, no more work begins.

        Raises:
            BusyDocumentError: If another run writes the document.
            UnavailableError: If there is no time left, or S3 Vectors does not answer. The next run
                goes on where this one ended.
        """
        for _ in range(_ATTEMPTS):
            done = self._attempt(key, deadline)
            if done is not None:
                return done
        raise BusyDocumentError("Other runs change the list of this document.")

    def unchanged(self, key: str) -> Counts | None:
        """Return the counts of a document whose chunks are in the index; None if there is work.

        It only reads, so that it may run for many documents at a time.
        """
        listed, _ = self._listed(key, list_name(key))
        return self._done(listed, self._source.version(key))

    def chunks(self, key: str, size: int) -> dict[str, dict[str, Any]]:
        """Return the chunks of an object of a size in bytes; see `read_chunks`."""
        return read_chunks(
            self._source,
            key,
            size,
            self._chunker,
            wanted=self._metadata,
            non_filterable=self._non_filterable,
        )

    def key_of(self, name: str) -> str | None:
        """Return the document of a list; None if nothing of it is in the index."""
        listed = read_list(self._lists.read_object(name))
        return listed.key if listed else None

    def _attempt(self, key: str, deadline: float) -> Counts | None:
        """Run once; None if another run has written the list meanwhile."""
        list_key = list_name(key)
        listed, etag = self._settled(key, list_key)
        found = self._source.version(key)
        done = self._done(listed, found)
        if done is not None:
            return done
        chunks: dict[str, dict[str, Any]] = {}
        reason = None
        try:
            if found is not None:
                chunks = self.chunks(key, found[1])
        except RefusedDocumentError as error:
            reason = str(error)
        if self._source.version(key) != found:
            return None

        def write(listed: DocumentList | None) -> bool:
            """Replace the list that this run knows; False if another run has written it.

            Without a chunk in the index it is empty: S3's conditions protect what exists.
            """
            nonlocal etag
            data = orjson.dumps(asdict(listed)) if listed else b""
            written = self._lists.replace(list_key, data, etag)
            etag = written or ""
            return written is not None

        known = dict.fromkeys([*listed.present, *listed.possible])
        present = [name for name in listed.present if name in chunks]
        there = set(present)
        missing = [name for name in chunks if name not in there]
        stale = [name for name in known if name not in chunks]
        current = DocumentList(key=key, present=present, possible=[*known, *missing])
        # A chunk with other metadata has another key, and the vector of its text.
        old = self._index.read(stale) if missing else []
        known_texts = {vector.metadata.get("text"): vector.numbers for vector in old}
        embedded = 0
        for start in range(0, len(missing), _SLICE):
            names = missing[start : start + _SLICE]
            if self.now() > deadline:
                write(replace(current, until=0.0))
                raise UnavailableError("There is no time left; the next run goes on.")
            vectors, new = self._vectors({name: chunks[name] for name in names}, known_texts)
            embedded += new
            current = replace(current, until=self.now() + _LEASE_SECONDS)
            if not write(current):
                return None
            self._index.put(vectors)
            current = replace(current, present=[*current.present, *names])
        if stale:
            if current.until < self.now() + _REQUEST_SECONDS:
                current = replace(current, until=self.now() + _LEASE_SECONDS)
                if not write(current):
                    return None
            self._index.delete(stale)
        version = self._version(found)
        final = DocumentList(key=key, version=version, present=list(chunks), refused=reason)
        if not write(final if found else None):
            return None
        changed = int(bool(missing or stale))
        refused = int(reason is not None)
        # Last: what cannot be reported is not compared again each night.
        unsent = int(reason is not None and not self._refuse(key, reason))
        return Counts(1, len(chunks), changed, embedded, len(stale), refused, unsent=unsent)

    def _version(self, found: tuple[str, int] | None) -> str:
        return f"{found[0]} {self._settings}" if found else ""

    def _done(self, listed: DocumentList, found: tuple[str, int] | None) -> Counts | None:
        """Return the counts of a list, if it is of the object that was found; else None."""
        if listed.version != self._version(found) or listed.possible:
            return None
        return Counts(1, len(listed.present), refused=int(listed.refused is not None))

    def _listed(self, key: str, list_key: str) -> tuple[DocumentList, str]:
        found = self._lists.read_object(list_key)
        return read_list(found) or DocumentList(key=key), found.etag if found else ""

    def _settled(self, key: str, list_key: str) -> tuple[DocumentList, str]:
        """Return the list of a document and its ETag, once no other run writes the index."""
        end = self.now() + _PATIENCE_SECONDS
        while True:
            listed, etag = self._listed(key, list_key)
            if listed.until <= self.now():
                return listed, etag
            if self.now() >= end:
                raise BusyDocumentError("Another run writes the chunks of this document.")
            self._sleep(0.5)

    def _vectors(
        self, chunks: Mapping[str, Mapping[str, Any]], there: Mapping[Any, npt.NDArray[np.float32]]
    ) -> tuple[list[bytes], int]:
        """Return vectors as S3 Vectors takes them, and how many texts were embedded for them.

        `there` has vectors of the index by their texts.
        """
        every = dict.fromkeys(metadata["text"] for metadata in chunks.values())
        texts = [text for text in every if text not in there]
        request = EmbedRequest(
            Inputs(texts=texts), prompt=self._chunker.prompt, dimensions=self._dimension
        )
        embedded = self._engine.embed_request(request).vectors if texts else ()
        vectors = {**there, **dict(zip(texts, embedded, strict=True))}
        items = [
            encode(name, vectors[metadata["text"]], metadata, non_filterable=self._non_filterable)
            for name, metadata in chunks.items()
        ]
        for item in items:
            if item.problem:
                raise BatchError(f"A chunk cannot be written: {item.problem}.")
        return [item.json for item in items], len(texts)


def list_name(key: str) -> str:
    """Return the path of a document's list in the folder of lists."""
    return f"{hashlib.sha256(key.encode()).hexdigest()}.json"


def read_list(found: StoredObject | None) -> DocumentList | None:
    """Return a list; None without one, and of one of a document that is gone."""
    return DocumentList(**orjson.loads(found.data)) if found and found.data else None


def is_key_of(name: str, metadata: Mapping[str, Any]) -> bool:
    """Return whether a vector has the metadata that its key was made from; see `read_chunks`.

    Of equal chunks of a document, the first 16 are known.
    """
    content = digest(metadata.get("document"), metadata)
    return any(digest(content, number) == name for number in range(1, 17))
