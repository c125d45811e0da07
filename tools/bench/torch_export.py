"""Writes a replica's weights and its plain export; needs an interpreter with torch.

python tools/bench/torch_export.py SOURCE_FOLDER weights
python tools/bench/torch_export.py SOURCE_FOLDER EXPORT_FOLDER

The first form writes `model.safetensors` next to `config.json`: the random weights that
transformers initializes a model with. The second exports that model with its pooling, its Dense
modules and the normalization. A folder without modules.json is a classifier's; its export gives
logits.
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification

# The shape of the traced batch; both dimensions remain dynamic in the graph.
_TRACED = (2, 16)


class _Embedder(torch.nn.Module):  # type: ignore[misc]
    """The encoder, its pooling, its Dense modules and the normalization."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        # The attention of exporters: the fused one of torch has no operator in ONNX Runtime.
        self.encoder = AutoModel.from_pretrained(
            folder, attn_implementation="eager", dtype=torch.float32
        )
        self.encoder.config.use_cache = False
        pooling = json.loads((folder / "1_Pooling" / "config.json").read_text("utf-8"))
        # Newer folders name the mode, older ones have a flag for each.
        self.pooling = pooling.get("pooling_mode") or next(
            key for key, value in pooling.items() if key.startswith("pooling_mode") and value
        )
        self.dense = torch.nn.ParameterList(
            load_file(file)["linear.weight"]
            for file in sorted(folder.glob("?_Dense/model.safetensors"))
        )

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> Any:
        hidden = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        if "cls" in self.pooling:
            value = hidden[:, 0]
        elif "lasttoken" in self.pooling:
            last = attention_mask.sum(1) - 1
            value = hidden[torch.arange(hidden.shape[0]), last]
        else:
            weights = attention_mask.unsqueeze(-1).to(hidden.dtype)
            value = (hidden * weights).sum(1) / weights.sum(1).clamp(min=1e-9)
        for weight in self.dense:
            value = value @ weight.T
        return torch.nn.functional.normalize(value, dim=-1)


class _Classifier(torch.nn.Module):  # type: ignore[misc]
    """A classifier, which gives its logits."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.model = AutoModelForSequenceClassification.from_pretrained(
            folder, attn_implementation="eager", dtype=torch.float32
        )

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> Any:
        return self.model(input_ids=input_ids, attention_mask=attention_mask).logits


def write_weights(folder: Path) -> None:
    """Write `model.safetensors`, and `config.json` with all of its keys."""
    torch.manual_seed(0)
    values = json.loads((folder / "config.json").read_text("utf-8"))
    kind = AutoModel if (folder / "modules.json").exists() else AutoModelForSequenceClassification
    model = kind.from_config(AutoConfig.for_model(**values), dtype=torch.float32)
    model.save_pretrained(folder, safe_serialization=True, max_shard_size="100GB")


def write_export(folder: Path, target: Path) -> None:
    """Write `model.onnx` with its weights next to it."""
    model: Any
    if (folder / "modules.json").exists():
        model, limits, key = _Embedder(folder), "sentence_bert_config.json", "max_seq_length"
    else:
        model, limits, key = _Classifier(folder), "tokenizer_config.json", "model_max_length"
    most = json.loads((folder / limits).read_text("utf-8"))[key]
    ids = torch.randint(3, 1000, _TRACED)
    mask = torch.ones_like(ids)
    batch, tokens = (
        torch.export.Dim("batch", min=1, max=64),
        torch.export.Dim("tokens", min=2, max=most),
    )
    free = {0: batch, 1: tokens}
    with torch.no_grad():
        torch.onnx.export(
            model.eval(),
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
    if sys.argv[2] == "weights":
        write_weights(Path(sys.argv[1]))
    else:
        write_export(Path(sys.argv[1]), Path(sys.argv[2]))
