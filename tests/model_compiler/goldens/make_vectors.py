"""Makes the golden vectors of the small models, as their own libraries give them.

pip install torch==2.13.0 transformers==5.23.0 sentence-transformers==6.2.0 model2vec==0.10.0 orjson
PYTHONPATH=.:lambda_image python tests/model_compiler/goldens/make_vectors.py
"""

import importlib.metadata
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from model2vec import StaticModel
from sentence_transformers import SentenceTransformer

from tests.model_compiler.goldens import static_models
from tests.model_compiler.goldens.families import FAMILIES, open_reference

HERE = Path(__file__).resolve().parent


def main() -> None:
    """Write the vectors with the versions of the libraries, and the configurations."""
    libraries = ("torch", "transformers", "sentence-transformers", "model2vec", "tokenizers")
    versions = {name: importlib.metadata.version(name) for name in libraries}
    for file, vectors in (("families", _families()), ("static", _static())):
        np.savez(HERE / f"{file}.npz", **vectors, versions=np.array(json.dumps(versions)))


def _families() -> dict[str, Any]:
    """Embed each input alone; also keep the configurations as this transformers writes them."""
    vectors: dict[str, Any] = {}
    configs: dict[str, Any] = {}
    for name, family in FAMILIES.items():
        for variant, traits in family.variants.items():
            with tempfile.TemporaryDirectory() as temporary:
                model = open_reference(family.write(Path(temporary) / "model", **traits))
                vectors[f"{name} {variant}"] = _embedded(model, family.inputs, family.prompt)
                if name == "qwen3" and not traits:
                    vectors["qwen3 query"] = _embedded(model, family.inputs, "query")
                model.save(f"{temporary}/saved")
                saved = Path(temporary, "saved", "config.json").read_text("utf-8")
                configs.setdefault(name, json.loads(saved))
    (HERE / "newer_configs.json").write_text(json.dumps(configs, indent=1) + "\n", "utf-8")
    return vectors


def _static() -> dict[str, Any]:
    vectors = {}
    for name, traits in static_models.SENTENCE_TRANSFORMERS.items():
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary) / "model"
            model = open_reference(static_models.write_sentence_transformers(folder, **traits))
            for prompt in ("query", "document"):
                vectors[f"{name} {prompt}"] = _embedded(model, static_models.TEXTS, prompt)
    for name, traits in static_models.MODEL2VEC.items():
        with tempfile.TemporaryDirectory() as temporary:
            folder = static_models.write_model2vec(Path(temporary) / "model", **traits)
            static = StaticModel.from_pretrained(folder)
            texts = static_models.TEXTS
            vectors[name] = np.concatenate([static.encode([text]) for text in texts])
    return vectors


def _embedded(model: SentenceTransformer, inputs: Sequence[Any], prompt: str | None) -> Any:
    """Return the vectors of texts or of token ids, one at a time."""
    named = {"prompt_name": prompt} if prompt else {"prompt": ""}
    vectors = []
    for each in inputs:
        if isinstance(each, str):
            vectors.append(model.encode([each], convert_to_numpy=True, **named))
        else:
            ids = torch.tensor(each)[None]
            with torch.no_grad():
                output = model({"input_ids": ids, "attention_mask": torch.ones_like(ids)})
            vectors.append(output["sentence_embedding"].numpy())
    return np.concatenate(vectors).astype(np.float32)


if __name__ == "__main__":
    main()
