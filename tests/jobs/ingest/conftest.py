"""A bucket of documents, an index, and the function that keeps the index equal to the bucket."""

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from embedder.core.engine import Engine
from jobs.ingest.document_index import DocumentIndex
from jobs.ingest.run import IngestConfig, entry, open_documents
from jobs.load import index_client
from jobs.steps import Steps
from jobs.storage import is_hidden
from tests.embedder.small_model import HashSession, WordTokenizer, manifest_of
from tests.fixtures.s3_vectors.indexes import Index
from tests.fixtures.s3_vectors.server import local_s3_vectors
from tests.jobs.local_s3 import LocalS3

SOURCE = "documents/docs/"
ARN = "arn:aws:s3vectors:eu-central-1:123456789012:bucket/vectors/index/docs"
#: The clock of the runs starts here.
START = 1_790_000_000.0
SETTINGS = IngestConfig(
    source="s3://documents/docs/",
    records="s3://records/ingest",
    index=ARN,
    dead_letters="https://sqs/letters",
    chunk_tokens=24,
    overlap_tokens=4,
    metadata=("year", "lang", "tags"),
)
TAGGED = replace(SETTINGS, tags=True)


class KilledError(BaseException):
    """The function ends in the middle, as by a crash: no handler of errors runs."""


@dataclass
class World:
    """The bucket, the index, and the events that are under way."""

    s3: LocalS3
    settings: IngestConfig
    index: Index
    engine: Engine
    documents: DocumentIndex
    messages: Steps
    reconciliation: Steps
    #: What the queue for documents that cannot be read has.
    letters: list[dict[str, Any]] = field(default_factory=list)
    clock: list[float] = field(default_factory=lambda: [START])
    #: Requests that write, until one ends the function; None for no end.
    writes_left: int | None = None

    def put(self, key: str, text: str | bytes, **attributes: str) -> None:
        """Write an object."""
        path = SOURCE + key
        self.s3.objects[path] = text.encode() if isinstance(text, str) else text
        self.s3.attributes[path] = {f"x-amz-meta-{name}": v for name, v in attributes.items()}
        self.s3.tags.pop(path, None)

    def add(self, key: str, text: str | bytes, **attributes: str) -> None:
        """Write an object, and handle the event about it."""
        self.put(key, text, **attributes)
        assert self.handle(self.event(key)) == []

    def tag(self, key: str, **tags: str) -> str:
        """Replace the tags of an object; return the message of the event about it."""
        self.s3.tags[SOURCE + key] = tags
        return self.event(key)

    def delete(self, key: str) -> None:
        """Delete an object."""
        self.s3.objects.pop(SOURCE + key, None)

    def documents_there(self) -> list[str]:
        """Return the documents of the bucket."""
        keys = [path.removeprefix(SOURCE) for path in self.s3.objects if path.startswith(SOURCE)]
        return [key for key in keys if not is_hidden(key)]

    def event(self, key: str, *, bucket_key: str | None = None) -> str:
        """Return the message of an event about an object."""
        detail = {"bucket": {"name": "documents"}, "object": {"key": bucket_key or f"docs/{key}"}}
        return json.dumps({"time": "2026-09-21T15:33:20Z", "detail": detail})

    def handle(self, *messages: str, left: float = 900) -> list[str]:
        """Run the function with messages and its time; return the numbers of those that failed."""
        records = [{"messageId": str(n), "body": body} for n, body in enumerate(messages)]
        handler = entry(run_of(self.messages), run_of(self.reconciliation))
        answer = handler({"Records": records}, Context(left))
        return [failure["itemIdentifier"] for failure in answer["batchItemFailures"]]

    def counted(self, real: Callable[..., Any]) -> Callable[..., Any]:
        """Return a write that ends the function before it if its number has come."""

        def write(*args: Any, **kwargs: Any) -> Any:
            if self.writes_left is not None:
                self.writes_left -= 1
                if self.writes_left < 0:
                    raise KilledError
            return real(*args, **kwargs)

        return write

    def reconcile(self) -> dict[str, Any]:
        """Run all steps of a reconciliation."""
        steps = self.reconciliation
        plan = steps.run({"step": "plan", "defaults": {}, "job": {}})
        for line in self.s3.objects[f"{plan['bucket']}/{plan['groups_key']}"].splitlines():
            steps.run({"step": "group", "folder": plan["folder"], "group": json.loads(line)})
        return steps.run({"step": "finish", "folder": plan["folder"]})

    def expected(self) -> dict[str, str]:
        """Return the texts of all chunks of the bucket, by their keys in the index."""
        return {
            name: metadata["text"]
            for key in self.documents_there()
            for name, metadata in chunks_of(self.documents, key).items()
        }

    def found(self) -> dict[str, str]:
        """Return the texts of the index by their keys."""
        return {name: stored.metadata["text"] for name, stored in self.index.vectors.items()}


def run_of(steps: Steps) -> Callable[[Any, Any], dict[str, Any]]:
    """Return a handler of the steps that logs nothing."""
    return lambda event, _context: steps.run(event)


@dataclass
class Context:
    """What Lambda says of an invocation: here the whole time of a function."""

    left: float = 900

    def get_remaining_time_in_millis(self) -> int:
        """Return the time that is left."""
        return round(self.left * 1000)


@pytest.fixture
def engine() -> Engine:
    return Engine(manifest_of(max_tokens=34), WordTokenizer(), HashSession())


@pytest.fixture
def ingest_settings() -> IngestConfig:
    return SETTINGS


@pytest.fixture
def world(s3, engine, ingest_settings, monkeypatch) -> Iterator[World]:
    letters: list[dict[str, Any]] = []
    clock = [START]

    def pass_time(seconds: float) -> None:
        clock[0] += seconds

    with local_s3_vectors() as served:
        served.any_credentials = True
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3VECTORS", served.url)
        monkeypatch.setattr(index_client, "_ATTEMPTS", 1)
        index = served.create("docs", engine.limits.full_dimensions, non_filterable=("text",))
        messages, reconciliation = open_documents(
            ingest_settings,
            engine,
            send=lambda body: letters.append(json.loads(body)),
            now=lambda: clock[0],
            sleep=pass_time,
        )
        documents = messages._documents
        steps = (documents, messages, reconciliation)
        world = World(s3, ingest_settings, index, engine, *steps, letters, clock)
        writes = [(documents.index, "put"), (documents.index, "delete")]
        for place, name in [*writes, (documents._lists, "replace")]:
            monkeypatch.setattr(place, name, world.counted(getattr(place, name)))
        yield world


def paragraphs(rng: random.Random, count: int) -> list[str]:
    """Return paragraphs of 5 to 30 words."""
    return [
        " ".join(f"w{rng.randrange(500)}" for _ in range(rng.randint(5, 30))) + "."
        for _ in range(count)
    ]


def chunks_of(documents: DocumentIndex, key: str) -> dict[str, Any]:
    """Return what the index should have of a document: nothing of one that cannot be read."""
    return documents.chunks_now(key)
