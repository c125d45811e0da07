"""Writes the forms of a model that other engines load; needs an interpreter with those engines.

python tools/bench/peer_models.py openvino EXPORT_FOLDER TARGET_FOLDER [CALIBRATION_TEXTS]
python tools/bench/peer_models.py llama-cpp SOURCE_FOLDER TARGET_FOLDER LLAMA_CPP_FOLDER

OpenVINO reads torch's export; from torch itself with fused attention, MiniLM is as fast. NNCF
quantizes weights alone, or also activations with one static scale each. llama.cpp's converter
quantizes to Q8_0.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


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
        samples = [{"input_ids": one, "attention_mask": np.ones_like(one)} for one in ids]
        kind, preset = nncf.ModelType.TRANSFORMER, nncf.QuantizationPreset.MIXED
        model = nncf.quantize(
            model, nncf.Dataset(samples), model_type=kind, preset=preset, subset_size=len(samples)
        )
    openvino.save_model(model, target / "model.xml", compress_to_fp16=False)


def llama_cpp(source: Path, target: Path, llama: Path) -> None:
    """Write a GGUF file with llama.cpp's converter."""
    sys.path[:0] = [str(llama), str(llama / "gguf-py")]
    import convert_hf_to_gguf  # noqa: PLC0415
    from conversion import gemma  # noqa: PLC0415

    if not (source / "tokenizer.model").exists():
        gemma.EmbeddingGemma.set_vocab = _vocabulary
    file = target / "model.gguf"
    sys.argv = ["", str(source), "--outfile", str(file), "--outtype", "q8_0"]
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
    kinds = {piece: 6 for piece in vocabulary if len(piece) == 6 and piece.startswith("<0x")}
    kinds |= {one["content"]: 3 if one["special"] else 4 for one in tokenizer["added_tokens"]}
    kinds["<unk>"] = 2
    pieces = sorted(vocabulary, key=vocabulary.__getitem__)
    writer = model.gguf_writer
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([piece.encode() for piece in pieces])
    writer.add_token_scores([-float(ranks.get(piece, 1e6)) for piece in pieces])
    writer.add_token_types([kinds.get(piece, 1) for piece in pieces])
    for name in ("bos", "eos", "pad", "unk"):
        getattr(writer, f"add_{name}_token_id")(vocabulary[f"<{name}>"])
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(True)
    writer.add_add_space_prefix(False)


if __name__ == "__main__":
    engine, *paths = sys.argv[1:]
    write: Callable[..., None] = llama_cpp if engine == "llama-cpp" else openvino
    write(*map(Path, paths))
