"""Makes the golden vectors of the small models, as their own libraries give them.

pip install torch==2.13.0 transformers==5.23.0 sentence-transformers==6.2.0 model2vec==0.10.0
PYTHONPATH=. python tests/model_compiler/goldens/make_vectors.py
"""

import importlib.metadata
import json
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from model2vec import StaticModel
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer
from transformers import AutoModel

from tests.model_compiler.goldens import (
    encoder_models,
    gemma3_model,
    modernbert_model,
    qwen3_model,
    static_models,
    tiny_models,
)

HERE = Path(__file__).resolve().parent


def main() -> None:
    """Write the file of each kind of model, with the versions of the libraries."""
    libraries = ("torch", "transformers", "sentence-transformers", "model2vec", "tokenizers")
    versions = {name: importlib.metadata.version(name) for name in libraries}
    for name, make in {
        "tiny": _tiny,
        "modernbert": _modernbert,
        "qwen3": _qwen3,
        "static": _static,
        "encoders": _encoders,
        "gemma3": _gemma3,
    }.items():
        np.savez(HERE / f"{name}.npz", **make(), versions=np.array(json.dumps(versions)))


def _tiny() -> dict[str, Any]:
    return {
        name: _encoded(tiny_models.write_model, traits, tiny_models.TEXTS, prompt="")
        for name, traits in tiny_models.VARIANTS.items()
    }


def _modernbert() -> dict[str, Any]:
    texts = modernbert_model.TEXTS.values()
    return {
        name: _encoded(modernbert_model.write_modernbert, traits, texts, prompt="")
        for name, traits in modernbert_model.VARIANTS.items()
    }


def _qwen3() -> dict[str, Any]:
    """Embed the texts with each model as documents, and with the first also as queries."""
    write, texts = qwen3_model.write_qwen3, qwen3_model.TEXTS.values()
    return {
        name: _encoded(write, traits, texts, prompt_name="document")
        for name, traits in qwen3_model.VARIANTS.items()
    } | {"query": _encoded(write, {}, texts, prompt_name="query")}


def _static() -> dict[str, Any]:
    write, texts = static_models.write_sentence_transformers, static_models.TEXTS
    vectors = {
        f"{name} {prompt}": _encoded(write, traits, texts, prompt_name=prompt)
        for name, traits in static_models.SENTENCE_TRANSFORMERS.items()
        for prompt in ("query", "document")
    }
    for name, traits in static_models.MODEL2VEC.items():
        with tempfile.TemporaryDirectory() as temporary:
            folder = static_models.write_model2vec(Path(temporary) / "model", **traits)
            static = StaticModel.from_pretrained(folder)
            vectors[name] = np.concatenate([static.encode([text]) for text in texts])
    return vectors


def _encoders() -> dict[str, Any]:
    """Embed each sequence alone; also keep the configurations as this transformers writes them."""
    vectors: dict[str, Any] = {}
    configs: dict[str, Any] = {}
    for name, (family, _, _) in encoder_models.VARIANTS.items():
        with tempfile.TemporaryDirectory() as temporary:
            folder = encoder_models.write_variant(Path(temporary) / "model", name)
            model = SentenceTransformer(str(folder), device="cpu").eval()
            model.save(f"{temporary}/saved")
            saved = Path(temporary, "saved", "config.json").read_text("utf-8")
            configs.setdefault(family, json.loads(saved))
        with torch.no_grad():
            vectors[name] = np.concatenate(
                [
                    model(
                        {
                            "input_ids": torch.tensor(ids)[None],
                            "attention_mask": torch.ones(1, len(ids)),
                        }
                    )["sentence_embedding"].numpy()
                    for ids in encoder_models.sequences()
                ]
            )
    (HERE / "encoders.json").write_text(json.dumps(configs, indent=1) + "\n", encoding="utf-8")
    return vectors


def _gemma3() -> dict[str, Any]:
    """Embed each sequence alone; also keep the configuration as this transformers writes it."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = gemma3_model.write_gemma3(Path(temporary) / "model")
        model = AutoModel.from_pretrained(
            folder, attn_implementation="eager", dtype=torch.float32
        ).eval()
        dense = [
            load_file(folder / name / "model.safetensors")["linear.weight"]
            for name in ("2_Dense", "3_Dense")
        ]
        model.save_pretrained(Path(temporary) / "saved")
        newer = (Path(temporary) / "saved" / "config.json").read_text("utf-8")
    (HERE / "gemma3_config.json").write_text(newer, encoding="utf-8")
    vectors = {}
    for length, ids in gemma3_model.sequences().items():
        with torch.no_grad():
            hidden = model(input_ids=torch.tensor(ids)[None]).last_hidden_state
            value = hidden.mean(dim=1) @ dense[0].T @ dense[1].T
            vectors[str(length)] = torch.nn.functional.normalize(value, dim=-1)[0].numpy()
    return vectors


def _encoded(
    write: Callable[..., Path], traits: dict[str, Any], texts: Iterable[str], **prompt: str
) -> Any:
    """Return the vectors of a model of sentence-transformers, one text at a time."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = write(Path(temporary) / "model", **traits)
        model = SentenceTransformer(str(folder), device="cpu")
        found = [model.encode([text], convert_to_numpy=True, **prompt) for text in texts]
    return np.concatenate(found).astype(np.float32)


if __name__ == "__main__":
    main()
