"""Writes the forms of a model that other engines load; needs an interpreter with those engines.

python tools/bench/peer_forms.py FORM SOURCE_FOLDER TARGET_FOLDER [MORE]

weights: `model.safetensors` next to `config.json`, in the same folder: the random weights that
transformers initializes a model with. export: the model in torch's plain export, with its pooling,
its Dense modules and the normalization; a folder without modules.json is a classifier's, which
gives logits.

openvino-weights and openvino-static CALIBRATION_TEXTS, of torch's export; from torch itself with
fused attention, MiniLM is as fast. NNCF quantizes weights alone, or also activations with one
static scale each. litert, of a sentence-transformers folder: a graph for each of some lengths, with
a scale for each row, as XNNPACK quantizes; litert-outliers multiplies the channels in float32 that
`model_compiler.graph.quantization` selects. llama-cpp LLAMA_CPP_FOLDER: llama.cpp's converter
quantizes to Q8_0.
"""

import json
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification

#: The lengths of LiteRT's graphs, in tokens.
_TOKENS = (8, 32, 128, 256, 512, 2048)
#: One of this many channels is an outlier, as in `model_compiler.graph.quantization`.
_HIDDEN_SHARE, _WIDE_SHARE = 48, 96


class _Embedder(torch.nn.Module):  # type: ignore[misc]
    """The encoder, its pooling, its Dense modules and the normalization."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        # The attention of exporters: the fused one of torch has no operator in ONNX Runtime.
        self.encoder = AutoModel.from_pretrained(
            folder, attn_implementation="eager", dtype=torch.float32
        )
        if self.encoder.config.is_encoder_decoder:
            self.encoder = self.encoder.get_encoder()
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
            last_token = attention_mask.sum(1) - 1
            value = hidden[torch.arange(hidden.shape[0]), last_token]
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


def weights(folder: Path, _: Path) -> None:
    """Write `model.safetensors`, and `config.json` with all of its keys."""
    torch.manual_seed(0)
    values = json.loads((folder / "config.json").read_text("utf-8"))
    model_class = (
        AutoModel if (folder / "modules.json").exists() else AutoModelForSequenceClassification
    )
    model = model_class.from_config(AutoConfig.for_model(**values), dtype=torch.float32)
    model.save_pretrained(folder, safe_serialization=True, max_shard_size="100GB")


def export(folder: Path, target: Path) -> None:
    """Write `model.onnx` with its weights next to it."""
    model: Any
    if (folder / "modules.json").exists():
        model, limits, key = _Embedder(folder), "sentence_bert_config.json", "max_seq_length"
    else:
        model, limits, key = _Classifier(folder), "tokenizer_config.json", "model_max_length"
    max_length = json.loads((folder / limits).read_text("utf-8"))[key]
    ids = torch.randint(3, 1000, (2, 16))  # Both dimensions remain dynamic in the graph.
    mask = torch.ones_like(ids)
    batch = torch.export.Dim("batch", min=1, max=64)
    free = {0: batch, 1: torch.export.Dim("tokens", min=2, max=max_length)}
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


def openvino(source: Path, target: Path, texts: Path | None = None) -> None:
    """Write weights in int8; with texts, one a line, also products in int8 with static scales."""
    import nncf  # noqa: PLC0415
    import numpy as np  # noqa: PLC0415
    import openvino  # noqa: PLC0415
    from tokenizers import Tokenizer  # noqa: PLC0415

    model = openvino.Core().read_model(source / "model.onnx")
    if texts is None:
        model = nncf.compress_weights(model, mode=nncf.CompressWeightsMode.INT8_ASYM)
    else:
        tokenizer = Tokenizer.from_file(str(source / "tokenizer.json"))
        lines = texts.read_text("utf-8").split("\n")
        ids = [np.array([tokenizer.encode(line).ids]) for line in lines]
        samples = [{"input_ids": row, "attention_mask": np.ones_like(row)} for row in ids]
        model_type, preset = nncf.ModelType.TRANSFORMER, nncf.QuantizationPreset.MIXED
        model = nncf.quantize(
            model,
            nncf.Dataset(samples),
            model_type=model_type,
            preset=preset,
            subset_size=len(samples),
        )
    openvino.save_model(model, target / "model.xml", compress_to_fp16=False)


class _LinearWithOutliers(torch.nn.Module):  # type: ignore[misc]
    """A linear layer of which some input channels are multiplied in float32."""

    def __init__(self, linear: torch.nn.Linear, channels: torch.Tensor) -> None:
        super().__init__()
        weight, mask = linear.weight.detach(), torch.ones(linear.in_features)
        mask[channels] = 0
        self.register_buffer("channels", channels)
        self.register_buffer("mask", mask)
        self.rest = linear
        linear.weight.data = weight * mask
        # The quantization's recipe has this name.
        self.outliers = torch.nn.Linear(len(channels), linear.out_features, bias=False)
        self.outliers.weight.data = weight[:, channels].contiguous()

    def forward(self, value: torch.Tensor) -> Any:
        chosen = value.index_select(-1, self.channels)
        return self.rest(value * self.mask) + self.outliers(chosen)


def _separate_outliers(encoder: torch.nn.Module) -> None:
    """Replace the linear layers of a BERT which this project's compiler gives outliers."""
    norms = [layer for layer in encoder.modules() if isinstance(layer, torch.nn.LayerNorm)]
    gains = [norm.weight.detach().abs() for norm in norms]
    strength = torch.stack([gain / gain.median() for gain in gains]).amax(0)
    amplified = strength.topk(max(1, len(strength) // _HIDDEN_SHARE)).indices.sort().values
    for name, layer in list(encoder.encoder.layer.named_modules()):
        parent, _, attribute = name.rpartition(".")
        if not isinstance(layer, torch.nn.Linear) or parent.endswith("attention.output"):
            continue
        channels = amplified
        if layer.in_features != len(strength):
            lengths, count = layer.weight.detach().norm(dim=0), layer.in_features // _WIDE_SHARE
            channels = lengths.topk(count).indices.sort().values
        owner = encoder.encoder.layer.get_submodule(parent)
        setattr(owner, attribute, _LinearWithOutliers(layer, channels))


def litert(source: Path, target: Path, *, outliers: bool = False) -> None:
    """Write a graph for each of `_TOKENS` up to the model's limit, named `tokens_LENGTH`."""
    import litert_torch  # noqa: PLC0415
    from ai_edge_quantizer import qtyping, quantizer, recipe  # noqa: PLC0415

    model = _Embedder(source).eval()
    if outliers:
        _separate_outliers(model.encoder)
    settings = json.loads((source / "sentence_bert_config.json").read_text("utf-8"))
    graphs = litert_torch
    for length in _TOKENS:
        if length <= settings["max_seq_length"]:
            ids = torch.full((1, length), 1000, dtype=torch.int32)
            inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
            graphs = graphs.signature(f"tokens_{length}", model, sample_kwargs=inputs)
    full = target / "full.tflite"
    with torch.no_grad():
        graphs.convert().export(str(full))
    quantized = quantizer.Quantizer(str(full))
    quantized.load_quantization_recipe(recipe.dynamic_wi8_afp32())
    if outliers:
        every = qtyping.TFLOperationName.ALL_SUPPORTED
        quantized.update_quantization_recipe(".*outliers.*", every, algorithm_key="no_quantize")
    quantized.quantize().export_model(str(target / "model.tflite"))
    full.unlink()


def llama_cpp(source: Path, target: Path, llama: Path) -> None:
    """Write a GGUF file with llama.cpp's converter."""
    sys.path[:0] = [str(llama), str(llama / "gguf-py")]
    import convert_hf_to_gguf  # noqa: PLC0415
    from conversion import gemma  # noqa: PLC0415

    if not (source / "tokenizer.model").exists():
        gemma.EmbeddingGemma.set_vocab = _vocabulary
    sys.argv = ["", str(source), "--outfile", str(target / "model.gguf"), "--outtype", "q8_0"]
    if (source / "2_Dense").exists():
        sys.argv.append("--sentence-transformers-dense-modules")
    convert_hf_to_gguf.main()


def _vocabulary(model: Any) -> None:
    """Write the vocabulary of Gemma's `tokenizer.json`: the converter wants `tokenizer.model`.

    The score of a piece is the rank of its merge, negated; the types are those of llama.cpp:
    normal 1, unknown 2, control 3, user defined 4, byte 6.
    """
    tokenizer = json.loads((model.dir_model / "tokenizer.json").read_text("utf-8"))
    vocabulary: dict[str, int] = tokenizer["model"]["vocab"]
    merges = ["".join(merge) for merge in tokenizer["model"]["merges"]]
    ranks = {piece: rank for rank, piece in reversed([*enumerate(merges)])}
    token_types = {piece: 6 for piece in vocabulary if len(piece) == 6 and piece.startswith("<0x")}
    token_types |= {
        token["content"]: 3 if token["special"] else 4 for token in tokenizer["added_tokens"]
    }
    token_types["<unk>"] = 2
    pieces = sorted(vocabulary, key=vocabulary.__getitem__)
    writer = model.gguf_writer
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([piece.encode() for piece in pieces])
    writer.add_token_scores([-float(ranks.get(piece, 1e6)) for piece in pieces])
    writer.add_token_types([token_types.get(piece, 1) for piece in pieces])
    for name in ("bos", "eos", "pad", "unk"):
        getattr(writer, f"add_{name}_token_id")(vocabulary[f"<{name}>"])
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(True)
    writer.add_add_space_prefix(False)


FORMS: Mapping[str, Callable[..., None]] = {
    "weights": weights,
    "export": export,
    "openvino-static": openvino,
    "openvino-weights": openvino,
    "litert": litert,
    "litert-outliers": partial(litert, outliers=True),
    "llama-cpp": llama_cpp,
}

if __name__ == "__main__":
    FORMS[sys.argv[1]](*map(Path, sys.argv[2:]))
