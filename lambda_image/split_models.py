"""Writes models.json from the build argument MODELS, and a file for each model that is compiled.

The image's build compiles each file in a step of its own, which Docker repeats only if that file
has changed.
"""

import json
import os
import sys
from pathlib import Path

#: The models of each file.
_FILES = {"model": ("model", "documents"), "reranker": ("reranker",), "sparse": ("sparse",)}


def split(text: str, folder: Path) -> None:
    """Write the files; a ValueError if the text has no model."""
    models = json.loads(text or "{}")
    if not isinstance(models, dict) or "model" not in models:
        raise ValueError(
            f"the build argument MODELS has the models to compile; found: {text or 'nothing'}; "
            'allowed: JSON such as {"model": {"name": "sentence-transformers/all-MiniLM-L6-v2"}}'
        )
    for name, keys in _FILES.items():
        own = {key: models[key] for key in keys if key in models}
        (folder / f"{name}.json").write_text(json.dumps(own), encoding="utf-8")
    (folder / "models.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    try:
        split(os.environ.get("MODELS", ""), Path())
    except ValueError as problem:
        sys.exit(f"error: {problem}")
