"""The parts that only ModernBERT has: its limit, and how its configuration is read."""

from pathlib import Path

import pytest

from embedder.core.engine import Engine
from model_compiler.graph.architectures import modernbert
from tests.model_compiler.conftest import Compile, Edit
from tests.model_compiler.goldens.modernbert_model import (
    LENGTHS,
    POSITIONS,
    TEXTS,
    write_modernbert,
)
from tests.model_compiler.graph.architectures.conftest import opened


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of the plain model, which the test may change."""
    return write_modernbert(tmp_path / "model")


def test_texts_are_cut_at_the_limit(folder: Path, compile_tiny: Compile) -> None:
    """The limit is the number of positions, and the goldens are on both sides of it."""
    engine = Engine.load(compile_tiny(folder), truncate="right")
    texts = [TEXTS[length] for length in (319, 320, 321)]
    assert engine.embed(texts).tokens == [319, POSITIONS, POSITIONS]
    assert max(LENGTHS) > POSITIONS


def test_the_window_is_read_as_transformers_reads_it(folder: Path) -> None:
    """The stored width covers both sides: with 16, a token attends to 8 on each side."""
    parsed = modernbert.parse(opened(folder / "config.json"))
    assert parsed.reach == 8
    assert parsed.sliding == (False, True, True, False, True, True, False)


def test_a_base_that_is_missing_is_taken_from_the_older_key(folder: Path, edit_json: Edit) -> None:
    """As in transformers: `rope_parameters`, then the older key, then the family's default."""
    path = folder / "config.json"
    edit_json(path, rope_parameters={"full_attention": {"rope_theta": 5}}, local_rope_theta=7)
    parsed = modernbert.parse(opened(path))
    assert parsed.rope_bases == {False: 5, True: 7}
    edit_json(path, lambda config: {key: config[key] for key in config if "theta" not in key})
    assert modernbert.parse(opened(path)).rope_bases[True] == 10_000
