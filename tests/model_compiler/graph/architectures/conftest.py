"""Shared parts of the tests of several families."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from embedder.core.artifact import Artifact
from embedder.core.engine import Engine
from model_compiler.files.config import ConfigFile


def embed_alone(
    artifact: Artifact, texts: Sequence[str], prompt: str | None = None
) -> npt.NDArray[np.float32]:
    """Embed texts one by one."""
    engine = Engine.load(artifact, truncate="right")
    return np.concatenate([engine.embed([text], prompt=prompt).vectors for text in texts])


def opened(path: Path) -> ConfigFile:
    """Open a configuration as the compiler does, which reads the model's type first."""
    config = ConfigFile(path)
    config.string("model_type")
    return config
