"""LoRA adapters against peft: next to their base, alone, and those that cannot be merged."""

import json
import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from model_compiler.errors import CompilerError, SourceError, UnsupportedModelError
from model_compiler.source.find import find_source
from tests.model_compiler.conftest import embed_each
from tests.model_compiler.goldens.embedding_gemma2_model import TEXTS as GEMMA_TEXTS
from tests.model_compiler.goldens.embedding_gemma2_model import write_embedding_gemma2
from tests.model_compiler.goldens.files import edit_json
from tests.model_compiler.goldens.tiny_models import TEXTS
from tests.model_compiler.local_hub import COMMIT

GOLDEN = np.load(Path(__file__).resolve().parents[1] / "goldens" / "adapters.npz")
COMPOSITE = "embedding_gemma2"
NAMES = [name.removesuffix(": vectors") for name in GOLDEN.files if name.endswith(": vectors")]
NAMES.remove(COMPOSITE)
ENCODER_FILES = ("config.json", "model.safetensors")


def put_adapter(folder: Path, name: str = "names", **changes: Any) -> Path:
    """Write an adapter as peft saves it, and return its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "adapter_model.safetensors").write_bytes(GOLDEN[f"{name}: tensors"].tobytes())
    config = json.loads(str(GOLDEN[f"{name}: config"])) | changes
    (folder / "adapter_config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_vectors_are_those_of_peft(tiny_folder, compile_tiny, name):
    """Each way to select, scale and save gives the vectors of the adapted model."""
    vectors = embed_each(compile_tiny(put_adapter(tiny_folder, name)), TEXTS)
    np.testing.assert_allclose(vectors, GOLDEN[f"{name}: vectors"], atol=1e-6, rtol=0)


def test_an_adapter_of_a_composite(tmp_path, compile_tiny):
    """Of EmbeddingGemma 2, the model of texts is adapted; its towers are not read."""
    folder = put_adapter(write_embedding_gemma2(tmp_path / "model"), COMPOSITE)
    vectors = embed_each(compile_tiny(folder), GEMMA_TEXTS)
    np.testing.assert_allclose(vectors, GOLDEN[f"{COMPOSITE}: vectors"], atol=1e-5, rtol=0)


def test_an_adapter_alone(tiny_folder, tmp_path, compile_tiny):
    """With a local base, peft's folder and that of sentence-transformers give the same space."""
    own = put_adapter(tmp_path / "own", base_model_name_or_path=str(tiny_folder))
    saved = put_adapter(tmp_path / "saved", base_model_name_or_path="../tiny")
    shutil.copytree(
        tiny_folder, saved, dirs_exist_ok=True, ignore=lambda _, names: {*ENCODER_FILES} & {*names}
    )
    shutil.copytree(tiny_folder / "1_Pooling", saved / "1_Pooling", dirs_exist_ok=True)
    artifacts = [compile_tiny(folder) for folder in (own, saved)]
    artifacts.append(compile_tiny(put_adapter(tiny_folder)))
    assert len({artifact.manifest.vector_space for artifact in artifacts}) == 1
    assert [artifact.manifest.model.name for artifact in artifacts] == ["own", "saved", "tiny"]
    vectors = embed_each(artifacts[0], TEXTS)
    np.testing.assert_allclose(vectors, GOLDEN["names: vectors"], atol=1e-6, rtol=0)


def test_a_base_of_the_hub(served, tiny, tmp_path, compile_tiny):
    """A base is downloaded at the commit that the adapter states, and needs one."""
    folder = put_adapter(
        tmp_path / "own", base_model_name_or_path="acme/tiny", revision=served.commit
    )
    vectors = embed_each(compile_tiny(folder), TEXTS)
    np.testing.assert_allclose(vectors, GOLDEN["names: vectors"], atol=1e-6, rtol=0)
    for revision in (None, "main"):
        put_adapter(folder, base_model_name_or_path="acme/tiny", revision=revision)
        with pytest.raises(SourceError, match="must be the commit of the base acme/tiny"):
            find_source(str(folder))


