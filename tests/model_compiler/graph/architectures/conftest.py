"""Shared parts of the tests of several families."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from embedder.core.artifact import Artifact
from embedder.core.engine import Engine
from embedder.core.session import Session
from model_compiler.files.config import ConfigFile
from tests.model_compiler.conftest import padded

#: The reference's vectors by family and variant.
GOLDEN = np.load(Path(__file__).resolve().parents[2] / "goldens" / "families.npz")

Floats = npt.NDArray[np.float32]


def embed(artifact: Artifact, inputs: Sequence[Any]) -> Floats:
    """Embed texts, or sequences of ids, together."""
    if isinstance(inputs[0], str):
        return Engine.load(artifact, truncate="right").embed(inputs).vectors
    return Session(artifact).run(*padded([list(map(int, ids)) for ids in inputs]))


def embed_each(artifact: Artifact, inputs: Sequence[Any], *, prompt: str | None = None) -> Floats:
    """Embed texts, or sequences of ids, one by one."""
    if isinstance(inputs[0], str):
        engine = Engine.load(artifact, truncate="right")
        return np.concatenate([engine.embed([text], prompt=prompt).vectors for text in inputs])
    session = Session(artifact)
    return np.concatenate([session.run(ids[None], np.ones_like(ids)[None]) for ids in inputs])


def opened(path: Path) -> ConfigFile:
    """Open a configuration as the compiler does, which reads the model's type first."""
    config = ConfigFile(path)
    config.string("model_type")
    return config
