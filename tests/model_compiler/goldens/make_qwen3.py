"""Makes `qwen3.npz`: the small Qwen3-Embeddings' vectors as sentence-transformers gives them.

pip install torch==2.13.0 transformers==5.23.0 sentence-transformers==6.2.0
PYTHONPATH=. python tests/model_compiler/goldens/make_qwen3.py
"""

import importlib.metadata
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from sentence_transformers import SentenceTransformer

from tests.model_compiler.goldens.qwen3_model import TEXTS, VARIANTS, write_qwen3

HERE = Path(__file__).resolve().parent


def main() -> None:
    """Embed the texts with each model, one at a time, and with the first also as queries."""
    vectors = {}
    for name, traits in VARIANTS.items():
        with tempfile.TemporaryDirectory() as folder:
            model = SentenceTransformer(str(write_qwen3(Path(folder), **traits)), device="cpu")
            prompts = ("document", "query") if name == "last token" else ("document",)
            for prompt in prompts:
                key = name if prompt == "document" else prompt
                vectors[key] = np.concatenate(
                    [model.encode([text], prompt_name=prompt) for text in TEXTS.values()]
                ).astype(np.float32)
    versions = {
        name: importlib.metadata.version(name)
        for name in ("torch", "transformers", "sentence-transformers")
    }
    arrays: dict[str, Any] = {**vectors, "versions": np.array(json.dumps(versions))}
    np.savez(HERE / "qwen3.npz", **arrays)


if __name__ == "__main__":
    main()
