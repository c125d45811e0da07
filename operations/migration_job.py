"""The texts of a finished batch job in another index: `scripts/migrate NAME copy --job FOLDER`.

The standby's function embeds them as `embed --file` does, into files that look like another job's,
which `embed index load --local` loads. An interrupted copy resumes: a file that exists is
complete, and so is each part that is loaded.
"""

import hashlib
import json
import sys
from collections.abc import Callable
from io import BytesIO
from typing import Any

import orjson
from pyarrow import parquet

from embedding_client import EmbeddingClient, EmbedOptions, TextSource, embed_file
from embedding_client.errors import counted
from jobs.embed.job import EMBEDDING_COLUMN, LAYOUT
from jobs.load.__main__ import main as load
from jobs.load.run import FinishedJob, find_job
from jobs.storage import open_folder
from operations.command import ENVIRONMENTS


def read_job(source: str) -> tuple[FinishedJob, dict[str, Any], dict[str, Any]]:
    """Return the job in a folder, or the only one below it, with its settings and its result."""
    job = find_job(source)
    folder = open_folder(job.folder)
    settings = orjson.loads(folder.read(LAYOUT.settings_file))
    copied = settings["job"]["metadata"]
    if job.text not in copied:
        raise ValueError(
            f"the job has its texts, as a column; found: {', '.join(copied) or 'none'}; allowed: "
            f"one of `embed batch start --metadata {job.text}`"
        )
    return job, settings, orjson.loads(folder.read(LAYOUT.result_file))


def copy_job(
    source: str, index: str, dimension: int, connect: Callable[[str | None], EmbeddingClient]
) -> int:
    """Embed a job's texts and load them into an index; return the exit status of the load.

    `connect` returns a client of the model that accepts one vector space; any with None.
    """
    job, settings, result = read_job(source)
    name = hashlib.sha256(f"{job.folder} {index}".encode()).hexdigest()[:12]
    output, opened = ENVIRONMENTS.parent / ".cache" / "migrate" / name, open_folder(job.folder)
    output.mkdir(parents=True, exist_ok=True)
    truncate = settings["job"]["truncate"]
    options = EmbedOptions(input_type="document", dimensions=dimension, truncate=truncate)
    rows, space = 0, ""
    for number, part in enumerate(job.parts, 1):
        file, texts = output / part.key, output / f"_{part.key}"
        if not file.exists():
            table = parquet.read_table(BytesIO(opened.read(part.key, etag=part.etag)))
            parquet.write_table(table.drop_columns([EMBEDDING_COLUMN]), texts)
            read = TextSource(texts, column=job.text, name=part.key)
            embed_file(connect, read, file, options=options, on_error="skip")
            texts.unlink()
        rows += parquet.read_metadata(file).num_rows
        space = parquet.read_schema(file).metadata[b"vector_space"].decode()
        print(f"{number:,} of {len(job.parts):,} files", file=sys.stderr)
    rejected = job.rows - rows
    if rejected:
        print(
            f"{counted(rejected, 'row')} without a vector: {output}/*.errors.jsonl", file=sys.stderr
        )
    LAYOUT.write_plan(str(output), {**settings, "vector_space": space}, [])
    result |= {"rows": rows, "rejected": rejected, "vector_space": space}
    LAYOUT.finish(str(output), result, rejected=rejected, rows=job.rows, allowed=100)
    return load([json.dumps({"settings": {"source": str(output), "index": index}})])
