"""Makes the golden scores of the small cross-encoders, as sentence-transformers gives them.

pip install torch==2.13.0 transformers==5.23.0 sentence-transformers==6.2.0
PYTHONPATH=.:lambda_image python tests/model_compiler/goldens/make_rerankers.py
"""

import importlib.metadata
import json
import tempfile
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import CrossEncoder

from tests.model_compiler.goldens.reranker_models import PAIRS, VARIANTS, write_reranker

HERE = Path(__file__).resolve().parent


def main() -> None:
    """Score each pair alone, with and without the model's activation."""
    libraries = ("torch", "transformers", "sentence-transformers", "tokenizers")
    golden: dict[str, Any] = {
        "versions": {name: importlib.metadata.version(name) for name in libraries}
    }
    for variant, traits in VARIANTS.items():
        with tempfile.TemporaryDirectory() as temporary:
            folder = write_reranker(Path(temporary) / "model", **traits)
            model = CrossEncoder(str(folder), device="cpu")
            pairs = [list(pair) for pair in PAIRS]
            golden[variant] = {
                "scores": [model.predict([pair])[0].tolist() for pair in pairs],
                "logits": [
                    model.predict([pair], activation_fn=torch.nn.Identity())[0].tolist()
                    for pair in pairs
                ],
            }
    (HERE / "rerankers.json").write_text(json.dumps(golden, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
