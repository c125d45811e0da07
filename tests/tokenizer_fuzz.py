"""Compares the fast tokenizers with `tokenizers` on any number of texts.

`python -m tests.tokenizer_fuzz` takes MiniLM's WordPiece and replicas of full size: Gemma's BPE,
the byte-level BPE of RoBERTa, ModernBERT, Qwen and EuroBERT, and the Unigram of XLM-RoBERTa,
CamemBERT and T5. It compares 200,000 made-up texts for each, and every file of the standard
library. The tests run the same texts in small numbers. The exit status is 1 if one text differs;
each is shown, escaped, with the seed that makes it again.

They are the tokenizers of the other families too: jina-embeddings-v2 and GTE have BERT's in
English, jina-embeddings-v2 in German, Spanish and for code RoBERTa's, and jina-embeddings-v3,
multilingual GTE and nomic-embed-text-v2-moe XLM-RoBERTa's. ALBERT's has steps that only
`tokenizers` takes, so there is nothing to compare.
"""

import argparse
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import tokenizers
from tqdm import tqdm

from embedder.core.fast_tokenizers import Tokenizer, load
from model_compiler.source.find import find_source
from model_compiler.tokenizer.sample import sample_texts
from model_compiler.tokenizer.tables import build
from tests.fixtures.byte_level_tokenizer import FULL_SIZES, byte_level_tokenizer
from tests.fixtures.gemma_tokenizer import gemma_tokenizer
from tests.fixtures.tokenizer_files import tokenizer_json
from tests.fixtures.unigram_tokenizer import CAMEMBERT, CAMEMBERT_SIZE, T5_SIZE, unigram_tokenizer

SHOWN = 300


def main() -> int:
    """Run the comparison that the arguments ask for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("tokenizer", nargs="*", type=Path, help="tokenizer.json files")
    parser.add_argument("--texts", type=int, default=200_000, help="made-up texts for each")
    parser.add_argument("--seed", type=int, default=1, help="of the made-up texts")
    parser.add_argument("--no-library", action="store_true", help="leave out the standard library")
    arguments = parser.parse_args()
    wrong = 0
    for name, data in _sources(arguments.tokenizer):
        with tempfile.TemporaryDirectory() as folder:
            tables = build(data)
            if tables.reason:
                print(f"{name}: {tables.reason}; there is nothing to compare")
                continue
            path = Path(folder) / tables.file
            path.write_bytes(tables.data)
            fast = load(tables.kind, path)
            library = tokenizers.Tokenizer.from_buffer(data)
            library.no_truncation()
            library.no_padding()
            kinds = {
                f"made-up texts of seed {arguments.seed}": (
                    sample_texts(library, count=arguments.texts, seed=arguments.seed),
                    arguments.texts,
                )
            }
            if not arguments.no_library:
                files = _library_files()
                kinds["files of the standard library"] = (map(_read, files), len(files))
            for kind, (texts, count) in kinds.items():
                started = time.process_time()
                bar = tqdm(texts, desc=f"{name}, {kind}", total=count, mininterval=1)
                differ = sum(not _agree(library, fast, text) for text in bar)
                seconds = time.process_time() - started
                print(f"{name}: {differ} of {count} {kind} differ ({seconds:.0f} s of CPU)")
                wrong += differ
    return int(wrong > 0)


def _sources(files: list[Path]) -> Iterator[tuple[str, bytes]]:
    for path in files:
        yield str(path), path.read_bytes()
    if not files:
        folder = find_source("all-MiniLM-L6-v2").folder.path
        yield "all-MiniLM-L6-v2", (folder / "tokenizer.json").read_bytes()
        yield "Gemma's kind, full size", gemma_tokenizer()
        for name, size in FULL_SIZES.items():
            yield f"{name}'s kind, full size", byte_level_tokenizer(name, tokens=size)
        yield "XLM-RoBERTa's kind, full size", unigram_tokenizer()
        camembert = unigram_tokenizer(tokens=CAMEMBERT_SIZE, specials=CAMEMBERT)
        yield "CamemBERT's kind, full size", camembert
        yield "T5's kind, full size", tokenizer_json("T5", T5_SIZE)


def _agree(library: tokenizers.Tokenizer, fast: Tokenizer, text: str) -> bool:
    agree: bool = fast.encode(text) == library.encode(text, add_special_tokens=False).ids
    if not agree:
        tqdm.write(f"differs: {text[:SHOWN]!a}")
    return agree


def _library_files() -> list[Path]:
    folder = Path(sysconfig.get_paths()["stdlib"])
    return sorted(path for path in folder.rglob("*.py") if "site-packages" not in path.parts)


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


if __name__ == "__main__":
    sys.exit(main())
