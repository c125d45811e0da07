"""Messages with events of S3, and the steps of a reconciliation, which repairs what they missed.

A message of SQS brings one document up to date. A reconciliation compares all documents with their
lists; the first one over an index is the first load. Its records are in a folder of their own:

    RECORDS/reconcile/ID/groups.jsonl     the plan, a group of documents a line
    RECORDS/reconcile/ID/done/….json      the counts of a group
    RECORDS/reconcile/ID/manifest.json    the result
"""

import hashlib
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar, NamedTuple

import orjson
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from embedder.core.artifact import load_artifact
from embedder.core.engine import Engine
from embedder.core.errors import EmbedderError
from embedder.core.settings import EmbedderSettings
from jobs.documents.chunking import Chunker
from jobs.documents.chunks import digest
from jobs.documents.document import RefusedDocumentError
from jobs.errors import BatchError
from jobs.ingest.document_index import BusyDocumentError, DocumentCounts, DocumentIndex, list_name
from jobs.ingest.index_check import IndexCheck
from jobs.load.index_client import IndexClient
from jobs.steps import JobLayout, Steps, UnexpectedError, given_settings, read_variable, write_line
from jobs.storage import S3Folder, StoredObject, is_hidden, open_folder

LAYOUT = JobLayout(
    name="reconciliation",
    items="groups",
    settings_file="reconcile.json",
    items_file="groups.jsonl",
    rejected="refused",
)
#: Documents of a group, and the bytes from which on a group gets no more.
_GROUP = 50
_GROUP_BYTES = 256 * 1024
#: Documents that a step compares at a time: it mostly waits for S3.
_READERS = 32
#: How long a child of the map begins new work; it has 280 seconds.
_SECONDS = 220
#: How long the last step embeds a sample; it has 900 seconds.
_CHECK_SECONDS = 780
#: Before Lambda ends the function: the last slice of chunks and its request must fit.
_RESERVE_SECONDS = 420
#: Without a way to the queue, a letter takes up to 7 seconds.
LETTER_CONFIG = Config(
    connect_timeout=3, read_timeout=3, retries={"mode": "standard", "total_max_attempts": 2}
)
_LETTER_PAUSE_SECONDS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestConfig:
    """Documents and index of the function: the variable `EMBEDDING_INGEST`, as JSON."""

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
    #: The file with golden questions, `s3://bucket/key`.
    questions: str | None = None


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
        "UnsentLetters": ("Count", "unsent"),
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
        counts = DocumentCounts()
        if inner and key.startswith(self._prefix) and not is_hidden(inner):
            counts = self._documents.update(inner, deadline=event["deadline"])
        written = bool(counts.changed or counts.refused)
        seconds = round(max(0.0, self._now() - began), 3)
        return {"key": key, **_result(counts), "written": written, "seconds": seconds}


def _result(counts: DocumentCounts) -> dict[str, Any]:
    """Return counts as a step's result; CloudWatch bills a metric only where it has values."""
    return counts._asdict() | {"unsent": counts.unsent or None}


class Letters:
    """The queue for documents that cannot be read. In a VPC, it may be out of reach.

    A letter that cannot be sent is a line of the log, and the next ones of that minute are not
    tried: a group has many documents and little time.
    """

    def __init__(self, send: Callable[[str], object], *, now: Callable[[], float]) -> None:
        self._send, self._now = send, now
        self._next_try = 0.0
        self._error = ""

    def send(self, key: str, reason: str) -> bool:
        """Send the key of a document and the reason; return whether that was possible."""
        if self._now() >= self._next_try:
            try:
                self._send(orjson.dumps({"key": key, "reason": reason}).decode())
            except (BotoCoreError, ClientError) as error:
                self._next_try = self._now() + _LETTER_PAUSE_SECONDS
                is_answer = isinstance(error, ClientError)
                self._error = error.response["Error"]["Code"] if is_answer else type(error).__name__
            else:
                return True
        # The reason may have words of the document.
        write_line({"level": "ERROR", "message": "letter", "key": key, "error": self._error})
        return False


