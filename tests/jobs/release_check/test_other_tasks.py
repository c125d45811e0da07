"""A new version of a reranker or a sparse encoder is compared with its golden entries."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from embedder.core.artifact import GoldenPair, GoldenTerms, Manifest, load_artifact
from embedder.core.settings import Settings
from embedder.http.http_types import Request
from embedder.http.router import build_router
from jobs.release_check.handler import Answer, ReleaseRefusedError, check_version
from model_compiler.compile import Options, compile_model
from model_compiler.fidelity.measure import Thresholds
from model_compiler.graph.builder import Precision
from model_compiler.source.find import find_source
from tests.model_compiler.goldens.reranker_models import write_reranker
from tests.model_compiler.goldens.sparse_models import write_sparse

Call = Callable[[str, str, Mapping[str, Any] | None], Answer]


def served(model: Path, artifact: Path) -> tuple[Call, Manifest]:
    """Compile and measure a model; return what calls it, and its manifest."""
    options = Options(precision=Precision.FP32, thresholds=Thresholds(), progress=False)
    compile_model(find_source(str(model)), artifact, options)
    router = build_router(Settings(artifact=str(artifact)))

    def call(method: str, path: str, body: Mapping[str, Any] | None) -> Answer:
        encoded = json.dumps(body).encode() if body is not None else b""
        response = router.handle(Request(method, path, body=encoded))
        return Answer(status=response.status, body=json.loads(response.body))

    return call, load_artifact(artifact).manifest


def test_golden_pairs_are_compared(tmp_path: Path) -> None:
    """The artifact that is served passes, and one with another logit of a label is refused."""
    call, manifest = served(write_reranker(tmp_path / "model", labels=2), tmp_path / "artifact")
    assert manifest.fidelity["kendall_tau"] == 1
    assert manifest.fidelity["batch_difference_max"] == 0
    assert check_version(call, manifest, starts=2) == manifest.vector_space
    golden = manifest.golden[0]
    assert isinstance(golden, GoldenPair)
    wrong = golden._replace(logits=(golden.logits[0], golden.logits[1] + 1))
    with pytest.raises(ReleaseRefusedError, match=r"the logit of LABEL_1 differs .* by 1\.0"):
        check_version(call, manifest._replace(golden=(wrong,)), starts=1)


def test_golden_weights_are_compared(tmp_path: Path) -> None:
    """A sparse encoder with another weight of a token, or another token, is refused."""
    call, manifest = served(write_sparse(tmp_path / "model"), tmp_path / "artifact")
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
