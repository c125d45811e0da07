"""Embeds a whole file; a run that ended goes on where it ended."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from tqdm import tqdm

from embedding_client.client import EmbeddingClient
from embedding_client.errors import FileError
from embedding_client.outputs import check_output, write_output
from embedding_client.protocol import EmbedOptions
from embedding_client.sources import Source
from embedding_client.vector_log import VectorLog

__all__ = ["embed_file"]


def embed_file(
    connect: Callable[[str | None], EmbeddingClient],
    source: Source,
    output: Path,
    *,
    options: EmbedOptions,
    overwrite: bool = False,
    progress: bool | None = None,
) -> int:
    """Embeds every row of a file and writes rows and vectors.

    Vectors are kept in `OUTPUT.part` until all are there. After an error, Ctrl-C or a crash the
    same call goes on after the last one in it: no row is lost, none is sent again but the few that
    were under way, none stands in the output twice.

    Args:
        connect: makes a client that refuses vector spaces other than the one given, if any.
        source: the file.
        output: ends in .jsonl, .parquet or .npy.
        options: how to embed.
        overwrite: whether to replace an output that is there.
        progress: whether to draw a bar; None: where standard error is a terminal.

    Returns:
        The number of rows in the output.

    Raises:
        EmbeddingClientError: see `embedding_client.errors`.
    """
    check_output(output)
    if output.exists() and not overwrite:
        raise FileError(f"{output} is there already. Say --overwrite to replace it.")
    job = {"source": source.identity(), "options": asdict(options)}
    part = output.with_name(output.name + ".part")
    with VectorLog(part, job=job) as log:
        total = source.count()
        if log.rows < total:
            _embed_rest(connect, source, log, options=options, total=total, progress=progress)
        write_output(output, source, log)
    part.unlink(missing_ok=True)
    return total


def _embed_rest(
    connect: Callable[[str | None], EmbeddingClient],
    source: Source,
    log: VectorLog,
    *,
    options: EmbedOptions,
    total: int,
    progress: bool | None,
) -> None:
    hidden = None if progress is None else not progress
    bar = tqdm(
        total=total,
        initial=log.rows,
        unit=" texts",
        desc=source.path.name,
        disable=hidden,
        smoothing=0.1,
    )
    with connect(log.vector_space) as client, bar:
        texts = source.texts(start=log.rows)
        for vectors in client.iter_embed(texts, **asdict(options)):
            log.append(vectors, vector_space=client.vector_space or "")
            bar.update(len(vectors))
