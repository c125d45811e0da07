"""Makes `modernbert.npz`: the small ModernBERTs' vectors as sentence-transformers gives them.

pip install torch==2.13.0 transformers==5.23.0 sentence-transformers==6.2.0
PYTHONPATH=. python tests/model_compiler/goldens/make_modernbert.py
"""

import importlib.metadata
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from sentence_transformers import SentenceTransformer

from tests.model_compiler.goldens.modernbert_model import TEXTS, VARIANTS, write_modernbert

HERE = Path(__file__).resolve().parent


def main() -> None:
    """Embed the texts with each model, one text at a time."""
    vectors = {}
    for name, traits in VARIANTS.items():
        with tempfile.TemporaryDirectory() as folder:
            model = SentenceTransformer(str(write_modernbert(Path(folder), **traits)), device="cpu")
            vectors[name] = np.concatenate(
                [model.encode([text], prompt="", convert_to_numpy=True) for text in TEXTS.values()]
            ).astype(np.float32)
    versions = {
        name: importlib.metadata.version(name)
        for name in ("torch", "transformers", "sentence-transformers")
    }
    arrays: dict[str, Any] = {**vectors, "versions": np.array(json.dumps(versions))}
    np.savez(HERE / "modernbert.npz", **arrays)


if __name__ == "__main__":
    main()
