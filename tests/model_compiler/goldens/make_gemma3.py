"""Makes `gemma3.npz`: the vectors of the small EmbeddingGemma as transformers computes them.

pip install torch==2.13.0 transformers==5.23.0 safetensors
PYTHONPATH=. python tests/model_compiler/goldens/make_gemma3.py
"""

import importlib.metadata
import json
import tempfile
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from transformers import AutoModel

from tests.model_compiler.goldens.gemma3_model import sequences, write_gemma3

HERE = Path(__file__).resolve().parent


def main() -> None:
    """Embed each sequence alone; also keep the configuration as this transformers writes it."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = write_gemma3(Path(temporary) / "model")
        model = AutoModel.from_pretrained(
            folder, attn_implementation="eager", dtype=torch.float32
        ).eval()
        dense = [
            load_file(folder / name / "model.safetensors")["linear.weight"]
            for name in ("2_Dense", "3_Dense")
        ]
        model.save_pretrained(Path(temporary) / "saved")
        newer = (Path(temporary) / "saved" / "config.json").read_text("utf-8")
    vectors = {}
    for length, ids in sequences().items():
        with torch.no_grad():
            hidden = model(input_ids=torch.tensor(ids)[None]).last_hidden_state
            value = hidden.mean(dim=1) @ dense[0].T @ dense[1].T
            vectors[str(length)] = torch.nn.functional.normalize(value, dim=-1)[0].numpy()
    versions = {name: importlib.metadata.version(name) for name in ("torch", "transformers")}
    np.savez(HERE / "gemma3.npz", **vectors, versions=np.array(json.dumps(versions)))
    (HERE / "gemma3_config.json").write_text(newer, encoding="utf-8")


if __name__ == "__main__":
    main()
