"""Models of other kinds than embedding models."""

from pathlib import Path

import pytest

from model_compiler.errors import UnsupportedModelError
from model_compiler.model.kind import check_kind
from tests.model_compiler.conftest import Compile, Edit


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("CrossEncoder", "is a cross-encoder: it scores pairs of texts and has no embeddings"),
        ("SparseEncoder", "is a sparse encoder"),
    ],
)
def test_kinds_that_sentence_transformers_names(
    tiny_folder: Path, compile_tiny: Compile, edit_json: Edit, kind: str, message: str
) -> None:
    """The configuration of sentence-transformers 5 and later names the kind."""
    edit_json(tiny_folder / "config_sentence_transformers.json", model_type=kind)
    with pytest.raises(UnsupportedModelError, match=message):
        compile_tiny(tiny_folder)


def test_a_cross_encoder_of_older_versions(tiny_folder: Path, edit_json: Edit) -> None:
    """A classifier without a list of modules is one; with a list it may be a mere checkpoint."""
    edit_json(tiny_folder / "config.json", architectures=["BertForSequenceClassification"])
    check_kind(tiny_folder)
    (tiny_folder / "modules.json").unlink()
    with pytest.raises(UnsupportedModelError, match="is a cross-encoder"):
        check_kind(tiny_folder)


@pytest.mark.parametrize("folder", [".", "0_Transformer"])
def test_an_adapter(tiny_folder: Path, compile_tiny: Compile, folder: str) -> None:
    """Weights that an adapter would change are refused with the way to merge it."""
    (tiny_folder / folder).mkdir(exist_ok=True)
    (tiny_folder / folder / "adapter_config.json").write_text("{}")
    with pytest.raises(UnsupportedModelError, match=r"has an adapter .*merge_and_unload"):
        compile_tiny(tiny_folder)


def test_an_embedding_model(tiny_folder: Path, edit_json: Edit) -> None:
    """The kind of embedding models, a missing or a damaged file are no reason to reject."""
    check_kind(tiny_folder)
    edit_json(tiny_folder / "config_sentence_transformers.json", model_type="SentenceTransformer")
    check_kind(tiny_folder)
    edit_json(tiny_folder / "config_sentence_transformers.json", model_type=["CrossEncoder"])
    check_kind(tiny_folder)
    (tiny_folder / "config.json").write_text("{")
    (tiny_folder / "config_sentence_transformers.json").unlink()
    check_kind(tiny_folder)
