"""A daily check of the search, and the thresholds of its alarms."""

import re
from typing import Annotated

from embedding_kit.settings.base import Settings, allowed, optional, rule_error
from embedding_kit.settings.ingest import IngestSettings

#: As the function that indexes documents ignores names.
_NO_DOCUMENT = re.compile(r"(^|/)[._]")
_Questions = Annotated[
    str, allowed("a key such as _watch/questions.jsonl", pattern=r"^[A-Za-z0-9!_.'()/-]+\.jsonl$")
]


class WatchSettings(Settings):
    """A daily comparison of the index with the documents of `[ingest]`; off without this table."""

    questions: _Questions | None = optional(
        "The key of the file with golden questions in the documents' bucket, with `query` and "
        "`document` on each line. No document itself, so outside the folder of `[ingest]`, or with "
        "a name that begins with `_`."
    )


#: Vectors, and documents, that a run compares.
SAMPLE = 1000
#: Of the alarms on the metrics: percent, percent, vectors and seconds.
THRESHOLDS = {"Recall": 90.0, "GoldenFound": 90.0, "WrongVectors": 0.0, "OldestChange": 3600.0}


def check_watch(watch: WatchSettings, ingest: IngestSettings | None) -> None:
    """Refuse a watch without documents, and questions that would be a document."""
    if ingest is None:
        raise rule_error(
            "the index is compared with the documents that it is made of",
            found="[watch] without [ingest]",
            allowed="both tables, or none of them",
        )
    folder = ingest.location.prefix if ingest.location else ""
    key = watch.questions or "_"
    if key.startswith(folder) and not _NO_DOCUMENT.search(key.removeprefix(folder)):
        raise rule_error(
            "golden questions are no document",
            found=f"questions = {key} in the folder of [ingest]",
            allowed="a key such as _watch/questions.jsonl",
        )
