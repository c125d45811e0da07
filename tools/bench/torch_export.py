"""The baseline's first step, torch's own export of the model; needs an interpreter with torch.

python tools/bench/torch_export.py MODEL_FOLDER TARGET_FOLDER
"""

import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from transformers import AutoModel

# The shape of the traced batch; both dimensions remain dynamic in the graph.
_TRACED = (2, 16)


class _Embedder(torch.nn.Module):  # type: ignore[misc]
    """The encoder, mean pooling, both Dense modules and the normalization."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.encoder = AutoModel.from_pretrained(
            folder, attn_implementation="eager", dtype=torch.float32
        )
        self.dense = torch.nn.ParameterList(
            load_file(folder / name / "model.safetensors")["linear.weight"]
            for name in ("2_Dense", "3_Dense")
        )

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> Any:
        hidden = self.encoder(
            input_ids=input_ids, attention_mask=attention_mask, use_cache=False
        ).last_hidden_state
        weights = attention_mask.unsqueeze(-1).to(hidden.dtype)
        value = (hidden * weights).sum(1) / weights.sum(1).clamp(min=1e-9)
        for weight in self.dense:
            value = value @ weight.T
        return torch.nn.functional.normalize(value, dim=-1)


def main(source: Path, target: Path) -> None:
    """Write `model.onnx` with its weights beside it."""
    ids = torch.randint(3, 1000, _TRACED)
    mask = torch.ones_like(ids)
    free = {
        0: torch.export.Dim("batch", min=1, max=64),
        1: torch.export.Dim("tokens", min=2, max=2048),
    }
    torch.onnx.export(
        _Embedder(source).eval(),
        (ids, mask),
        str(target / "model.onnx"),
        input_names=["input_ids", "attention_mask"],
        output_names=["sentence_embedding"],
        dynamo=True,
        dynamic_shapes={"input_ids": free, "attention_mask": free},
        external_data=True,
        opset_version=18,
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
