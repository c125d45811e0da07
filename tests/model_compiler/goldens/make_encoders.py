"""Makes `encoders.npz` and `encoders.json`: small encoders as sentence-transformers runs them.

pip install torch==2.13.0 transformers==5.23.0 sentence-transformers==6.2.0
PYTHONPATH=. python tests/model_compiler/goldens/make_encoders.py
"""

import importlib.metadata
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

from tests.model_compiler.goldens.encoder_models import VARIANTS, sequences, write_variant

HERE = Path(__file__).resolve().parent


def main() -> None:
    """Embed each sequence alone; also keep the configurations as this transformers writes them."""
    vectors: dict[str, Any] = {}
    configs: dict[str, Any] = {}
    for name, (family, _, _) in VARIANTS.items():
        with tempfile.TemporaryDirectory() as temporary:
            folder = write_variant(Path(temporary) / "model", name)
            model = SentenceTransformer(str(folder), device="cpu").eval()
            model.save(f"{temporary}/saved")
            saved = Path(temporary, "saved", "config.json").read_text("utf-8")
            configs.setdefault(family, json.loads(saved))
        with torch.no_grad():
            vectors[name] = np.concatenate([_vector(model, ids) for ids in sequences()])
    versions = {
        name: importlib.metadata.version(name)
        for name in ("torch", "transformers", "sentence-transformers")
    }
    np.savez(HERE / "encoders.npz", **vectors, versions=np.array(json.dumps(versions)))
    (HERE / "encoders.json").write_text(json.dumps(configs, indent=1) + "\n", encoding="utf-8")


def _vector(model: SentenceTransformer, ids: Any) -> Any:
    features = {"input_ids": torch.tensor(ids)[None], "attention_mask": torch.ones(1, len(ids))}
    return model(features)["sentence_embedding"].numpy()


if __name__ == "__main__":
    main()
