"""Messages of SQS with events of S3, and their way to the index of documents."""

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

import orjson

from embedder.core.chunking import Chunker
from embedder.core.engine import Engine
from embedder.core.errors import EmbedderError
from jobs.errors import BatchError
from jobs.ingest.document_index import Counts, DocumentIndex
from jobs.ingest.run import ReconcileSteps, is_document
from jobs.ingest.tags import TaggedFolder
from jobs.load.index_client import IndexClient
from jobs.steps import Steps, UnexpectedError
from jobs.storage import Folder, open_folder

#: Before Lambda ends the function: the last slice of chunks and its request must fit.
_RESERVE_SECONDS = 420


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestSettings:
    """What the function works on: the variable `EMBEDDING_INGEST`, as JSON."""

    #: The folder of the documents, `s3://bucket/prefix/`.
    source: str
    #: The folder of the lists and of the reconciliations, elsewhere.
    records: str
    #: The ARN of the index.
    index: str
    #: The URL of the queue for documents that cannot be read.
    dead_letters: str
    chunk_tokens: int | None = None
    overlap_tokens: int | None = None
    #: The metadata keys of the index.
    metadata: tuple[str, ...] = ()
    #: Whether documents have the values of their objects' tags too.
    tags: bool = False


class DocumentSteps(Steps):
    """Brings the document of a message up to date; the only step is `document`.

    `prefix` is the folder of the documents in its bucket, with a slash at its end if not empty.
    """

    message = "document"
    item = "document"
    metrics: ClassVar[Mapping[str, tuple[str, str]]] = {
        "ChangedDocuments": ("Count", "changed"),
        "EmbeddedChunks": ("Count", "embedded"),
        "DeletedChunks": ("Count", "deleted"),
        "RefusedDocuments": ("Count", "refused"),
        "SearchableDelay": ("Seconds", "seconds"),
    }

    def __init__(
        self, documents: DocumentIndex, *, prefix: str, now: Callable[[], float] = time.time
    ) -> None:
        self._documents, self._prefix, self._now = documents, prefix, now

    def work(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Bring the object of `event["message"]`, an event of S3 from EventBridge, up to date.

        The `seconds` of the result are those from the event on, which has whole seconds.
        """
        try:
            message = orjson.loads(event["message"])
            key, sent = message["detail"]["object"]["key"], message["time"]
            began = datetime.fromisoformat(sent).timestamp()
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
            raise BatchError("A message must be an event of S3 from EventBridge.") from None
        inner = key.removeprefix(self._prefix)
        counts = Counts()
        if key.startswith(self._prefix) and is_document(inner):
            counts = self._documents.update(inner, deadline=event["deadline"])
        written = bool(counts.changed or counts.refused)
        seconds = round(max(0.0, self._now() - began), 3)
        return {"key": key, **counts._asdict(), "written": written, "seconds": seconds}


def open_documents(
    settings: IngestSettings,
    engine: Engine,
    *,
    send: Callable[[str], object],
    now: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> tuple[DocumentSteps, ReconcileSteps]:
    """Connect to the folders and the index, and return the steps of messages and reconciliations.

    `send` sends the body of a message to the queue for documents that cannot be read.
    """
    records = records_of(settings)
    source, lists = source_of(settings), open_folder(f"{records}/chunks")
    documents = DocumentIndex(
        engine,
        chunker_of(settings, engine),
        source=source,
        lists=lists,
        index=IndexClient(settings.index),
        metadata=settings.metadata,
        refuse=lambda key, reason: send(orjson.dumps({"key": key, "reason": reason}).decode()),
        now=now,
        sleep=sleep,
    )
    prefix = settings.source.removeprefix("s3://").rstrip("/").partition("/")[2]
    return (
        DocumentSteps(documents, prefix=f"{prefix}/" if prefix else "", now=now),
        ReconcileSteps(documents, source=source, lists=lists, records=f"{records}/reconcile"),
    )


def source_of(settings: IngestSettings) -> Folder:
    """Return the folder of the documents, with their tags if these are metadata."""
    if not settings.tags:
        return open_folder(settings.source)
    # The index is in the bucket's region.
    region = settings.index.split(":")[3]
    return TaggedFolder(settings.source, wanted=settings.metadata, region=region)


def records_of(settings: IngestSettings) -> str:
    """Return the folder of an index's lists and reports; another index begins with none."""
    name = hashlib.sha256(settings.index.encode()).hexdigest()[:12]
    return f"{settings.records.rstrip('/')}/{name}"


def chunker_of(settings: IngestSettings, engine: Engine) -> Chunker:
    """Return what divides the documents; `InvalidFieldError` if the model takes no such chunks."""
    return Chunker(
        engine.request_tokenizer, tokens=settings.chunk_tokens, overlap=settings.overlap_tokens
    )


def entry(
    documents: Callable[[Mapping[str, Any], Any], dict[str, Any]],
    reconcile: Callable[[Mapping[str, Any], Any], dict[str, Any]],
) -> Callable[[Mapping[str, Any], Any], dict[str, Any]]:
    """Return Lambda's handler: of messages, and of the steps of a reconciliation.

    A message that fails is reported to Lambda, so that SQS gives it again; the others are done.
    """

    def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
        if "Records" not in event:
            return reconcile(event, context)
        left = context.get_remaining_time_in_millis() / 1000
        deadline = time.time() + left - _RESERVE_SECONDS
        failures = []
        for record in event["Records"]:
            step = {"step": "document", "message": record["body"], "deadline": deadline}
            try:
                documents(step, context)
            except (BatchError, EmbedderError, UnexpectedError):  # the log has it
                failures.append({"itemIdentifier": record["messageId"]})
        return {"batchItemFailures": failures}

    return handler
