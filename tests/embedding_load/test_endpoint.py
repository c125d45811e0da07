"""A test of the real embedder in AWS's runtime."""

import json

import pytest

from embedding_load.__main__ import main
from local_function_url.endpoint import endpoint


@pytest.mark.slow
def test_the_embedder_reports_its_cold_start_and_counts_the_tokens(
    minilm_artifact, tmp_path, monkeypatch
):
    """The question before the test meets the cold start, and no request of the test does."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    url, _ = endpoint(minilm_artifact.folder)
    with url:
        options = ["--rate", "20", "--minutes", "0.05", "--report", str(tmp_path)]
        assert main(["--url", url.url, *options]) == 0
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["cold_starts"]["before_the_test"] is True
    assert report["cold_starts"]["requests"] == 0
    assert report["requests"]["ok"] == report["requests"]["sent"] > 0
    assert report["tokens"]["asked"] == report["tokens"]["counted"]
