"""Makes `minilm.json` and `minilm.npy`: MiniLM's vectors by sentence-transformers.

Run it in a separate environment, with the model's folder:

    pip install torch==2.13.0 transformers==5.23.0 sentence-transformers==6.2.0
    python tests/model_compiler/goldens/make_minilm.py FOLDER
"""

import importlib.metadata
import json
import sys
from pathlib import Path

import numpy as np
from sentence_transformers import SentenceTransformer

HERE = Path(__file__).resolve().parent
TEXTS = HERE.parents[2] / "lambda_image" / "model_compiler" / "fidelity" / "texts.json"
#: Unusual texts, in addition to those of the fidelity report.
ODD = {
    "empty between special tokens": "[CLS] [SEP] [MASK] [PAD]",
    "unknown characters": "\U0001f9ff \U00010348 \ue000 \U0010ffff",
    "control characters": "zero\u0000width\u200bjoin\u200der \u202eright to left\u202c \ufeff",
    "one long word": "a" * 300,
    "exactly over the limit": "word " * 254,
    "one over the limit": "word " * 255,
    "far over the limit": "The quick brown fox jumps over the lazy dog. " * 60,
}


def main() -> None:
    """Embed the texts and write both files."""
    texts = {**json.loads(TEXTS.read_text("utf-8"))["texts"], **ODD}
    model = SentenceTransformer(sys.argv[1], device="cpu")
    vectors = model.encode(list(texts.values()), batch_size=1, convert_to_numpy=True)
    np.save(HERE / "minilm.npy", vectors.astype(np.float32))
    versions = {
        name: importlib.metadata.version(name)
        for name in ("torch", "transformers", "sentence-transformers")
    }
    content = {"versions": versions, "texts": texts}
    (HERE / "minilm.json").write_text(
        json.dumps(content, ensure_ascii=True, indent=1) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