class Group(NamedTuple):
    """Documents that one run brings up to date."""

    number: int
    keys: list[str]
    #: The names of lists without a document.
    lists: list[str]

    @property
    def done_key(self) -> str:
        """The path of the group's counts."""
        return f"done/{self.number:06d}.json"


class ReconcileSteps(Steps):
    """Runs the steps; `records` is the URL of the folder with all reconciliations."""

    message = "reconcile"
    item = "group"
    metrics: ClassVar[Mapping[str, tuple[str, str]]] = {
        "RepairedDocuments": ("Count", "changed"),
        "EmbeddedChunks": ("Count", "embedded"),
        "DeletedChunks": ("Count", "deleted"),
        "UnsentLetters": ("Count", "unsent"),
    }
    final_metrics: ClassVar[Mapping[str, tuple[str, str]]] = {
        "MissingVectors": ("Count", "missing"),
        "ForeignVectors": ("Count", "foreign"),
        "WrongMetadata": ("Count", "wrong_metadata"),
        "GoldenFound": ("Percent", "golden_found"),
    }

    def __init__(
        self,
        documents: DocumentIndex,
        check: IndexCheck,
        *,
        source: S3Folder,
        lists: S3Folder,
        records: str,
    ) -> None:
        self._documents, self._check = documents, check
        self._source, self._lists, self._records = source, lists, records

    def plan(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Plan a reconciliation of everything; it has no settings."""
        if settings := given_settings(event):
            raise BatchError(f"A reconciliation has no settings; found {', '.join(settings)}.")
        groups = list(self._groups())
        folder = f"{self._records}/{datetime.now(UTC):%Y%m%d-%H%M%S-%f}"
        LAYOUT.write_plan(folder, {}, [group._asdict() for group in groups])
        return {**LAYOUT.place(folder), "groups": len(groups)}

    def work(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Bring the documents of `event["group"]` up to date."""
        group = Group(**event["group"])
        output = open_folder(event["folder"])
        deadline = self._documents.now() + _SECONDS
        counts = DocumentCounts()
        with ThreadPoolExecutor(_READERS) as pool:
            keys = [*group.keys, *filter(None, pool.map(self._documents.key_of, group.lists))]
            compared = list(pool.map(self._documents.unchanged, keys))
        for key, done in zip(keys, compared, strict=True):
            if done is not None:
                counts = counts.plus(done)
                continue
            try:
                counts = counts.plus(self._documents.update(key, deadline=deadline))
            except BusyDocumentError:
                counts = counts.plus(DocumentCounts(documents=1, busy=1))
        written = output.create(group.done_key, orjson.dumps(counts._asdict()))
        return {"group": group.number, **_result(counts), "written": written}

    def finish(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Check that no group of `event["folder"]` is missing, and the index; write the results."""
        folder, deadline = event["folder"], self._documents.now() + _CHECK_SECONDS
        _, items = LAYOUT.read_plan(folder, items=True)
        groups, total = [Group(**item) for item in items], DocumentCounts()
        for counts in LAYOUT.counts(folder, groups, lambda read, key: orjson.loads(read.read(key))):
            total = total.plus(DocumentCounts(**counts))
        keys = [key for group in groups for key in group.keys]
        result = {**total._asdict(), **self._check.run(keys, deadline=deadline)}
        LAYOUT.finish(folder, result, rejected=0, rows=0, allowed=100)
        return {"folder": folder, **result}

    def _groups(self) -> Iterator[Group]:
        """Yield all documents in groups, then the lists of documents that are gone."""
        # An empty list has nothing in the index.
        lists = {file.key for file in self._lists.files() if file.size}
        keys: list[str] = []
        number = size = 0
        for file in self._source.files():
            if is_hidden(file.key):
                continue
            lists.discard(list_name(file.key))
            keys.append(file.key)
            size += file.size
            if len(keys) == _GROUP or size >= _GROUP_BYTES:
                yield Group(number, keys, [])
                keys, number, size = [], number + 1, 0
        abandoned = sorted(lists)
        for start in range(0, max(len(abandoned), bool(keys)), _GROUP):
            yield Group(number, keys, abandoned[start : start + _GROUP])
            keys, number = [], number + 1


class TaggedFolder(S3Folder):
    """A folder of S3 in which the wanted tags of an object are user metadata, after its own.

    So their names are in lower case. A change of a wanted tag changes the object's version.
    """

    def __init__(self, url: str, *, wanted: Collection[str]) -> None:
        super().__init__(url)
        self._wanted = {name.lower() for name in wanted}

    def version(self, key: str) -> tuple[str, int] | None:
        """Return what changes with each write of an object or of a wanted tag, and its size."""
        version = super().version(key)
        tags = self._wanted_tags(key) if version else []
        return (f"{version[0]} {digest(tags)}", version[1]) if version and tags else version

    def read_object(self, key: str) -> StoredObject | None:
        """Read an object with its attributes and its wanted tags; None if it does not exist."""
        stored = super().read_object(key)
        if stored is None:
            return None
        tags = self._wanted_tags(key)
        named = {name.lower(): value for name, value in tags}
        if len(named) < len(tags):
            names = ", ".join(name for name, _ in tags)
            raise RefusedDocumentError(
                f"names of tags differ by more than their case; found {names}"
            )
        return stored._replace(attributes={**named, **stored.attributes})

    def _wanted_tags(self, key: str) -> list[tuple[str, str]]:
        """Return the wanted tags of an object in the order of their names."""
        return sorted(tag for tag in self.tags(key) if tag[0].lower() in self._wanted)


def start() -> tuple[EmbedderSettings, IngestConfig, Engine]:
    """Return the settings of the process's environment, and the model, which takes its time.

    A handler calls it when it is imported, once for each execution environment.
    """
    settings = EmbedderSettings.from_env(os.environ)
    ingest = read_variable(IngestConfig, "EMBEDDING_INGEST")
    engine = Engine.load(
        load_artifact(settings.artifact),
        threads=settings.threads,
        max_characters=settings.max_characters,
    )
    return settings, ingest, engine


def open_documents(
    settings: IngestConfig,
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
    source, lists = source_of(settings), S3Folder(f"{records}/chunks")
    documents = DocumentIndex(
        engine,
        chunker_of(settings, engine),
        source=source,
        lists=lists,
        index=IndexClient(settings.index),
        metadata=settings.metadata,
        report=Letters(send, now=now).send,
        now=now,
        sleep=sleep,
    )
    prefix = settings.source.removeprefix("s3://").rstrip("/").partition("/")[2]
    return (
        DocumentSteps(documents, prefix=f"{prefix}/" if prefix else "", now=now),
        ReconcileSteps(
            documents,
            IndexCheck(documents, questions=settings.questions),
            source=source,
            lists=lists,
            records=f"{records}/reconcile",
        ),
    )


def source_of(settings: IngestConfig) -> S3Folder:
    """Return the folder of the documents, with their tags if these are metadata."""
    if settings.tags:
        return TaggedFolder(settings.source, wanted=settings.metadata)
    return S3Folder(settings.source)


def records_of(settings: IngestConfig) -> str:
    """Return the folder of an index's lists and reports; another index begins with none."""
    name = hashlib.sha256(settings.index.encode()).hexdigest()[:12]
    return f"{settings.records.rstrip('/')}/{name}"


def chunker_of(settings: IngestConfig, engine: Engine) -> Chunker:
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
        seconds = context.get_remaining_time_in_millis() / 1000
        deadline = time.time() + seconds - _RESERVE_SECONDS
        failures = []
        for record in event["Records"]:
            step = {"step": "document", "message": record["body"], "deadline": deadline}
            try:
                documents(step, context)
            except (BatchError, EmbedderError, UnexpectedError):  # the log has it
                failures.append({"itemIdentifier": record["messageId"]})
        return {"batchItemFailures": failures}

    return handler
