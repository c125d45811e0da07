"""Settings and weights that a family's graph cannot express are refused by name."""

from pathlib import Path
from typing import Any

import pytest

from model_compiler.errors import CompilerError, SourceError, UnsupportedModelError
from model_compiler.files.config import ConfigFile
from model_compiler.graph import architectures
from tests.model_compiler.conftest import Compile, Edit
from tests.model_compiler.goldens.modernbert_model import LAYERS, NEWER
from tests.model_compiler.goldens.qwen3_model import LAYERS as QWEN_LAYERS
from tests.model_compiler.goldens.setting_changes import write_family

Cases = dict[str, list[tuple[dict[str, Any], str]]]

#: By family: changes of the configuration, and what the error says.
NOT_EXPRESSED: Cases = {
    "gemma3_text": [
        ({"num_key_value_heads": 3}, "num_key_value_heads is 3; the compiler can express 1"),
        ({"attention_bias": True}, "attention_bias is true"),
        ({"attn_logit_softcapping": 50.0}, "attn_logit_softcapping is 50.0"),
        ({"use_bidirectional_attention": False}, "use_bidirectional_attention is not true"),
        ({"hidden_activation": "silu"}, "hidden_activation is 'silu'"),
        ({"rope_scaling": {"factor": 8.0}}, "rope_scaling is"),
        ({"layer_types": [["full_attention"]] * 6}, "layer_types has ['full_attention']"),
        ({"layer_types": ["chunked_attention"] * 6}, "layer_types has 'chunked_attention'"),
        (
            {"rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 8.0}}},
            "rope_parameters.full_attention has factor = 8.0",
        ),
        ({"layer_scale": 0.5}, "settings that the compiler does not know: layer_scale = 0.5"),
    ],
    "modernbert": [
        ({"hidden_activation": "mish"}, "hidden_activation 'mish' is not a supported activation"),
        ({"local_rope_theta": None}, "local_rope_theta is null"),
        ({"rope_scaling": {"factor": 8.0}}, "rope_scaling is"),
        ({"layer_types": ["chunked_attention"] * LAYERS}, "layer_types has 'chunked_attention'"),
        (
            {"rope_parameters": {"full_attention": {"rope_type": "yarn", "factor": 8.0}}},
            "rope_parameters.full_attention has factor = 8.0",
        ),
        ({"is_decoder": True}, "is_decoder is true; the compiler can express false"),
        ({"layer_scale": 0.5}, "settings that the compiler does not know: layer_scale = 0.5"),
    ],
    "qwen3": [
        ({"hidden_act": "mish"}, "hidden_act 'mish' is not a supported activation"),
        ({"use_sliding_window": True}, "use_sliding_window is true; the compiler can express fa"),
        (
            {"layer_types": ["sliding_attention"] * QWEN_LAYERS},
            'layer_types is ["sliding_attention"',
        ),
        ({"attention_bias": True}, "attention_bias is true"),
        ({"head_dim": 8}, "head_dim must be a multiple of 16"),
        ({"rope_scaling": {"factor": 4.0, "type": "yarn"}}, "rope_scaling is"),
        (
            {"rope_parameters": {"rope_theta": 1e6, "rope_type": "yarn"}},
            "rope_parameters has rope_type = 'yarn'",
        ),
        ({"is_causal": False}, "settings that the compiler does not know: is_causal = false"),
    ],
}
WRONG: Cases = {
    "gemma3_text": [
        ({"layer_types": ["full_attention"]}, "a list of num_hidden_layers = 6 names"),
        ({"rope_theta": -1}, "rope_theta must be a positive number; found -1"),
        ({"rope_parameters": []}, "rope_parameters must be an object"),
        (
            {"rope_parameters": {"full_attention": {"rope_theta": "big"}}},
            'rope_parameters.full_attention.rope_theta must be a positive number; found "big"',
        ),
        ({"head_dim": 15}, "head_dim must be even"),
        ({"sliding_window": None}, "sliding_window is missing"),
        (
            {"num_hidden_layers": 10**9, "layer_types": None},
            "num_hidden_layers must be an integer of at least 1 and at most 1000; found 1000000000",
        ),
        ({"max_position_embeddings": 10**12}, "at least 1 and at most 1048576"),
        ({"head_dim": 10**12}, "head_dim must be an integer of at least 1 and at most 512"),
    ],
    "modernbert": [
        ({"num_attention_heads": 5}, "a multiple of twice num_attention_heads"),
        ({**NEWER, "layer_types": ["full_attention"]}, "a list of num_hidden_layers = 7 names"),
        ({"global_rope_theta": -1}, "global_rope_theta must be a positive number; found -1"),
        ({"rope_parameters": {"full_attention": 3}}, "full_attention must be an object; found 3"),
        ({"norm_eps": None}, "norm_eps is missing"),
        ({"norm_bias": "no"}, 'norm_bias must be true or false; found "no"'),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers must be an integer of at least 1 and at"),
        ({"max_position_embeddings": 10**12}, "at least 1 and at most 1048576"),
    ],
    "qwen3": [
        ({"num_key_value_heads": 4}, "a multiple of num_key_value_heads; found 6 and 4"),
        ({"num_key_value_heads": None}, "num_key_value_heads is missing"),
        ({"head_dim": 15}, "head_dim must be even"),
        ({"rope_theta": None}, "rope_theta is missing"),
        ({"rope_parameters": {}}, "rope_parameters.rope_theta must be a positive number; found nu"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers must be an integer of at least 1 and at"),
        ({"max_position_embeddings": 10**12}, "at least 1 and at most 1048576"),
    ],
}
UNFIT: Cases = {
    "gemma3_text": [
        ({"intermediate_size": 65}, r"gate_proj.weight has shape \[64, 48\].*\[65, 48\]"),
    ],
    "modernbert": [
        ({"intermediate_size": 65}, r"mlp.Wi.weight has shape \[128, 48\].*\[130, 48\]"),
        ({"norm_bias": True}, r"no tensor 'embeddings.norm.bias'"),
        ({"num_hidden_layers": 6}, "does not use: layers.6"),
    ],
    "qwen3": [
        ({"intermediate_size": 65}, r"gate_proj.weight has shape \[64, 48\].*\[65, 48\]"),
        ({"num_hidden_layers": 2}, "does not use: layers.2"),
        ({"num_hidden_layers": 4}, "no tensor 'layers.3.input_layernorm.weight'"),
    ],
}


def each_case(cases: Cases) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        ("family", "changes", "message"),
        [(family, *case) for family, listed in cases.items() for case in listed],
    )


@pytest.fixture
def folder(tmp_path: Path, family: str) -> Path:
    return write_family(tmp_path / "model", family)


def refusal(folder: Path, edit_json: Edit, changes: dict[str, Any]) -> CompilerError:
    """Return the error that a changed configuration raises."""
    edit_json(folder / "config.json", **changes)
    with pytest.raises(CompilerError) as refused:
        architectures.parse(ConfigFile(folder / "config.json"))
    return refused.value


@each_case(NOT_EXPRESSED)
def test_what_cannot_be_expressed_is_refused_by_name(
    folder: Path, edit_json: Edit, changes: dict[str, Any], message: str
) -> None:
    """A setting that the graph cannot express is an error that names it."""
    error = refusal(folder, edit_json, changes)
    assert isinstance(error, UnsupportedModelError)
    assert message in str(error)


@each_case(WRONG)
def test_wrong_values_are_named(
    folder: Path, edit_json: Edit, changes: dict[str, Any], message: str
) -> None:
    """The error names the key, the allowed values and the value found."""
    error = refusal(folder, edit_json, changes)
    assert isinstance(error, SourceError)
    assert message in str(error)


@each_case(UNFIT)
def test_weights_that_do_not_fit_the_configuration(
    folder: Path, edit_json: Edit, compile_tiny: Compile, changes: dict[str, Any], message: str
) -> None:
    """A tensor of another shape, a missing and an unused one are named."""
    edit_json(folder / "config.json", **changes)
    with pytest.raises(CompilerError, match=message):
        compile_tiny(folder)
