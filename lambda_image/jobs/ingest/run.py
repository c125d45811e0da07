"""The steps of a reconciliation: compare all documents with their lists, and repair what differs.

The first one over an index is the first load. Its records are in a folder of their own:

    RECORDS/reconcile/ID/groups.jsonl     the plan, a group of documents a line
    RECORDS/reconcile/ID/done/….json      the counts of a group
    RECORDS/reconcile/ID/manifest.json    the result
"""

import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any, ClassVar, NamedTuple

import orjson

from jobs.errors import BatchError
from jobs.ingest.document_index import BusyDocumentError, Counts, DocumentIndex, list_name
from jobs.steps import Frame, Steps
from jobs.storage import Folder, open_folder

FRAME = Frame(
    name="reconciliation",
    items="groups",
    settings_file="reconcile.json",
    items_file="groups.jsonl",
    result_file="manifest.json",
    rejected="refused",
    results_folder="results",
)
#: Documents of a group, and the bytes from which on a group gets no more.
_GROUP = 50
_GROUP_BYTES = 256 * 1024
#: Documents that a step compares at a time: it mostly waits for S3.
_READERS = 32
#: How long a child of the map begins new work; it has 280 seconds.
_SECONDS = 220
#: As in batch jobs: the names that are no documents.
_IGNORED = re.compile(r"(^|/)[._]|/$")


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


def is_document(key: str) -> bool:
    """Return whether a key, below the folder of documents, is one of a document."""
    return bool(key) and not _IGNORED.search(key)


class ReconcileSteps(Steps):
    """Runs the steps; `records` is the URL of the folder with all reconciliations."""

    message = "reconcile"
    item = "group"
    metrics: ClassVar[Mapping[str, tuple[str, str]]] = {
        "RepairedDocuments": ("Count", "changed"),
        "EmbeddedChunks": ("Count", "embedded"),
        "DeletedChunks": ("Count", "deleted"),
    }

    def __init__(
        self, documents: DocumentIndex, *, source: Folder, lists: Folder, records: str
    ) -> None:
        self._documents = documents
        self._source, self._lists, self._records = source, lists, records

    def plan(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Plan a reconciliation of everything; it has no settings."""
        given = {**event.get("defaults", {}), **event.get("job", {})}
        if given:
            raise BatchError(f"A reconciliation has no settings; found {', '.join(given)}.")
        groups = list(self._groups())
        folder = f"{self._records}/{datetime.now(UTC):%Y%m%d-%H%M%S-%f}"
        FRAME.write_plan(folder, {}, [group._asdict() for group in groups])
        return {**FRAME.place(folder), "groups": len(groups)}

    def work(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Bring the documents of `event["group"]` up to date."""
        group = Group(**event["group"])
        output = open_folder(event["folder"])
        deadline = self._documents.now() + _SECONDS
        counts = Counts()
        with ThreadPoolExecutor(_READERS) as pool:
            gone = filter(None, pool.map(self._documents.key_of, group.lists))
            keys = [*group.keys, *gone]
            compared = list(pool.map(self._documents.unchanged, keys))
        for key, done in zip(keys, compared, strict=True):
            if done is not None:
                counts = counts.plus(done)
                continue
            try:
                counts = counts.plus(self._documents.update(key, deadline=deadline))
            except BusyDocumentError:
                counts = counts.plus(Counts(documents=1, busy=1))
        written = output.create(group.done_key, orjson.dumps(counts._asdict()))
        return {"group": group.number, **counts._asdict(), "written": written}

    def finish(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Check that no group of `event["folder"]` is missing, and write the sums."""
        folder = event["folder"]
        _, items = FRAME.read_plan(folder, items=True)
        groups, total = [Group(**item) for item in items], Counts()
        for counts in FRAME.counts(folder, groups, lambda read, key: orjson.loads(read.read(key))):
            total = total.plus(Counts(**counts))
        FRAME.finish(folder, total._asdict(), rejected=0, rows=0, allowed=100)
        return {"folder": folder, **total._asdict()}

    def _groups(self) -> Iterator[Group]:
        """Yield all documents in groups, then the lists of documents that are gone."""
        # An empty list has nothing in the index.
        lists = {file.key for file in self._lists.files() if file.size}
        keys: list[str] = []
        number = size = 0
        for file in self._source.files():
            if not is_document(file.key):
                continue
            lists.discard(list_name(file.key))
            keys.append(file.key)
            size += file.size
            if len(keys) == _GROUP or size >= _GROUP_BYTES:
                yield Group(number, keys, [])
                keys, number, size = [], number + 1, 0
        left = sorted(lists)
        for start in range(0, max(len(left), bool(keys)), _GROUP):
            yield Group(number, keys, left[start : start + _GROUP])
            keys, number = [], number + 1
