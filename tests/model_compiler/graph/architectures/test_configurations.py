"""How the configuration of some families is read, where vectors alone do not show it."""

from model_compiler.graph.architectures import gemma3, llama, modernbert
from tests.model_compiler.conftest import opened
from tests.model_compiler.goldens.families import write_family
from tests.model_compiler.goldens.files import edit_json


def test_layers_follow_the_pattern_where_none_are_listed(tmp_path):
    """Every n-th layer attends fully, and the others slide."""
    path = write_family(tmp_path / "model", "gemma3_text") / "config.json"
    edit_json(path, layer_types=None, _sliding_window_pattern=3)
    sliding = gemma3.parse(opened(path)).sliding
    assert sliding == (True, True, False, True, True, False)


def test_the_width_of_heads_has_transformers_default(tmp_path):
    """Without `head_dim` it is 128, whatever the hidden size and the number of heads are."""
    path = write_family(tmp_path / "model", "qwen3") / "config.json"
    edit_json(path, head_dim=None)
    assert llama.parse_qwen3(opened(path)).head_size == 128


def test_a_base_that_is_missing_is_taken_from_the_older_key(tmp_path):
    """As in transformers: `rope_parameters`, then the older key, then the family's default."""
    path = write_family(tmp_path / "model", "modernbert") / "config.json"
    edit_json(path, rope_parameters={"full_attention": {"rope_theta": 5}}, local_rope_theta=7)
    parsed = modernbert.parse(opened(path))
    assert parsed.rope_bases == {False: 5, True: 7}
    edit_json(path, lambda config: {key: config[key] for key in config if "theta" not in key})
    assert modernbert.parse(opened(path)).rope_bases[True] == 10_000
