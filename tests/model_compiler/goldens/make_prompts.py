"""Makes `prompts.npz`: vectors that leave out the prompt's tokens, by sentence-transformers.

pip install torch==2.13.0 transformers==5.23.0 sentence-transformers==6.2.0
PYTHONPATH=.:lambda_image python tests/model_compiler/goldens/make_prompts.py
"""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from sentence_transformers import SentenceTransformer

from tests.model_compiler.goldens.prompt_models import MODELS, PROMPTS, write_model_of
from tests.model_compiler.goldens.tiny_models import TEXTS


def main() -> None:
    """Write the vectors of each model's texts with each prompt, one text at a time."""
    vectors: dict[str, Any] = {}
    for name in MODELS:
        with tempfile.TemporaryDirectory() as temporary:
            folder = write_model_of(Path(temporary) / "model", name)
            model = SentenceTransformer(str(folder), device="cpu")
            for prompt in PROMPTS:
                found = [model.encode([text], prompt_name=prompt) for text in TEXTS]
                vectors[f"{name} {prompt}"] = np.concatenate(found)
    np.savez(Path(__file__).with_name("prompts.npz"), **vectors)


if __name__ == "__main__":
    main()
