"""A job: which texts to embed, how, and the files of its folder.

part-000000.parquet …   ids, embeddings or scores, and metadata, one file for each shard
_rejected/part-….jsonl  the rows without an embedding, with the reasons
_job/job.json           the settings
_job/shards.jsonl       the plan, one shard a line
_job/progress/…         the runs of shards: empty files with the counts in their names
_job/results/…          what became of each shard, from the state machine
_job/manifest.json      the result, written when the job is complete
"""

import hashlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass

import orjson

from embedder.core.quantization import DTYPES
from jobs.errors import BatchError
from jobs.steps import JobLayout
from jobs.storage import StoredFile

#: Readers of a folder of Parquet files leave out names that begin with `_`.
LAYOUT = JobLayout(
    name="job",
    items="shards",
    settings_file="_job/job.json",
    items_file="_job/shards.jsonl",
    result_file="_job/manifest.json",
    rejected="_rejected",
    results_folder="_job/results",
)
PROGRESS_FOLDER = "_job/progress"
#: The key of a part's footer. It is what `embed` writes too.
VECTOR_SPACE_KEY = "vector_space"
#: The columns of a part besides the metadata; a reranker's has a score and no embedding.
ID_COLUMN = "id"
EMBEDDING_COLUMN = "embedding"
#: Those of a sparse encoder, in the place of the embedding.
SPARSE_COLUMNS = ("indices", "values")
SCORE_COLUMN = "score"
#: Those of a classifier: the label with the highest score, its score, and a field for each label.
LABEL_COLUMNS = ("label", SCORE_COLUMN, "scores")
#: Enough hexadecimal digits that two jobs in one folder never share a name.
_ID_DIGITS = 12
#: Changes when equal inputs would give other output files.
_OUTPUT_FORMAT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The settings of a job; a value that is not allowed is a `BatchError`."""

    #: The folder of the input: a path, or `s3://bucket/prefix/`.
    source: str
    #: The folder of the output. Each job writes to another folder in it.
    destination: str
    #: The field, or column, with the text.
    text: str = "text"
    #: The field with the query: a reranker scores its pair with the text, which is the passage.
    query: str | None = None
    #: The field with the id; None makes an id from the file's name and the row's position.
    id: str | None = None
    #: Fields, or folders as `lang=en/`, that are copied to the output.
    metadata: tuple[str, ...] = ()
    #: The name of one of the model's prompts; None takes the default prompt.
    prompt: str | None = None
    #: None takes all.
    dimensions: int | None = None
    #: The numbers of the vectors: `float` (float32), `int8`, `uint8`, `binary` or `ubinary`.
    dtype: str = "float"
    #: `right` or `left` cuts texts over the model's limit; `refuse` rejects their rows.
    truncate: str = "refuse"
    #: The job fails if more of its rows were rejected. The vectors of the others are kept.
    max_rejected_percent: float = 1.0
    #: The size of a shard in bytes of input; None chooses it by the size of the model.
    shard_bytes: int | None = None

    def __post_init__(self) -> None:
        for name, values in {"dtype": DTYPES, "truncate": ("refuse", "right", "left")}.items():
            if getattr(self, name) not in values:
                raise BatchError(
                    f"{name} must be one of {', '.join(values)}; found {getattr(self, name)!r}."
                )
        if not 0 <= self.max_rejected_percent <= 100:
            raise BatchError(
                f"max_rejected_percent must be from 0 to 100; found {self.max_rejected_percent}."
            )
        if self.shard_bytes is not None and self.shard_bytes < 1:
            raise BatchError(f"shard_bytes must be at least 1; found {self.shard_bytes}.")
        if not self.text or self.query == "":
            raise BatchError("text and query must name a field; found an empty name.")
        if self.query is not None:
            self._check_pairs()
        names = [*([self.id] if self.id else []), *self.metadata]
        reserved = {ID_COLUMN, self.column} & set(self.metadata)
        twice = {name for name in names if names.count(name) > 1} - {self.text, self.query}
        if reserved or twice:
            raise BatchError(
                f"metadata must name each field once, and none named id or {self.column}, which "
                f"the output has already; found {', '.join(sorted(reserved | twice))}."
            )

    def _check_pairs(self) -> None:
        chosen = {"prompt": self.prompt, "dimensions": self.dimensions}
        vectors = [name for name, value in chosen.items() if value is not None]
        vectors += ["dtype"] if self.dtype != "float" else []
        if vectors or self.truncate == "left" or self.query == self.text:
            raise BatchError(
                "a job with query scores pairs of two fields and has no vectors; found "
                f"{', '.join(vectors) or f'truncate = {self.truncate}, text = {self.text}'}; "
                "allowed: another field as text, truncate refuse or right, and no prompt, "
                "dimensions or dtype."
            )

    @property
    def column(self) -> str:
        """The name of the column with what the model gives."""
        return EMBEDDING_COLUMN if self.query is None else SCORE_COLUMN

    @property
    def columns(self) -> list[str]:
        """The names of the fields that are read, each once."""
        texts = [self.text] if self.query is None else [self.query, self.text]
        return list(dict.fromkeys([*texts, *([self.id] if self.id else []), *self.metadata]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """A part of one input file, small enough for one run of the worker.

    `start` and `stop` are offsets in bytes for lines (in the uncompressed file), and numbers of
    rows for Parquet. A line or a row belongs to the shard in which it begins.
    """

    number: int
    key: str
    #: Size of the whole file as it is stored, in bytes.
    size: int
    etag: str
    format: str
    start: int
    stop: int
    #: The row group that has the rows; None for other formats than Parquet.
    row_group: int | None = None

    @property
    def file(self) -> StoredFile:
        """The input file."""
        return StoredFile(self.key, self.size, self.etag)

    @property
    def part(self) -> str:
        """The name of the shard's output file."""
        return f"part-{self.number:06d}"

    @property
    def done_key(self) -> str:
        """The path of the output file in the job's folder."""
        return f"{self.part}.parquet"


def job_id(job: Job, shards: Iterable[Shard], *, vector_space: str) -> str:
    """Return the name of a job, which depends on everything that its output depends on.

    Inputs that changed, another model or other options are another job with another folder, so
    that no folder has vectors of two.
    """
    # These do not change the vectors: a job may be moved, or run again with another tolerance.
    settings = asdict(job)
    for name in ("destination", "max_rejected_percent", "shard_bytes"):
        del settings[name]
    digest = hashlib.blake2b()
    for value in (_OUTPUT_FORMAT, settings, vector_space):
        digest.update(orjson.dumps(value, option=orjson.OPT_SORT_KEYS) + b"\n")
    for shard in shards:
        digest.update(orjson.dumps(asdict(shard), option=orjson.OPT_SORT_KEYS) + b"\n")
    return digest.hexdigest()[:_ID_DIGITS]
