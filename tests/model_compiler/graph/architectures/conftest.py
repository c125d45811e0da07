"""What the tests of several families share."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from embedder.core.artifact import Artifact
from embedder.core.engine import Engine
from model_compiler.errors import CompilerError
from model_compiler.files.config import ConfigFile
from model_compiler.graph import architectures
from tests.model_compiler.conftest import Edit

Reason = Callable[..., str]


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


@pytest.fixture
def reason(folder: Path, edit_json: Edit) -> Reason:
    """Return the message of the error that a changed configuration raises."""

    def message(error: type[CompilerError], changes: dict[str, Any]) -> str:
        path = folder / "config.json"
        edit_json(path, **changes)
        with pytest.raises(error) as refused:
            architectures.parse(ConfigFile(path))
        return str(refused.value)

    return message
