"""Makes `static.npz`: the vectors of small static models as their own libraries give them.

pip install torch==2.13.0 transformers==5.23.0 sentence-transformers==6.2.0 model2vec==0.10.0
PYTHONPATH=. python tests/model_compiler/goldens/make_static.py
"""

import importlib.metadata
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from model2vec import StaticModel
from sentence_transformers import SentenceTransformer

from tests.model_compiler.goldens.static_models import (
    MODEL2VEC,
    SENTENCE_TRANSFORMERS,
    TEXTS,
    write_model2vec,
    write_sentence_transformers,
)

HERE = Path(__file__).resolve().parent


def main() -> None:
    """Embed the texts with each model, one text at a time."""
    vectors: dict[str, Any] = {}
    for name, traits in SENTENCE_TRANSFORMERS.items():
        with tempfile.TemporaryDirectory() as temporary:
            folder = write_sentence_transformers(Path(temporary) / "model", **traits)
            model = SentenceTransformer(str(folder), device="cpu")
            for prompt in ("query", "document"):
                found = [model.encode([text], prompt_name=prompt) for text in TEXTS]
                vectors[f"{name} {prompt}"] = np.concatenate(found)
    for name, traits in MODEL2VEC.items():
        with tempfile.TemporaryDirectory() as temporary:
            folder = write_model2vec(Path(temporary) / "model", **traits)
            static = StaticModel.from_pretrained(folder)
            vectors[name] = np.concatenate([static.encode([text]) for text in TEXTS])
    versions = {
        name: importlib.metadata.version(name)
        for name in ("torch", "sentence-transformers", "model2vec", "tokenizers")
    }
    np.savez(HERE / "static.npz", **vectors, versions=np.array(json.dumps(versions)))


if __name__ == "__main__":
    main()
