"""A small random EmbeddingGemma with all of the real one's traits, and the ids that go through it.

Six layers, so that the last attends fully and the others through a window; the lengths are on
both sides of the window (8 tokens to each side) and of the length from which a text is cut into
blocks (144).
"""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from tests.fixtures.replica import Shape, write_replica

SHAPE = Shape(
    vocabulary=1024,
    hidden=48,
    intermediate=64,
    layers=6,
    heads=3,
    head=16,
    window=16,
    positions=320,
    dense=96,
)
LENGTHS = (1, 2, 7, 8, 9, 10, 33, 143, 144, 145, 201, 320)


def write_gemma3(folder: Path) -> Path:
    """Write the sentence-transformers folder and return it."""
    return write_replica(folder, SHAPE, seed=7, word_files=2)


def sequences() -> dict[int, npt.NDArray[np.int64]]:
    """Return token ids for each of the lengths."""
    source = np.random.RandomState(11)
    return {length: source.randint(10, SHAPE.vocabulary, length) for length in LENGTHS}