def test_an_adapter_of_the_hub(served, tiny, tmp_path):
    """`inspect` knows the weights of both repositories without downloading them."""
    served.repositories["acme/own"] = put_adapter(
        tmp_path / "own", base_model_name_or_path="acme/tiny", revision=COMMIT
    )
    source = find_source("acme/own", descriptions=True)
    assert {"adapter_model.safetensors", "model.safetensors"} <= source.folder.files
    assert source.base == "acme/tiny"
    assert not any("safetensors" in path for path in served.paths())


def test_another_tokenizer(tiny_folder, tmp_path):
    """An adapter with a tokenizer that is not the base's is refused."""
    folder = put_adapter(tmp_path / "own", base_model_name_or_path=str(tiny_folder))
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(SourceError, match=r"must be .*tiny/tokenizer\.json, because .*own has no"):
        find_source(str(folder))


def test_a_base_with_an_adapter(tiny_folder, tmp_path):
    """One adapter on top of another is refused."""
    put_adapter(tiny_folder)
    folder = put_adapter(tmp_path / "own", base_model_name_or_path=str(tiny_folder))
    with pytest.raises(UnsupportedModelError, match="has an adapter itself"):
        find_source(str(folder))


def test_layers_that_are_selected(tiny_folder, compile_tiny):
    """A selection of all layers, with or without a pattern, is the adapter without one."""
    spaces = {
        compile_tiny(put_adapter(tiny_folder, **changes)).manifest.vector_space
        for changes in (
            {},
            {"layers_to_transform": [0, 1], "exclude_modules": "key"},
            {"layers_to_transform": [0, 1], "layers_pattern": ["layer"]},
        )
    }
    assert len(spaces) == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"use_dora": True}, "use_dora is true; .*merge_and_unload"),
        ({"peft_type": "IA3"}, 'peft_type is "IA3"; .*"LORA".*merge_and_unload'),
        ({"init_lora_weights": "pissa"}, 'init_lora_weights is "pissa"'),
        ({"trainable_token_indices": [1]}, r"trainable_token_indices is \[1\]"),
        ({"sparkle": 1}, "does not know: sparkle = 1"),
        ({"target_modules": ["key"]}, "target_modules must select .*query"),
        ({"target_modules": None}, "target_modules must be a string or a list"),
        ({"target_modules": "("}, "has a wrong pattern"),
        ({"exclude_modules": ["query"]}, "target_modules must select .*query"),
        ({"layers_to_transform": [0]}, r"target_modules must select .*layer\.1\."),
        ({"layers_to_transform": 1}, r"target_modules must select .*layer\.0\."),
        ({"layers_to_transform": [0, 1], "layers_pattern": "h"}, "must select .*query"),
        ({"layers_to_transform": ["x"]}, "an integer or a list of integers"),
        ({"lora_bias": True}, "must have A.weight and B.bias and B.weight, as adapter_config"),
        ({"rank_pattern": {"query": 3}}, "the rank 3 for a matrix of 2"),
        ({"alpha_pattern": {"query": "x"}}, "and the alpha x"),
        ({"r": 4}, "the rank 4 for a matrix of 2"),
        ({"alpha_pattern": [1]}, "must be objects"),
    ],
)
def test_settings_that_cannot_be_merged(tiny_folder, compile_tiny, changes, message):
    """Another kind, a variant, an unknown key or a contradiction is named."""
    with pytest.raises(CompilerError, match=message):
        compile_tiny(put_adapter(tiny_folder, **changes))


QUERY = "base_model.model.encoder.layer.0.attention.self.query."


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        (
            "base_model.model.classifier.weight",
            (2, 32),
            "classifier.weight must be one of the.*merge_and_unload",
        ),
        (f"{QUERY}lora_magnitude_vector.weight", (32,), "found A.weight, B.weight, magnitude"),
        (f"{QUERY}lora_A.weight", (2, 31), r"must have the shape \[2, 32\]; found \[2, 31\]"),
        (f"{QUERY}base_layer.bias", (31,), r"must have the shape \[32\]; found \[31\]"),
    ],
)
def test_tensors_that_do_not_fit(tiny_folder, compile_tiny, name, shape, message):
    """A tensor without a place in the base, or of another shape, is refused."""
    path = put_adapter(tiny_folder) / "adapter_model.safetensors"
    save_file(load_file(path) | {name: np.zeros(shape, np.float32)}, path)
    with pytest.raises(CompilerError, match=message):
        compile_tiny(tiny_folder)


