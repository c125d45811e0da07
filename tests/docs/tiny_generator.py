"""Writes a language model with random weights in the form of ONNX Runtime GenAI: OUTPUT SEED.

One layer of attention without weights over the embeddings of bytes, and the same embeddings as the
output. What it says has no meaning, but it depends on all that it has read.
https://onnxruntime.ai/docs/genai/reference/config.html
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WIDTH = 16
#: The bytes, as GPT-2's alphabet writes them, and the tokens of the chat template.
CONTROL = ["<|im_start|>", "<|im_end|>"]
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def alphabet() -> list[str]:
    """Return a printable character for each byte."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(byte if byte in kept else next(others)) for byte in range(256)]


def graph(vocabulary: int, seed: int) -> onnx.ModelProto:
    """Return the decoder: float32, with the keys and values of earlier tokens as inputs."""
    random = np.random.default_rng(seed)
    table = random.normal(size=(vocabulary, WIDTH)).astype(np.float32)
    weights = {"table": table, "transposed": table.T.copy(), "axes": np.array([1])}
    integer, number, value = TensorProto.INT64, TensorProto.FLOAT, helper.make_tensor_value_info
    inputs = [
        value("input_ids", integer, ["batch", "tokens"]),
        value("attention_mask", integer, ["batch", "all"]),
        value("past_key_values.0.key", number, ["batch", 1, "past", WIDTH]),
        value("past_key_values.0.value", number, ["batch", 1, "past", WIDTH]),
    ]
    outputs = [
        value("logits", number, ["batch", "tokens", vocabulary]),
        value("present.0.key", number, ["batch", 1, "all", WIDTH]),
        value("present.0.value", number, ["batch", 1, "all", WIDTH]),
    ]
    node = helper.make_node
    nodes = [
        node("Gather", ["table", "input_ids"], ["embedded"]),
        node("Unsqueeze", ["embedded", "axes"], ["heads"]),
        node("Concat", ["past_key_values.0.key", "heads"], ["present.0.key"], axis=2),
        node("Concat", ["past_key_values.0.value", "heads"], ["present.0.value"], axis=2),
        node("Transpose", ["present.0.key"], ["turned"], perm=[0, 1, 3, 2]),
        node("MatMul", ["heads", "turned"], ["scores"]),
        node("Softmax", ["scores"], ["parts"], axis=-1),
        node("MatMul", ["parts", "present.0.value"], ["read"]),
        node("Squeeze", ["read", "axes"], ["hidden"]),
        node("MatMul", ["hidden", "transposed"], ["logits"]),
    ]
    made = helper.make_graph(
        nodes,
        "tiny",
        inputs,
        outputs,
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def write(folder: Path, seed: int) -> None:
    """Write the model, its configuration and its tokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    tokens = [*alphabet(), *CONTROL]
    onnx.save(graph(len(tokens), seed), folder / "model.onnx")
    end = len(tokens) - 1
    decoder = {
        "session_options": {"provider_options": []},
        "filename": "model.onnx",
        "head_size": WIDTH,
        "hidden_size": WIDTH,
        "num_attention_heads": 1,
        "num_hidden_layers": 1,
        "num_key_value_heads": 1,
        "inputs": {
            "input_ids": "input_ids",
            "attention_mask": "attention_mask",
            "past_key_names": "past_key_values.%d.key",
            "past_value_names": "past_key_values.%d.value",
        },
        "outputs": {
            "logits": "logits",
            "present_key_names": "present.%d.key",
            "present_value_names": "present.%d.value",
        },
    }
    model = {
        "type": "llama",
        "bos_token_id": end,
        "eos_token_id": end,
        "pad_token_id": end,
        "context_length": 4096,
        "vocab_size": len(tokens),
        "decoder": decoder,
    }
    added = [
        {"id": 256 + place, "content": token, "special": True, "single_word": False}
        | {"lstrip": False, "rstrip": False, "normalized": False}
        for place, token in enumerate(CONTROL)
    ]
    bytes_alone = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    files = {
        "genai_config": {"model": model, "search": {"max_length": 4096}},
        "tokenizer": {
            "version": "1.0",
            "added_tokens": added,
            "pre_tokenizer": bytes_alone | {"use_regex": True},
            "decoder": bytes_alone,
            "model": {
                "type": "BPE",
                "vocab": {token: number for number, token in enumerate(tokens)},
                "merges": [],
            },
        },
        "tokenizer_config": {
            "tokenizer_class": "GPT2Tokenizer",
            "eos_token": CONTROL[1],
            "chat_template": TEMPLATE,
            "add_prefix_space": False,
        },
    }
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content), "utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]), int(sys.argv[2]))
