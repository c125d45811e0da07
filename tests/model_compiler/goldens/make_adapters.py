"""Makes `adapters.npz`: adapters as peft saves them, and the vectors of the adapted model.

pip install torch==2.13.0 transformers==5.23.0 sentence-transformers==6.2.0 peft==0.21.2
PYTHONPATH=.:lambda_image python tests/model_compiler/goldens/make_adapters.py
"""

import importlib.metadata
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from peft import LoraConfig, get_peft_model

from tests.model_compiler.goldens.embedding_gemma2_model import TEXTS as GEMMA_TEXTS
from tests.model_compiler.goldens.embedding_gemma2_model import write_embedding_gemma2
from tests.model_compiler.goldens.families import open_reference
from tests.model_compiler.goldens.tiny_models import TEXTS, write_model

#: What each adapter has that the default does not.
ADAPTERS: dict[str, dict[str, Any]] = {
    "names": {"target_modules": ["query", "value"]},
    "all linear layers": {"target_modules": "all-linear", "fan_in_fan_out": True},
    "a pattern": {"target_modules": r".*layer\.0.*(key|value)"},
    "root of the rank": {"target_modules": ["query"], "use_rslora": True, "r": 3},
    "ranks and alphas": {
        "target_modules": ["query", "dense"],
        "rank_pattern": {"layer.0.*query": 1},
        "alpha_pattern": {"1.output.dense": 3},
    },
    "own biases": {"target_modules": ["query"], "bias": "lora_only"},
    "all biases": {"target_modules": ["query"], "bias": "all"},
    "a bias of B": {"target_modules": ["query"], "lora_bias": True},
    "modules and embeddings": {
        "target_modules": ["query", "word_embeddings"],
        "modules_to_save": ["LayerNorm"],
    },
}
#: An adapter of the composite, which also changes the towers that no text passes.
COMPOSITE = "embedding_gemma2"


def main() -> None:
    """Write the adapters and the vectors with the versions of the libraries."""
    libraries = ("torch", "transformers", "sentence-transformers", "peft")
    versions = {name: importlib.metadata.version(name) for name in libraries}
    values: dict[str, Any] = {"versions": np.array(json.dumps(versions))}
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as temporary:
        tiny = write_model(Path(temporary) / "base")
        composite = write_embedding_gemma2(Path(temporary) / "composite")
        bases = dict.fromkeys(ADAPTERS, (tiny, TEXTS)) | {COMPOSITE: (composite, GEMMA_TEXTS)}
        for name, (base, texts) in bases.items():
            saved = Path(temporary) / name
            _save(base, saved, ADAPTERS.get(name, {"target_modules": "all-linear"}))
            model = open_reference(base)
            model.load_adapter(str(saved))
            vectors = [model.encode([text], prompt="") for text in texts]
            values[f"{name}: vectors"] = np.concatenate(vectors)
            config = json.loads((saved / "adapter_config.json").read_text("utf-8"))
            values[f"{name}: config"] = np.array(json.dumps(config | {"revision": "0" * 40}))
            tensors = (saved / "adapter_model.safetensors").read_bytes()
            values[f"{name}: tensors"] = np.frombuffer(tensors, np.uint8)
    np.savez_compressed(Path(__file__).with_name("adapters.npz"), **values)


def _save(base: Path, folder: Path, traits: dict[str, Any]) -> None:
    encoder = open_reference(base)[0].auto_model
    config = LoraConfig(**{"r": 2, "lora_alpha": 8, "init_lora_weights": False, **traits})
    model = get_peft_model(encoder, config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn_like(parameter) * 0.1)
    model.save_pretrained(str(folder))


if __name__ == "__main__":
    main()