LAYER = "encoder.layer.1.attention.self.query"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (lambda base: {f"base_model.model.{LAYER}.weight": base[f"{LAYER}.weight"]}, ""),
        (
            lambda base: {f"base_model.model.{LAYER}.weight": base[f"{LAYER}.weight"] + 1},
            rf"{LAYER}\.weight is not the base's, .*peft ignores it.*merge_and_unload",
        ),
        (lambda base: {f"{LAYER}.bias": base[f"{LAYER}.bias"] + 1}, rf"{LAYER}\.bias is not the"),
        (lambda base: {f"{LAYER}.base_layer.bias": base[f"{LAYER}.bias"] + 1}, ""),
        (lambda base: {"embeddings.LayerNorm.bias": base["embeddings.LayerNorm.bias"] + 1}, ""),
        (
            lambda base: {
                f"{prefix}{LAYER.replace('query', 'key')}.bias": base[f"{LAYER}.bias"]
                for prefix in ("", "base_model.model.")
            },
            rf"has {LAYER.replace('query', 'key')}\.bias twice",
        ),
    ],
)
@pytest.mark.parametrize("targets", [["query", "value"], "all-linear", ".*(query|value).*"])
def test_whole_tensors_next_to_an_adapter(tiny_folder, compile_tiny, targets, changes, message):
    """A layer with an adapter has its own tensors from the base; other layers may be replaced."""
    path = put_adapter(tiny_folder, target_modules=targets) / "adapter_model.safetensors"
    base = load_file(tiny_folder / "model.safetensors")
    save_file(load_file(path) | changes(base), path)
    with pytest.raises(CompilerError, match=message) if message else nullcontext():
        compile_tiny(tiny_folder)


def test_a_layer_that_is_selected_and_has_no_adapter(tiny_folder, compile_tiny):
    """Its plain tensor is refused too: peft has a layer there that looks for other names."""
    path = put_adapter(tiny_folder, target_modules=["query", "value", "key"])
    path /= "adapter_model.safetensors"
    name = LAYER.replace("query", "key")
    save_file(load_file(path) | {f"{name}.weight": np.ones((32, 32), np.float32)}, path)
    with pytest.raises(UnsupportedModelError, match=rf"{name}\.weight is not the base's"):
        compile_tiny(tiny_folder)


@pytest.mark.parametrize("alone", [False, True])
def test_an_adapter_that_is_a_pickle(tiny_folder, tmp_path, compile_tiny, alone):
    """The error has the line that converts it, and the base's own pickle plays no part."""
    folder = tiny_folder
    if alone:
        folder = put_adapter(tmp_path / "own", base_model_name_or_path=str(tiny_folder))
    else:
        put_adapter(folder)
    (folder / "pytorch_model.bin").touch()
    path = folder / "adapter_model.safetensors"
    path.rename(path.with_suffix(".bin"))
    message = (
        r"adapter_model\.bin is a pickle.* Convert it with: .*adapter_model\.bin', weights_only"
    )
    with pytest.raises(SourceError, match=message):
        compile_tiny(folder)


def test_a_file_without_an_adapter(tiny_folder, compile_tiny):
    """A whole model under the adapter's name is refused, also if it is the base's copy."""
    path = put_adapter(tiny_folder) / "adapter_model.safetensors"
    shutil.copy(tiny_folder / "model.safetensors", path)
    with pytest.raises(UnsupportedModelError, match="has no matrices of an adapter"):
        compile_tiny(tiny_folder)


def test_an_adapter_elsewhere(tiny_folder, compile_tiny):
    """An adapter in a folder that is not the encoder's, or next to an export alone, is refused."""
    put_adapter(tiny_folder / "1_Pooling")
    with pytest.raises(UnsupportedModelError, match=r"an adapter \(1_Pooling/.*besides its encod"):
        compile_tiny(tiny_folder)


def test_an_adapter_of_an_export(tiny_folder, compile_tiny):
    """Weights in an export are not changed by an adapter, and never taken without it."""
    put_adapter(tiny_folder)
    edit_json(tiny_folder / "config.json", model_type="deberta-v2")
    (tiny_folder / "model.onnx").write_bytes(b"")
    with pytest.raises(UnsupportedModelError, match="merges into safetensors and not into an exp"):
        compile_tiny(tiny_folder)
