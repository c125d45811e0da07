"""Makes the chunks of a document in the index those of the object as it is now.

Each document has a list in S3, named by the hash of its key: which chunks are in the index, and
which may be there. It is written before the index is, and under the condition that no other run has
written it, so that a run that ends anywhere leaves no chunk that the list does not name. While a
run writes to the index, the list says until when; others wait. So messages may arrive twice, late
and in any order: each run takes the object as it is, and the last one sees its last state.
"""

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

from embedder.core.embedding_request import EmbedRequest, Inputs
from embedder.core.engine import Engine
from embedder.core.search import passage
from jobs.documents.chunking import Chunker
from jobs.documents.chunks import FORMAT, DocumentChunks, chunk_key, digest, is_current, read_chunks
from jobs.documents.document import RefusedDocumentError
from jobs.errors import BatchError, UnavailableError
from jobs.load.index_client import IndexClient, encode
from jobs.storage import S3Folder, StoredObject

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
#: Problems of a document that are reported.
_MAX_PROBLEMS = 20

#: Metadata of chunks, with their texts, by the keys of their vectors.
_Chunks = dict[str, dict[str, Any]]
#: Text that changes with each write of an object, and the object's size in bytes.
_ObjectVersion = tuple[str, int]


class BusyDocumentError(UnavailableError):
    """Another run writes the chunks of the document."""


class ConflictError(Exception):
    """The object, or the document's list, changed while a run worked on it."""


class DocumentCounts(NamedTuple):
    """Counts of documents that a run brought up to date."""

    documents: int = 0
    #: Chunks that the index has of them.
    chunks: int = 0
    #: Documents with a chunk that was written or deleted.
    changed: int = 0
    embedded: int = 0
    deleted: int = 0
    refused: int = 0
    #: Documents in the index with problems: rows or pages that were left out, for example.
    incomplete: int = 0
    #: Documents that another run is writing.
    busy: int = 0
    #: Documents whose refusal or problems could not be reported.
    unsent: int = 0

    def plus(self, other: "DocumentCounts") -> "DocumentCounts":
        """Return the sums."""
        return DocumentCounts(*map(sum, zip(self, other, strict=True)))


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentList:
    """Record of a document's chunks in the index."""

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
    #: Whether it has problems.
    incomplete: bool = False


class DocumentWrite:
    """The changes of one run to the chunks of a document, each in its list before in the index.

    `current` is the list, and `etag` that of the object that the run knows: a list that another run
    has written meanwhile is a `ConflictError`.
    """

    def __init__(
        self,
        current: DocumentList,
        etag: str,
        *,
        lists: S3Folder,
        index: IndexClient,
        now: Callable[[], float],
    ) -> None:
        self._current, self._etag = current, etag
        self._lists, self._index, self._now = lists, index, now

    def claim(self) -> None:
        """Let others wait for this run from now on."""
        self._current = replace(self._current, until=self._now() + _LEASE_SECONDS)
        self._write(self._current)

    def release(self) -> None:
        """Let the next run begin at once."""
        with suppress(ConflictError):
            self._write(replace(self._current, until=0.0))

    def put(self, names: Sequence[str], vectors: Sequence[bytes]) -> None:
        """Write chunks with these names to the index."""
        self.claim()
        self._index.put(vectors)
        self._current = replace(self._current, present=[*self._current.present, *names])

    def delete(self, names: Sequence[str]) -> None:
        """Delete chunks from the index."""
        if self._current.until < self._now() + _REQUEST_SECONDS:
            self.claim()
        self._index.delete(names)

    def settle(self, final: DocumentList | None) -> None:
        """Write the list of a document that is up to date, None for one without an object."""
        self._write(final)

    def _write(self, listed: DocumentList | None) -> None:
        # Without a chunk in the index it is empty: S3's conditions protect what exists.
        data = orjson.dumps(asdict(listed)) if listed else b""
        etag = self._lists.replace(list_name(self._current.key), data, self._etag)
        if etag is None:
            raise ConflictError
        self._etag = etag


