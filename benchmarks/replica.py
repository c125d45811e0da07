"""A structural replica of EmbeddingGemma: its shapes, its kind of tokenizer, random weights.

Speed and memory do not depend on the values of the weights, so the replica replaces the gated model
on machines that cannot reach a hub. It is a normal sentence-transformers folder: the compiler,
`transformers` and `sentence-transformers` can read it. A seed gives the same weights with every
version of numpy.

    python -m benchmarks.replica FOLDER [--small]
"""

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.gemma_tokenizer import gemma_tokenizer
from model_compiler.artifact.writer import new_folder

__all__ = ["EMBEDDING_GEMMA", "SMALL", "Shape", "write_replica"]

_CHUNK = 1 << 22  # Values drawn at a time: 16 MB, so that the generator needs little memory.


@dataclass(frozen=True)
class Shape:
    """The sizes of a Gemma 3 text encoder.

    Attributes:
        vocabulary: Number of tokens.
        hidden: Width of the residual stream.
        intermediate: Width of the gated feed-forward layer.
        layers: Number of blocks; every sixth attends fully, the others through a window.
        heads: Query heads, all of which share one key and value head.
        head: Width of a head.
        window: `sliding_window` as the configuration stores it.
        positions: The highest number of tokens in a text.
        dense: Width between the two Dense modules after pooling.
    """

    vocabulary: int
    hidden: int
    intermediate: int
    layers: int
    heads: int
    head: int
    window: int
    positions: int
    dense: int


# The published google/embeddinggemma-300m.
EMBEDDING_GEMMA = Shape(
    vocabulary=262_144,
    hidden=768,
    intermediate=1152,
    layers=24,
    heads=3,
    head=256,
    window=512,
    positions=2048,
    dense=3072,
)
# The same structure, small enough for a test.
SMALL = Shape(
    vocabulary=4096,
    hidden=96,
    intermediate=128,
    layers=6,
    heads=3,
    head=32,
    window=16,
    positions=2048,
    dense=384,
)

# The names in the published model's files.
PROMPTS = {
    "query": "task: search result | query: ",
    "document": "title: none | text: ",
    "BitextMining": "task: search result | query: ",
    "Clustering": "task: clustering | query: ",
    "Classification": "task: classification | query: ",
    "InstructionRetrieval": "task: code retrieval | query: ",
    "MultilabelClassification": "task: classification | query: ",
    "PairClassification": "task: sentence similarity | query: ",
    "Reranking": "task: search result | query: ",
    "Retrieval": "task: search result | query: ",
    "Retrieval-query": "task: search result | query: ",
    "Retrieval-document": "title: none | text: ",
    "STS": "task: sentence similarity | query: ",
    "Summarization": "task: summarization | query: ",
}


def write_replica(
    folder: Path, shape: Shape = EMBEDDING_GEMMA, *, seed: int = 0, word_files: int = 400
) -> Path:
    """Write the replica's folder unless it exists, and return it.

    Args:
        folder: The folder to write, completely or not at all.
        shape: The sizes; by default those of the published model.
        seed: The seed of all random numbers.
        word_files: Number of files of the standard library that provide the tokenizer's words.
    """
    if folder.exists():
        return folder
    with new_folder(folder, marker="modules.json") as unfinished:
        _write_weights(unfinished, shape, np.random.RandomState(seed))
        _write_descriptions(unfinished, shape)
        (unfinished / "tokenizer.json").write_bytes(
            gemma_tokenizer(tokens=shape.vocabulary, files=word_files)
        )
    return folder


def _write_weights(folder: Path, shape: Shape, generator: np.random.RandomState) -> None:
    _write_safetensors(folder / "model.safetensors", _tensors(shape), generator)
    for name, outputs, inputs in (
        ("2_Dense", shape.dense, shape.hidden),
        ("3_Dense", shape.hidden, shape.dense),
    ):
        (folder / name).mkdir()
        _write_safetensors(
            folder / name / "model.safetensors",
            {"linear.weight": ((outputs, inputs), inputs**-0.5)},
            generator,
        )
        _write_json(
            folder / name / "config.json",
            {
                "in_features": inputs,
                "out_features": outputs,
                "bias": False,
                "activation_function": "torch.nn.modules.linear.Identity",
            },
        )


def _tensors(shape: Shape) -> dict[str, tuple[tuple[int, ...], float]]:
    """Return each tensor's name, its shape and the standard deviation of its values.

    The deviations keep activations near one through the layers, as training would.
    """
    tensors: dict[str, tuple[tuple[int, ...], float]] = {
        "embed_tokens.weight": ((shape.vocabulary, shape.hidden), shape.hidden**-0.5)
    }
    queries = shape.heads * shape.head
    for i in range(shape.layers):
        layer = f"layers.{i}."
        for norm in (
            "input_layernorm",
            "post_attention_layernorm",
            "pre_feedforward_layernorm",
            "post_feedforward_layernorm",
        ):
            tensors[f"{layer}{norm}.weight"] = ((shape.hidden,), 0.3)
        for norm in ("q_norm", "k_norm"):
            tensors[f"{layer}self_attn.{norm}.weight"] = ((shape.head,), 0.3)
        for projection, outputs, inputs in (
            ("self_attn.q_proj", queries, shape.hidden),
            ("self_attn.k_proj", shape.head, shape.hidden),
            ("self_attn.v_proj", shape.head, shape.hidden),
            ("self_attn.o_proj", shape.hidden, queries),
            ("mlp.gate_proj", shape.intermediate, shape.hidden),
            ("mlp.up_proj", shape.intermediate, shape.hidden),
            ("mlp.down_proj", shape.hidden, shape.intermediate),
        ):
            tensors[f"{layer}{projection}.weight"] = ((outputs, inputs), inputs**-0.5)
    tensors["norm.weight"] = ((shape.hidden,), 0.3)
    return tensors


