"""The command `embedding-kit model_compiler.index_builder`: builds an image's index from texts.

The index is a folder: `entries.json` (the texts, or objects with `id`, `text` and `metadata`),
`vectors.npy` (float32 [n, dimensions], rows of
length 1) and `manifest.json` (format, vector space, count). A sparse encoder's index has postings
in the place of vectors; see `embedder.core.sparse`. That of an embedding model and a sparse
encoder has both, and its manifest the `sparse_space` too. Without a sparse encoder, the postings of
an embedding model's index may be BM25's; see `embedder.core.bm25`. The embedder itself computes the
vectors, and an embedder with another vector space rejects the index.
"""

import argparse
import hashlib
import sqlite3
import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
from tqdm import tqdm

from embedder.core.artifact import Artifact, load_artifacts
from embedder.core.bm25 import SPACE as BM25_SPACE
from embedder.core.bm25 import make_word_index
from embedder.core.engine import Engine
from embedder.core.errors import EmbedderError
from embedder.core.search import WORDS_FILE, EntryMetadata, passage
from embedder.core.sparse import Postings, SparseEncoder, TokenWeights, make_postings
from model_compiler.artifact.writer import new_folder
from model_compiler.errors import CompilerError, SourceError

#: The format of the index's manifest, which `embedder.core.search` reads.
FORMAT_VERSION = 1
#: Number of texts per step of the progress bar.
BATCH = 64


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 0, or 2 after an error of one line on standard error."""
    options = _parser().parse_args(arguments)
    try:
        texts = read_texts(options.texts)
        space = build_index(
            texts,
            options.artifact,
            options.output,
            dimensions=options.dimensions,
            prompt=options.prompt,
            bm25=options.bm25,
            progress=not options.quiet,
        )
    except (CompilerError, EmbedderError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    if not options.quiet:
        print(f"{options.output}: {len(texts)} texts, {space}")
    return 0


def build_index(
    texts: Sequence[str],
    artifact: Path,
    output: Path,
    *,
    dimensions: int | None = None,
    prompt: str | None = None,
    about: Sequence[EntryMetadata] | None = None,
    cache: "EmbeddedRowsCache | None" = None,
    bm25: bool = False,
    progress: bool = False,
) -> str:
    """Embed texts and write the index completely or not at all.

    Args:
        texts: The texts to search; none may be empty. A text over the model's limit is truncated.
            One with `headings` in its metadata is embedded below them.
        artifact: The compiled model's folder, or that of several models.
        output: The index's folder.
        dimensions: One of the model's allowed values; None for all dimensions.
        prompt: The name of the texts' prompt; None for the model's default. Of several models, it
            and the dimensions are the embedding model's.
        about: The ids and the metadata of the texts; None for their places and no metadata.
        cache: Vectors of earlier builds, which are not computed again; None for none.
        bm25: Whether the index can be searched by words too, without a sparse encoder.
        progress: Whether to draw a progress bar.

    Returns:
        The index's vector space; of several models, the embedding model's.

    Raises:
        EmbedderError: If the artifact cannot be loaded, or a text cannot be embedded.
        OutputError: If the index cannot be written.
        SourceError: If there are no texts, the artifact is that of a Router's queries, or it has a
            sparse encoder besides BM25.
    """
    if not texts:
        raise SourceError("There are no texts to make an index of.")
    encoder, *companions = load_artifacts(artifact)
    companion = next(
        (candidate for candidate in companions if candidate.manifest.task == "sparse"), None
    )
    for served in filter(None, (encoder, companion)):
        if served.manifest.fidelity.get("route") == "query":
            raise SourceError(
                f"{served.folder} encodes queries; the texts of an index must be encoded by the "
                "artifact of the Router's document route. An endpoint of either route searches it."
            )
    if encoder.manifest.task == "sparse" and dimensions is not None:
        raise SourceError(f"A sparse encoder has no dimensions to choose; found {dimensions}.")
    if bm25 and (companion or encoder.manifest.task == "sparse"):
        raise SourceError(
            "BM25 takes the place of a sparse encoder next to an embedding model; found both in "
            f"{artifact}."
        )
    passages = texts
    if about is not None:
        passages = [passage(text, entry.metadata) for text, entry in zip(texts, about, strict=True)]
    manifest: dict[str, int | str] = {"format_version": FORMAT_VERSION, "count": len(texts)}
    with new_folder(output) as partial:
        manifest["vector_space"] = space = _write_vectors(
            passages, encoder, partial, dimensions, prompt, cache=cache, progress=progress
        )
        if companion:
            manifest["sparse_space"] = _write_vectors(
                passages, companion, partial, cache=cache, progress=progress
            )
        if bm25:
            words, postings = make_word_index(passages)
            np.save(partial / WORDS_FILE, words)
            _write_postings(postings, partial)
            manifest["sparse_space"] = BM25_SPACE
        entries = [*texts] if about is None else list(map(_entry, texts, about))
        (partial / "entries.json").write_bytes(orjson.dumps(entries))
        (partial / "manifest.json").write_bytes(orjson.dumps(manifest))
    return space


def _entry(text: str, about: EntryMetadata) -> dict[str, Any]:
    return {"id": about.id, "text": text, "metadata": about.metadata}


class EmbeddedRowsCache:
    """Vectors of texts in a file, by their space and prompt; of the last build of an index."""

    def __init__(self, path: Path) -> None:
        with ExitStack() as failed:
            try:
                self._file = failed.enter_context(closing(sqlite3.connect(path)))
                self._file.execute(
                    "CREATE TABLE IF NOT EXISTS vectors"
                    "(space, text, vector, PRIMARY KEY(space, text))"
                )
            except sqlite3.DatabaseError as error:
                raise SourceError(f"{path} cannot be read: {error}. Delete it.") from error
            failed.pop_all()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def read(self, space: str) -> dict[bytes, bytes]:
        """Return the vectors of a space by the hashes of their texts."""
        rows = self._file.execute("SELECT text, vector FROM vectors WHERE space = ?", (space,))
        return dict(rows.fetchall())

    def write(self, space: str, vectors: Mapping[bytes, bytes]) -> None:
        """Add vectors; what an interrupted build has written, the next one reads."""
        with self._file:
            self._file.executemany(
                "INSERT OR REPLACE INTO vectors VALUES(?, ?, ?)",
                [(space, text, vector) for text, vector in vectors.items()],
            )

    def keep(self, space: str, texts: Collection[bytes]) -> None:
        """Delete the vectors of other texts."""
        gone = [(space, text) for text in self.read(space).keys() - set(texts)]
        with self._file:
            self._file.executemany("DELETE FROM vectors WHERE space = ? AND text = ?", gone)


def _write_vectors(
    texts: Sequence[str],
    artifact: Artifact,
    folder: Path,
    dimensions: int | None = None,
    prompt: str | None = None,
    *,
    cache: EmbeddedRowsCache | None,
    progress: bool,
) -> str:
    """Write the vectors or the postings of texts, and return their vector space."""
    sparse = artifact.manifest.task == "sparse"
    engine = (SparseEncoder if sparse else Engine).load(artifact, truncate="right")
    space = engine.vector_space(dimensions)
    cached = f"{space} {prompt or ''}"
    names = [hashlib.sha256(text.encode()).digest() for text in texts]
    vectors_by_name = cache.read(cached) if cache else {}
    # Texts of similar length share a batch, which saves padding.
    missing = {
        name: text for name, text in zip(names, texts, strict=True) if name not in vectors_by_name
    }
    order = sorted(missing, key=lambda name: len(missing[name]))
    silent = not progress or not order
    with tqdm(total=len(order), desc="index", unit=" texts", disable=silent) as bar:
        for start in range(0, len(order), BATCH):
            batch = order[start : start + BATCH]
            vectors = engine.embed(
                [missing[name] for name in batch], dimensions=dimensions, prompt=prompt
            ).vectors
            done = {name: _packed(vector) for name, vector in zip(batch, vectors, strict=True)}
            if cache:
                cache.write(cached, done)
            vectors_by_name |= done
            bar.update(len(batch))
    if cache:
        cache.keep(cached, names)
    if sparse:
        postings = make_postings(
            [_sparse(vectors_by_name[name]) for name in names],
            vocabulary=engine.limits.full_dimensions,
        )
        _write_postings(postings, folder)
    else:
        rows = np.frombuffer(b"".join(vectors_by_name[name] for name in names), np.float32)
        np.save(folder / "vectors.npy", rows.reshape(len(names), -1))
    return space


def _write_postings(postings: Postings, folder: Path) -> None:
    for name, array in postings._asdict().items():
        np.save(folder / f"postings.{name}.npy", array)


def _packed(vector: npt.NDArray[np.float32] | TokenWeights) -> bytes:
    """Return a vector as bytes: its floats; if it is sparse, after the indices of these."""
    if isinstance(vector, TokenWeights):
        return vector.indices.tobytes() + vector.values.tobytes()
    return vector.tobytes()


def _sparse(packed: bytes) -> TokenWeights:
    indices, values = np.frombuffer(packed, np.uint32).reshape(2, -1)
    return TokenWeights(indices, values.view(np.float32))


def read_texts(path: Path) -> list[str]:
    """Read the texts of a file: a JSON list of strings, or plain text with one on each line.

    Empty lines are left out.
    """
    try:
        raw = path.read_bytes()
        if path.suffix == ".json":
            texts = orjson.loads(raw)
        else:
            texts = [line.strip() for line in raw.decode("utf-8").splitlines() if line.strip()]
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror}.") from error
    except ValueError as error:  # of either decoder
        raise SourceError(f"{path} cannot be read: {error}.") from error
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise SourceError(f"{path} must be a JSON list of strings.")
    blank = [index for index, text in enumerate(texts) if not text.strip()]
    if blank:
        raise SourceError(f"{path}: the text at place {blank[0]} is empty.")
    return texts


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="embedding-kit model_compiler.index_builder",
        description="Embed texts into the search index that an image carries.",
    )
    parser.add_argument("texts", type=Path, help="a JSON list of strings, or a text on each line")
    parser.add_argument(
        "--artifact", type=Path, required=True, help="the compiled model, or models"
    )
    parser.add_argument("--output", type=Path, required=True, help="the index's folder")
    parser.add_argument(
        "--dimensions", type=int, help="of each vector, one of the values in /info (default: all)"
    )
    parser.add_argument("--prompt", help="the name of the texts' prompt")
    parser.add_argument(
        "--bm25",
        action="store_true",
        help="make the index searchable by words too, without a model",
    )
    parser.add_argument("--quiet", action="store_true", help="no progress bar and no report")
    return parser


if __name__ == "__main__":
    sys.exit(main())
