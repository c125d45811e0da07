"""Makes `export_script.onnx` and `export_dynamo.onnx`: an encoder by both exporters of torch.

pip install torch==2.13.0 transformers==5.23.0 safetensors onnxscript==0.7.2
PYTHONPATH=. python tests/model_compiler/goldens/make_exports.py
"""

import tempfile
from pathlib import Path
from typing import Any

import onnx
import torch
from transformers import AutoModel

from tests.model_compiler.goldens.encoder_models import EXPORTED, write_encoder

HERE = Path(__file__).resolve().parent


class Wrapped(torch.nn.Module):
    """An encoder inside another module, with one output.

    Args:
        model: The encoder.
        name: The name under which it is part of this module, with dots.
    """

    def __init__(self, model: Any, name: str) -> None:
        super().__init__()
        *outer, last_name = name.split(".")
        holder: Any = self
        for module_name in outer:
            inner = torch.nn.Module()
            holder.add_module(module_name, inner)
            holder = inner
        holder.add_module(last_name, model)
        self._name = name

    def forward(self, input_ids: Any, attention_mask: Any) -> Any:
        """Return the last hidden state."""
        model = self.get_submodule(self._name)
        return model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state


def main() -> None:
    """Export the encoder, named as in sentence-transformers and as a model alone."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = write_encoder(Path(temporary) / "model", "xlm-roberta", **EXPORTED)
        model = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    inputs, axes = ("input_ids", "attention_mask"), {0: "batch", 1: "tokens"}
    dimensions = {0: torch.export.Dim("batch"), 1: torch.export.Dim("tokens")}
    ids = torch.randint(5, 70, (2, 9))
    options: dict[str, Any] = {
        "args": (ids, torch.ones_like(ids)),
        "input_names": list(inputs),
        "output_names": ["last_hidden_state"],
    }
    torch.onnx.export(
        Wrapped(model, "0.auto_model"),
        f=str(HERE / "export_script.onnx"),
        dynamo=False,
        dynamic_axes=dict.fromkeys((*inputs, "last_hidden_state"), axes),
        **options,
    )
    torch.onnx.export(
        Wrapped(model, "model"),
        f=str(HERE / "export_dynamo.onnx"),
        dynamo=True,
        external_data=False,
        dynamic_shapes=dict.fromkeys(inputs, dimensions),
        **options,
    )
    _remove_notes(HERE / "export_dynamo.onnx")


def _remove_notes(path: Path) -> None:
    """Remove what the exporter notes about its own code, most of the file."""
    model = onnx.load(path)
    del model.metadata_props[:]
    del model.graph.metadata_props[:]
    del model.graph.value_info[:]
    for node in model.graph.node:
        del node.metadata_props[:]
    onnx.save(model, path)


if __name__ == "__main__":
    main()