def _write_safetensors(
    path: Path,
    tensors: dict[str, tuple[tuple[int, ...], float]],
    generator: np.random.RandomState,
) -> None:
    """Draw and write tensors in chunks, in the safetensors format (float32)."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, (dimensions, _) in tensors.items():
        end = offset + 4 * int(np.prod(dimensions))
        header[name] = {"dtype": "F32", "shape": dimensions, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for dimensions, deviation in tensors.values():
            for chunk in _draw(int(np.prod(dimensions)), deviation, generator):
                chunk.tofile(file)


def _draw(
    count: int, deviation: float, generator: np.random.RandomState
) -> Iterator[npt.NDArray[np.float32]]:
    for start in range(0, count, _CHUNK):
        values = generator.standard_normal(min(_CHUNK, count - start)) * deviation
        yield values.astype(np.float32)


def _write_descriptions(folder: Path, shape: Shape) -> None:
    _write_json(folder / "config.json", _config(shape))
    modules = (
        ("", "Transformer"),
        ("1_Pooling", "Pooling"),
        ("2_Dense", "Dense"),
        ("3_Dense", "Dense"),
        ("4_Normalize", "Normalize"),
    )
    _write_json(
        folder / "modules.json",
        [
            {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for i, (path, kind) in enumerate(modules)
        ],
    )
    (folder / "1_Pooling").mkdir()
    _write_json(
        folder / "1_Pooling" / "config.json",
        {
            "word_embedding_dimension": shape.hidden,
            "pooling_mode_cls_token": False,
            "pooling_mode_mean_tokens": True,
            "pooling_mode_max_tokens": False,
            "pooling_mode_mean_sqrt_len_tokens": False,
            "pooling_mode_weightedmean_tokens": False,
            "pooling_mode_lasttoken": False,
            "include_prompt": True,
        },
    )
    (folder / "4_Normalize").mkdir()
    _write_json(
        folder / "sentence_bert_config.json",
        {"max_seq_length": shape.positions, "do_lower_case": False},
    )
    _write_json(
        folder / "config_sentence_transformers.json",
        {
            "model_type": "SentenceTransformer",
            "prompts": PROMPTS,
            "default_prompt_name": None,
            "similarity_fn_name": "cosine",
        },
    )
    _write_json(
        folder / "tokenizer_config.json",
        {
            "add_bos_token": True,
            "add_eos_token": True,
            "bos_token": "<bos>",
            "eos_token": "<eos>",
            "mask_token": "<mask>",
            "model_max_length": shape.positions,
            "pad_token": "<pad>",
            "padding_side": "right",
            "tokenizer_class": "GemmaTokenizer",
            "unk_token": "<unk>",
        },
    )


def _config(shape: Shape) -> dict[str, object]:
    """Return `config.json` with the keys of the published model's."""
    return {
        "_sliding_window_pattern": 6,
        "architectures": ["Gemma3TextModel"],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "attn_logit_softcapping": None,
        "bos_token_id": 2,
        "dtype": "float32",
        "eos_token_id": 1,
        "final_logit_softcapping": None,
        "head_dim": shape.head,
        "hidden_activation": "gelu_pytorch_tanh",
        "hidden_size": shape.hidden,
        "initializer_range": 0.02,
        "intermediate_size": shape.intermediate,
        "layer_types": [
            "sliding_attention" if (i + 1) % 6 else "full_attention" for i in range(shape.layers)
        ],
        "max_position_embeddings": shape.positions,
        "model_type": "gemma3_text",
        "num_attention_heads": shape.heads,
        "num_hidden_layers": shape.layers,
        "num_key_value_heads": 1,
        "pad_token_id": 0,
        "query_pre_attn_scalar": shape.head,
        "rms_norm_eps": 1e-06,
        "rope_local_base_freq": 10000.0,
        "rope_scaling": None,
        "rope_theta": 1000000.0,
        "sliding_window": shape.window,
        "transformers_version": "4.57.0.dev0",
        "use_bidirectional_attention": True,
        "use_cache": True,
        "vocab_size": shape.vocabulary,
    }


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def main() -> None:
    """Write the replica to the folder on the command line."""
    parser = argparse.ArgumentParser(description="Write a structural replica of EmbeddingGemma.")
    parser.add_argument("folder", type=Path, help="the sentence-transformers folder to write")
    parser.add_argument("--small", action="store_true", help="the same traits, in a small size")
    arguments = parser.parse_args()
    write_replica(arguments.folder, SMALL if arguments.small else EMBEDDING_GEMMA)


if __name__ == "__main__":
    main()
