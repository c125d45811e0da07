"""`python -m tools.local_endpoint.documents FOLDER`: a folder of documents to an index to carry.

It reads, divides and identifies them as the function of `[ingest]` does. Of an earlier run, only
the chunks with other texts are embedded.
"""

import argparse
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from embedder.core.artifact import load_artifacts
from embedder.core.engine import Engine
from embedder.core.errors import EmbedderError
from embedder.core.search import EntryMetadata
from embedder.core.sparse import SparseEncoder
from embedding_client.document_summary import DocumentSummary
from jobs.documents.chunking import Chunker
from jobs.documents.chunks import read_chunks
from jobs.documents.document import RefusedDocumentError
from jobs.errors import BatchError
from jobs.storage import is_hidden, open_folder
from model_compiler.errors import CompilerError
from model_compiler.index_builder import EmbeddedRowsCache, build_index


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 0, or 2 after an error of one line on standard error."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder")
    parser.add_argument("--artifact", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--metadata", action="append", default=[])
    options = parser.parse_args(arguments)
    try:
        _build(options.folder, options.artifact, options.output, metadata=options.metadata)
    except (BatchError, CompilerError, EmbedderError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    return 0


def _build(folder: str, artifact: Path, output: Path, *, metadata: Sequence[str]) -> None:
    artifacts = load_artifacts(artifact)
    has_encoder = "sparse" in {model.manifest.task for model in artifacts}
    engine = (SparseEncoder if artifacts[0].manifest.task == "sparse" else Engine).load(
        artifacts[0]
    )
    chunker = Chunker(engine.request_tokenizer)
    source = open_folder(folder)
    texts: list[str] = []
    about: list[EntryMetadata] = []
    summary = DocumentSummary()
    for file in source.files():
        if is_hidden(file.key):
            continue
        try:
            read = read_chunks(
                source, file.key, file.size, chunker, wanted=metadata, non_filterable=("text",)
            )
        except (BatchError, RefusedDocumentError) as error:
            print(summary.refuse(file.key, str(error)))
            continue
        if not read.metadata:
            continue  # It was deleted after it was listed.
        for line in summary.add(file.key, read.counts._asdict(), read.problems):
            print(line)
        texts += [metadata.pop("text") for metadata in read.metadata.values()]
        about += [EntryMetadata(name, metadata) for name, metadata in read.metadata.items()]
    if not texts:
        print(*summary.lines(), sep="\n")
        raise BatchError(f"{folder} has no document that can be read.")
    with closing(EmbeddedRowsCache(output.with_name(f"{output.name}.vectors"))) as cache:
        build_index(
            texts,
            artifact,
            output,
            prompt=chunker.prompt,
            about=about,
            cache=cache,
            bm25=not has_encoder,
            progress=True,
        )
    print(*summary.lines(), sep="\n")


if __name__ == "__main__":
    sys.exit(main())