class DocumentIndex:
    """The documents of the folder `source` in an index, with their lists in the folder `lists`.

    Args:
        metadata: The metadata keys of the index, which documents may have values of.
        report: Reports the key of a document that cannot be read, or not as a whole, and the
            reason, once its list is written; returns whether that was possible.

    Attributes:
        index: The index.
        now: The clock.

    Raises:
        VectorSpaceError: If the index has the vectors of another model.
    """

    def __init__(
        self,
        engine: Engine,
        chunker: Chunker,
        *,
        source: S3Folder,
        lists: S3Folder,
        index: IndexClient,
        metadata: tuple[str, ...],
        report: Callable[[str, str], bool],
        now: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._dimension = index.describe().dimension
        space = engine.vector_space(self._dimension)
        self._non_filterable = index.claim(space).non_filterable
        self._engine, self._chunker = engine, chunker
        self._source, self._lists, self.index = source, lists, index
        self._metadata, self._report = metadata, report
        self.now, self._sleep = now, sleep
        self._settings = digest(FORMAT, space, chunker.settings, sorted(metadata))[:12]

    @property
    def prompt(self) -> str | None:
        """The prompt that chunks are embedded with."""
        return self._chunker.prompt

    def update(self, key: str, *, deadline: float) -> DocumentCounts:
        """Make the index's chunks of a document those of its object; without one, delete them.

        After the `deadline`, in seconds since 1970, no more work begins.

        Raises:
            BusyDocumentError: If another run writes the document.
            UnavailableError: If there is no time left, or S3 Vectors does not answer. The next run
                goes on where this one ended.
        """
        for _ in range(_ATTEMPTS):
            with suppress(ConflictError):
                return self._attempt(key, deadline)
        raise BusyDocumentError("Other runs change the list of this document.")

    def unchanged(self, key: str) -> DocumentCounts | None:
        """Return the counts of a document whose chunks are in the index; None if there is work.

        It only reads, so that it may run for many documents at a time.
        """
        return self._done(self.list_of(key), self._source.version(key))

    def list_of(self, key: str) -> DocumentList:
        """Return the list of a document, an empty one if it has none."""
        return self._listed(key)[0]

    def chunks_now(self, key: str) -> _Chunks:
        """Return the chunks that a document should have in the index: none if it cannot be read."""
        return self._chunks(key, self._source.version(key))[0].metadata

    def key_of(self, name: str) -> str | None:
        """Return the document of a list; None if nothing of it is in the index."""
        listed = read_list(self._lists.read_object(name))
        return listed.key if listed else None

    def embed(self, texts: Sequence[str], prompt: str | None) -> npt.NDArray[np.float32]:
        """Embed texts, cut to what the model takes, with a prompt if the model has it."""
        limits = self._engine.limits
        inputs = Inputs(texts=[text[: limits.max_characters] for text in texts])
        request = EmbedRequest(
            inputs,
            prompt=prompt if prompt in limits.prompts else None,
            dimensions=self._dimension,
            truncate="right",
        )
        return self._engine.embed_request(request).vectors

    def _attempt(self, key: str, deadline: float) -> DocumentCounts:
        listed, etag = self._settled(key)
        version = self._source.version(key)
        counts = self._done(listed, version)
        if counts is not None:
            return counts
        (chunks, problems, _), reason = self._chunks(key, version)
        if self._source.version(key) != version:
            raise ConflictError
        recorded = dict.fromkeys([*listed.present, *listed.possible])
        present = [name for name in listed.present if name in chunks]
        indexed = set(present)
        missing = [name for name in chunks if name not in indexed]
        stale = [name for name in recorded if name not in chunks]
        current = DocumentList(key=key, present=present, possible=[*recorded, *missing])
        write = DocumentWrite(current, etag, lists=self._lists, index=self.index, now=self.now)
        # A chunk with other metadata has another key, and the vector of its passage.
        earlier = self.index.read(list(filter(is_current, stale))) if missing else []
        vectors_by_passage = {passage_of(vector.metadata): vector.numbers for vector in earlier}
        embedded = 0
        for start in range(0, len(missing), _SLICE):
            names = missing[start : start + _SLICE]
            if self.now() > deadline:
                write.release()
                raise UnavailableError("There is no time left; the next run goes on.")
            chunks_of_slice = {name: chunks[name] for name in names}
            vectors, passages = self._vectors(chunks_of_slice, vectors_by_passage)
            embedded += passages
            write.put(names, vectors)
        if stale:
            write.delete(stale)
        final = DocumentList(
            key=key,
            version=self._version(version),
            present=list(chunks),
            refused=reason,
            incomplete=bool(problems),
        )
        write.settle(final if version else None)
        problem = reason or _sentence(problems)
        # Last: what cannot be reported is not compared again each night.
        unsent = int(bool(problem) and not self._report(key, problem))
        counts = _counts_of(final)
        changed = int(bool(missing or stale))
        return counts._replace(
            changed=changed, embedded=embedded, deleted=len(stale), unsent=unsent
        )

    def _chunks(
        self, key: str, version: _ObjectVersion | None
    ) -> tuple[DocumentChunks, str | None]:
        """Return the chunks of an object, and the reason if it cannot be read."""
        if version is None:
            return DocumentChunks({}), None
        keys = {"wanted": self._metadata, "non_filterable": self._non_filterable}
        try:
            return read_chunks(self._source, key, version[1], self._chunker, **keys), None
        except RefusedDocumentError as error:
            return DocumentChunks({}), str(error)

    def _version(self, version: _ObjectVersion | None) -> str:
        return f"{version[0]} {self._settings}" if version else ""

    def _done(self, listed: DocumentList, version: _ObjectVersion | None) -> DocumentCounts | None:
        """Return the counts of a list, if it is of this version of the object; else None."""
        if listed.version != self._version(version) or listed.possible:
            return None
        return _counts_of(listed)

    def _listed(self, key: str) -> tuple[DocumentList, str]:
        stored = self._lists.read_object(list_name(key))
        return read_list(stored) or DocumentList(key=key), stored.etag if stored else ""

    def _settled(self, key: str) -> tuple[DocumentList, str]:
        """Return the list of a document and its ETag, once no other run writes the index."""
        end = self.now() + _PATIENCE_SECONDS
        while True:
            listed, etag = self._listed(key)
            if listed.until <= self.now():
                return listed, etag
            if self.now() >= end:
                raise BusyDocumentError("Another run writes the chunks of this document.")
            self._sleep(0.5)

    def _vectors(
        self, chunks: _Chunks, vectors_by_passage: Mapping[str, npt.NDArray[np.float32]]
    ) -> tuple[list[bytes], int]:
        """Return vectors as S3 Vectors takes them, and how many passages were embedded for them.

        `vectors_by_passage` are in the index.
        """
        all_passages = dict.fromkeys(map(passage_of, chunks.values()))
        passages = [text for text in all_passages if text not in vectors_by_passage]
        request = EmbedRequest(
            Inputs(texts=passages), prompt=self._chunker.prompt, dimensions=self._dimension
        )
        embedded = self._engine.embed_request(request).vectors if passages else ()
        vectors = {**vectors_by_passage, **dict(zip(passages, embedded, strict=True))}
        items = [
            encode(
                name, vectors[passage_of(metadata)], metadata, non_filterable=self._non_filterable
            )
            for name, metadata in chunks.items()
        ]
        for item in items:
            if item.problem:
                raise BatchError(f"A chunk cannot be written: {item.problem}.")
        return [item.json for item in items], len(passages)


def _counts_of(listed: DocumentList) -> DocumentCounts:
    return DocumentCounts(
        documents=1,
        chunks=len(listed.present),
        refused=int(listed.refused is not None),
        incomplete=int(listed.incomplete),
    )


def _sentence(problems: Sequence[str]) -> str:
    """Return problems as one, of the first of many."""
    more = f"; and {len(problems) - _MAX_PROBLEMS:,} more" if len(problems) > _MAX_PROBLEMS else ""
    return (
        f"it is in the index, but {'; '.join(problems[:_MAX_PROBLEMS])}{more}" if problems else ""
    )


def passage_of(metadata: Mapping[str, Any]) -> str:
    """Return what is embedded of a chunk with this metadata, which has its text."""
    return passage(str(metadata.get("text", "")), metadata)


def list_name(key: str) -> str:
    """Return the path of a document's list in the folder of lists."""
    return f"{hashlib.sha256(key.encode()).hexdigest()}.json"


def read_list(stored: StoredObject | None) -> DocumentList | None:
    """Return a list; None without one, and of one of a document that is gone."""
    return DocumentList(**orjson.loads(stored.data)) if stored and stored.data else None


def is_key_of(name: str, metadata: Mapping[str, Any]) -> bool:
    """Return whether a vector has the metadata that its key was made from; see `read_chunks`.

    Of equal chunks of a document, the first 16 are known.
    """
    content = digest(metadata.get("document"), metadata)
    return any(chunk_key(content, number) == name for number in range(1, 17))
