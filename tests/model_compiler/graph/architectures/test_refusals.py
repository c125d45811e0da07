"""Settings and weights that a family's graph cannot express are refused by name."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from model_compiler.errors import CompilerError, SourceError, UnsupportedModelError
from model_compiler.files.config import ConfigFile
from model_compiler.graph import architectures
from model_compiler.model.folder import read_model_folder
from tests.model_compiler.goldens.families import write_family
from tests.model_compiler.goldens.files import edit_json
from tests.model_compiler.goldens.gte_model import write_own_gte
from tests.model_compiler.goldens.llama_model import LAYERS as QWEN_LAYERS
from tests.model_compiler.goldens.modernbert_model import LAYERS, NEWER
from tests.model_compiler.goldens.nomic_bert_model import write_own_nomic_bert

OWN_NOMIC = "nomic_bert, by its own code"
OWN_GTE = "gte, by its own code"
JINA = "jina_bert"
MOE = "nomic_bert with experts"
#: Writers of the models with names of their own code.
WRITERS: dict[str, Callable[[Path], Path]] = {
    OWN_NOMIC: write_own_nomic_bert,
    OWN_GTE: write_own_gte,
}
Cases = dict[str, list[tuple[dict[str, Any], str]]]

#: By family: changes of the configuration, and what the error says.
NOT_EXPRESSED: Cases = {
    "bert": [
        ({"hidden_act": "mish"}, "hidden_act 'mish' is not a supported activation"),
        ({"position_embedding_type": "relative_key"}, 'position_embedding_type is "relative_key"'),
        ({"is_decoder": True}, "is_decoder is true; the compiler can express false"),
        ({"is_encoder_decoder": True}, "is_encoder_decoder is true; the compiler can express fa"),
        ({"frobnicate": 3}, "does not know: frobnicate = 3"),
        ({"auto_map": {"AutoModel": "a.B"}}, "auto_map.AutoModel must name JinaBertModel; found"),
        (
            {"auto_map": {"AutoModel": "a.B"}, "model_type": "deberta"},
            "and model_type 'deberta' without it may be another model",
        ),
        (
            {"model_type": "bart"},
            "model_type 'bart' is not a supported architecture; the compiler supports albert",
        ),
    ],
    "jina_embeddings_v3": [
        ({"position_embedding_type": "absolute"}, 'can express "rotary" or null'),
        ({"auto_map": {"AutoModel": "a.B"}}, 'backend="onnx", trust_remote_code=True)'),
    ],
    JINA: [
        ({"architectures": ["JinaBertForSequenceClassification"]}, 'can express ["JinaBertModel"]'),
        ({"feed_forward_type": "reglu"}, 'is "reglu"; the compiler can express "geglu"'),
        ({"position_embedding_type": "absolute"}, 'the compiler can express "alibi"'),
    ],
    "mpnet": [
        ({"relative_attention_num_buckets": 64}, "buckets is 64; the compiler can express 32")
    ],
    "distilbert": [({"activation": "mish"}, "activation 'mish' is not a supported activation")],
    "roberta": [({"position_embedding_type": "relative_key"}, "position_embedding_type is")],
    "t5": [
        (
            {"feed_forward_proj": "gated-silu"},
            "is 'gated-silu'; the compiler can express 'relu' an",
        ),
        ({"dense_act_fn": "gelu"}, 'dense_act_fn is "gelu"; the compiler can express "relu"'),
        ({"relative_attention_max_distance": 64}, "distance is 64; the compiler can express 128"),
    ],
    OWN_NOMIC: [
        ({"rotary_scaling_factor": 2.0}, "is 2.0; the compiler can express null"),
        ({"rotary_emb_fraction": 0.5}, "is 0.5; the compiler can express 1.0"),
        ({"qkv_proj_bias": True}, "qkv_proj_bias is true; the compiler can express false"),
        ({"prenorm": True}, "prenorm is true"),
        ({"activation_function": "relu"}, 'is "relu"; the compiler can express "swiglu" or "gelu"'),
        ({"head_dim": 16}, "head_dim is 16; the compiler can express null or 8"),
        ({"rope_parameters": {"rope_type": "yarn"}}, "rope_parameters has rope_type = 'yarn'"),
        ({"num_experts": 8}, "num_experts is 8; the compiler can express 0 or null"),
    ],
    MOE: [
        ({"activation_function": "swiglu"}, "mlp_fc1_bias is true; the compiler can express false"),
        ({"qkv_proj_bias": False}, "qkv_proj_bias is false; the compiler can express true"),
        ({"mlp_fc1_bias": False}, "mlp_fc1_bias is false; the compiler can express true"),
        ({"num_shared_experts": 1}, "num_shared_experts is 1; the compiler can express 0"),
        ({"expert_choice_router": True}, "expert_choice_router is true; the compiler can expr"),
        ({"ffn_div": 2}, "ffn_div is 2; the compiler can express 1"),
        ({"moe_impl": "torch"}, 'moe_impl is "torch"; the compiler can express "megablocks"'),
    ],
    "gte": [
        ({"rope_scaling": {"type": "linear", "factor": 2}}, "can express the type 'ntk'"),
        ({"rope_parameters": {"rope_theta": 9, "rope_type": "yarn"}}, "rope_type = 'yarn'"),
        ({"auto_map": {"AutoModel": "code.OtherModel"}}, "NewModel or GteModel; found 'code.Oth"),
    ],
    OWN_GTE: [
        ({"auto_map": None}, "must name NewModel or GteModel; found no auto_map"),
        ({"layer_norm_type": "rms_norm"}, 'is "rms_norm"; the compiler can express "layer_norm"'),
        ({"logn_attention_scale": True}, "logn_attention_scale is true"),
        ({"pack_qkv": False}, "pack_qkv is false; the compiler can express true"),
        ({"position_embedding_type": "absolute"}, 'position_embedding_type is "absolute"'),
        ({"rope_scaling": {"factor": 8.0, "type": "ntk", "mixed_b": 0.6}}, "rope_scaling is"),
        ({"rope_parameters": {"rope_theta": 9}}, "rope_scaling is {"),
    ],
    "embedding_gemma2_text": [
        ({"attention_bias": True}, "attention_bias is true; the compiler can express false"),
        ({"hidden_activation": "mish"}, "hidden_activation 'mish' is not a supported activation"),
        ({"layer_types": ["chunked_attention"] * 6}, "layer_types has 'chunked_attention'"),
        ({"per_layer_config": {"5": {"skip": ["mlp"]}}}, 'does not know: skip = ["mlp"]'),
        (
            {"per_layer_config": {"1": {"head_dim": 32}}},
            "to all sliding layers, and to all full ones; found [(16, 2), (32, 2)]",
        ),
        (
            {"rope_parameters": {"full_attention": {"rope_type": "yarn", "factor": 8.0}}},
            "rope_parameters.full_attention has factor = 8.0",
        ),
    ],
    "embedding_gemma2": [
        ({"text_config": {"model_type": "gemma4_text"}}, 'model_type is "gemma4_text"; the compi'),
        ({"num_experts": 8}, "does not know: num_experts = 8"),
    ],
    "gemma3_text": [
        ({"num_key_value_heads": 3}, "num_key_value_heads is 3; the compiler can express 1"),
        ({"attention_bias": True}, "attention_bias is true"),
        ({"attn_logit_softcapping": 50.0}, "attn_logit_softcapping is 50.0"),
        ({"use_bidirectional_attention": False}, "use_bidirectional_attention is not true"),
        ({"hidden_activation": "silu"}, 'hidden_activation is "silu"; the compiler can express'),
        ({"rope_scaling": {"factor": 8.0}}, "rope_scaling is"),
        ({"layer_types": [["full_attention"]] * 6}, "layer_types has ['full_attention']"),
        ({"layer_types": ["chunked_attention"] * 6}, "layer_types has 'chunked_attention'"),
        (
            {"rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 8.0}}},
            "rope_parameters.full_attention has factor = 8.0",
        ),
    ],
    "modernbert": [
        ({"local_rope_theta": None}, "local_rope_theta is null"),
        ({"rope_scaling": {"factor": 8.0}}, "rope_scaling is"),
        ({"layer_types": ["chunked_attention"] * LAYERS}, "layer_types has 'chunked_attention'"),
        (
            {"rope_parameters": {"full_attention": {"rope_type": "yarn", "factor": 8.0}}},
            "rope_parameters.full_attention has factor = 8.0",
        ),
        ({"is_decoder": True}, "is_decoder is true; the compiler can express false"),
    ],
    "qwen3": [
        ({"use_sliding_window": True}, "use_sliding_window is true; the compiler can express fa"),
        (
            {"layer_types": ["sliding_attention"] * QWEN_LAYERS},
            'layer_types is ["sliding_attention"',
        ),
        ({"attention_bias": True}, "attention_bias is true"),
        ({"head_dim": 8}, "head_dim must be a multiple of 16"),
        ({"auto_map": {"AutoModel": "a.B"}}, "must name Qwen3BidirectionalModel; found 'a.B'"),
        (
            {"use_bidirectional_attention": True},
            "use_bidirectional_attention is true; the compiler can express false or null",
        ),
    ],
    "qwen2": [
        ({"use_sliding_window": True}, "use_sliding_window is true; the compiler can express fa"),
        ({"auto_map": {"AutoModel": "a.B"}}, "and model_type 'qwen2' without it may be another"),
    ],
    "mistral": [
        ({"head_dim": 8}, "head_dim must be a multiple of 16"),
        ({"layer_types": ["sliding_attention"] * 3}, 'layer_types is ["sliding_attention"'),
    ],
    "eurobert": [
        ({"auto_map": {"AutoModel": "a.B"}}, "auto_map.AutoModel must name EuroBertModel; found"),
        ({"mlp_bias": True}, "mlp_bias is true; the compiler can express false"),
        ({"attention_bias": True}, "attention_bias is true; the compiler can express false"),
    ],
}
WRONG: Cases = {
    "bert": [
        ({"hidden_size": 33}, "must be a multiple of num_attention_heads; found 33 and 4."),
        ({"hidden_size": "32"}, "hidden_size must be an integer of at least 1 and at most 2097152"),
        (
            {"num_hidden_layers": 0},
            "num_hidden_layers must be an integer of at least 1 and at most",
        ),
        ({"layer_norm_eps": None}, "layer_norm_eps is missing"),
        ({"layer_norm_eps": -1}, "layer_norm_eps must be a positive number; found -1"),
    ],
    "distilbert": [({"n_heads": 5}, "dim must be a multiple of n_heads; found 32 and 5.")],
    "roberta": [
        ({"pad_token_id": -1}, "pad_token_id must be an integer of at least 0 and at most"),
        ({"pad_token_id": "1"}, 'at least 0 and at most 2097152; found "1"'),
    ],
    "albert": [({"num_hidden_groups": None}, "num_hidden_groups is missing")],
    "electra": [({"embedding_size": None}, "embedding_size is missing")],
    "ernie": [
        ({"use_task_id": 1}, "use_task_id must be true or false; found 1"),
        ({"task_type_vocab_size": None}, "task_type_vocab_size is missing"),
    ],
    JINA: [
        ({"feed_forward_type": None}, "feed_forward_type is missing"),
        ({"num_attention_heads": 5}, "a multiple of num_attention_heads; found 48 and 5"),
    ],
    "mpnet": [({"max_position_embeddings": 2}, "is 2; positions are counted from 2, so none is")],
    OWN_NOMIC: [
        ({"n_head": 5}, "so that halves of heads can be rotated; found 32 and 5"),
        ({"n_layer": 10**9}, "n_layer must be an integer of at least 1 and at most 1000"),
        ({"n_positions": 10**9}, "n_positions must be an integer of at least 1 and at most"),
        ({"n_inner": None}, "intermediate_size is missing"),
    ],
    MOE: [
        ({"moe_top_k": 9}, "moe_top_k must be at most num_experts = 8; found 9"),
        ({"moe_top_k": 0}, "moe_top_k must be an integer of at least 1"),
        ({"moe_normalize_expert_weights": 2}, "must be true or false; found 2"),
    ],
    OWN_GTE: [
        ({"rope_scaling": {"factor": 0.5, "type": "ntk"}}, "factor must be a number of at least 1"),
        ({"rope_theta": None}, "rope_theta is missing"),
        ({"num_attention_heads": 5}, "so that halves of heads can be rotated; found 32 and 5"),
        ({"type_vocab_size": -1}, "type_vocab_size must be an integer of at least 0"),
    ],
    "embedding_gemma2_text": [
        ({"num_key_value_heads": 3}, "a multiple of num_key_value_heads of each layer; found 4 an"),
        ({"per_layer_config": {"6": {}}}, "6 must be a number below num_hidden_layers = 6"),
        ({"per_layer_config": {"5": {"head_dim": 1024}}}, "at least 1 and at most 512; found 1024"),
        ({"per_layer_config": {"5": {"head_dim": 15}}}, "head_dim must be even"),
        ({"per_layer_config": [5]}, "per_layer_config must be an object; found [5]"),
        ({"embedding_dim": None}, "embedding_dim is missing"),
        ({"sliding_window": "8"}, "sliding_window must be an integer of at least 1"),
    ],
    "embedding_gemma2": [({"text_config": None}, "text_config is missing")],
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
    "qwen2": [({"num_key_value_heads": None}, "num_key_value_heads is missing")],
    "mistral": [({"sliding_window": 0}, "sliding_window must be an integer of at least 1")],
    "qwen3": [
        ({"num_key_value_heads": 4}, "a multiple of num_key_value_heads; found 6 and 4"),
        ({"num_key_value_heads": None}, "num_key_value_heads is missing"),
        ({"head_dim": 15}, "head_dim must be even"),
        ({"is_causal": 0}, "is_causal must be true or false; found 0"),
        ({"rope_theta": None}, "rope_theta is missing"),
        ({"rope_parameters": {}}, "rope_parameters.rope_theta must be a positive number; found nu"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers must be an integer of at least 1 and at"),
        ({"max_position_embeddings": 10**12}, "at least 1 and at most 1048576"),
    ],
}
UNFIT: Cases = {
    "bert": [
        ({"intermediate_size": 65}, r"output\S+ has shape \[32, 64\]; .* \[32, 65\]"),
        ({"num_hidden_layers": 1}, "does not use: encoder.layer.1"),
        ({"num_hidden_layers": 3}, "no tensor 'encoder.layer.2.attention"),
        ({"num_hidden_layers": 1000}, "no tensor 'encoder.layer.2.attention"),
        ({"vocab_size": 78}, r"word_embeddings.weight has shape \[77, 32\]; .* \[78, 32\]"),
    ],
    "albert": [({"num_hidden_groups": 2}, "no tensor 'encoder.albert_layer_groups.1.albert_lay")],
    "electra": [({"embedding_size": 17}, r"LayerNorm.weight has shape \[16\]; .* \[17\]")],
    "ernie": [({"use_task_id": False}, "does not use: embeddings.task_type_embeddings.weight")],
    MOE: [
        ({"num_experts": 4}, r"mlp.w1 has shape \[512, 32\]; .* \[256, 32\]"),
        # No layer of the definition has experts then.
        ({"moe_every_n_layers": 1}, "no tensor 'encoder.layers.1.mlp.fc1.weight'"),
    ],
    "embedding_gemma2_text": [
        (
            {"hidden_size_per_layer_input": 25},
            r"projection.weight has shape \[144, 48\].*\[150, 48",
        ),
        ({"per_layer_config": {}}, r"q_norm.weight has shape \[32\]; .* \[16\]"),
        ({"intermediate_size": 65}, r"gate_proj.weight has shape \[64, 48\].*\[65, 48\]"),
    ],
    "gemma3_text": [
        ({"intermediate_size": 65}, r"gate_proj.weight has shape \[64, 48\].*\[65, 48\]")
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
    path = tmp_path / "model"
    return WRITERS[family](path) if family in WRITERS else write_family(path, family)


def refusal(folder: Path, changes: dict[str, Any]) -> CompilerError:
    """Return the error that a changed configuration raises."""
    edit_json(folder / "config.json", **changes)
    with pytest.raises(CompilerError) as refused:
        architectures.parse(ConfigFile(folder / "config.json"))
    return refused.value


@each_case(NOT_EXPRESSED)
def test_what_cannot_be_expressed_is_refused_by_name(folder, changes, message):
    """A setting that the graph cannot express is refused by name, with an alternative."""
    error = refusal(folder, changes)
    assert isinstance(error, UnsupportedModelError)
    assert message in str(error)
    assert 'An ONNX export of it would compile: SentenceTransformer(FOLDER, backend="onnx"' in str(
        error
    )


@each_case(WRONG)
def test_wrong_values_are_named(folder, changes, message):
    """The error names the key, the allowed values and the value found."""
    error = refusal(folder, changes)
    assert isinstance(error, SourceError)
    assert message in str(error)


@each_case(UNFIT)
def test_weights_that_do_not_fit_the_configuration(folder, changes, message):
    """A tensor of another shape, a missing and an unused one are named."""
    edit_json(folder / "config.json", **changes)
    with pytest.raises(CompilerError, match=message):
        read_model_folder(folder).check()
