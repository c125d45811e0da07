"""A new version of a reranker is compared with its golden pairs."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from embedder.core.artifact import GoldenPair, load_artifact
from embedder.core.settings import Settings
from embedder.http.http_types import Request
from embedder.http.router import build_router
from jobs.release_check.handler import Answer, ReleaseRefusedError, check_version
from model_compiler.compile import Options, compile_model
from model_compiler.fidelity.measure import Thresholds
from model_compiler.graph.builder import Precision
from model_compiler.source.find import find_source
from tests.model_compiler.goldens.reranker_models import write_reranker


def test_golden_pairs_are_compared(tmp_path: Path) -> None:
    """The artifact that is served passes, and one with another logit of a label is refused."""
    source = find_source(str(write_reranker(tmp_path / "model", labels=2)))
    options = Options(precision=Precision.FP32, thresholds=Thresholds(), progress=False)
    compile_model(source, tmp_path / "artifact", options)
    router = build_router(Settings(artifact=str(tmp_path / "artifact")))

    def call(method: str, path: str, body: Mapping[str, Any] | None) -> Answer:
        encoded = json.dumps(body).encode() if body is not None else b""
        response = router.handle(Request(method, path, body=encoded))
        return Answer(status=response.status, body=json.loads(response.body))

    manifest = load_artifact(tmp_path / "artifact").manifest
    assert manifest.fidelity["kendall_tau"] == 1
    assert manifest.fidelity["batch_difference_max"] == 0
    assert check_version(call, manifest, starts=2) == manifest.vector_space
    golden = manifest.golden[0]
    assert isinstance(golden, GoldenPair)
    wrong = golden._replace(logits=(golden.logits[0], golden.logits[1] + 1))
    with pytest.raises(ReleaseRefusedError, match=r"the logit of LABEL_1 differs .* by 1\.0"):
        check_version(call, manifest._replace(golden=(wrong,)), starts=1)
