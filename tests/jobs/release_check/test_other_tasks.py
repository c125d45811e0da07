"""A new version of a model of another kind is compared with its golden entries."""

from contextlib import nullcontext
from pathlib import Path

import pytest

from embedder.application import build_router
from embedder.core.artifact import GoldenPair, GoldenTerms, GoldenText, Manifest
from embedder.core.settings import EmbedderSettings
from jobs.release_check.handler import ReleaseRefusedError, check_spaces, check_version
from model_compiler.fidelity.measure import Thresholds
from tests.fixtures.small_artifact import small_artifact
from tests.jobs.release_check.conftest import Call, version_of
from tests.model_compiler.goldens.reranker_models import write_reranker
from tests.model_compiler.goldens.sparse_models import write_sparse


def served(model: Path) -> tuple[Call, Manifest]:
    """Compile and measure a model; return what calls it, and its manifest."""
    artifact = small_artifact(model, thresholds=Thresholds())
    return version_of(
        build_router(EmbedderSettings(artifact=str(artifact.folder)))
    ), artifact.manifest


@pytest.mark.parametrize(
    ("serving", "new", "differs"),
    [
        ("a", "a", False),
        ("a + rerank:b", "a + rerank:b", False),
        ("a + rerank:b", "a", False),
        ("a", "a + sparse:c", False),
        ("a + rerank:b", "a + rerank:c", True),
        ("a + rerank:b + sparse:c", "a + sparse:d", True),
        ("a + rerank:b", "c + rerank:b", True),
    ],
)
def test_the_spaces_of_all_models_that_two_versions_have_are_compared(serving, new, differs):
    """A model of another kind may be added or leave; stored vectors or scores are of none."""
    for compared in ({"serving": serving, "other": None}, {"serving": None, "other": serving}):
        with pytest.raises(ReleaseRefusedError) if differs else nullcontext():
            check_spaces(new=new, **compared)


def test_golden_pairs_are_compared(tmp_path):
    """The artifact that is served passes, and one with another logit of a label is refused."""
    call, manifest = served(write_reranker(tmp_path / "model", labels=2, saved={}))
    assert manifest.fidelity["kendall_tau"] == 1
    assert manifest.fidelity["batch_difference_max"] == 0
    assert check_version(call, manifest, starts=2) == manifest.vector_space
    golden = manifest.golden[0]
    assert isinstance(golden, GoldenPair)
    wrong = golden._replace(logits=(golden.logits[0], golden.logits[1] + 1))
    with pytest.raises(ReleaseRefusedError, match=r"the logit of LABEL_1 differs .* by 1\.0"):
        check_version(call, manifest._replace(golden=(wrong,)), starts=1)


def test_golden_texts_are_compared(tmp_path):
    """A classifier that is served passes, and one with another logit of a label is refused."""
    call, manifest = served(write_reranker(tmp_path / "model", labels=3))
    assert check_version(call, manifest, starts=2) == manifest.space
    golden = manifest.golden[0]
    assert isinstance(golden, GoldenText)
    wrong = golden._replace(logits=(golden.logits[0] + 1, *golden.logits[1:]))
    with pytest.raises(ReleaseRefusedError, match=r"the logit of LABEL_0 differs .* by 1\.0"):
        check_version(call, manifest._replace(golden=(wrong,)), starts=1)


def test_golden_weights_are_compared(tmp_path):
    """A sparse encoder with another weight of a token, or another token, is refused."""
    call, manifest = served(write_sparse(tmp_path / "model"))
    assert check_version(call, manifest, starts=2) == manifest.vector_space
    golden = manifest.golden[0]
    assert isinstance(golden, GoldenTerms)
    first, *others = golden.values
    other = golden._replace(values=(first + 1, *others))
    with pytest.raises(ReleaseRefusedError, match=rf"token {golden.indices[0]} differs .* by 1\.0"):
        check_version(call, manifest._replace(golden=(other,)), starts=1)
    # The model gives the text no weight for its own padding token.
    other = golden._replace(indices=(0, *golden.indices[1:]))
    with pytest.raises(ReleaseRefusedError, match="the weight of token 0 differs"):
        check_version(call, manifest._replace(golden=(other,)), starts=1)
