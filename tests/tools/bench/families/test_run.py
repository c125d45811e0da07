"""The measurements of a family, on the artifact of a real model."""

import sys
from pathlib import Path

from embedder.core.artifact import Artifact
from tools.bench.contenders import KIT, Contender
from tools.bench.families.run import SHORT_TEXTS, folder_megabytes, latency, starts
from tools.bench.measure import Request


def test_each_contender_has_a_time_and_a_peak(minilm_artifact: Artifact) -> None:
    """The texts are tokenized by the contender."""
    contender = Contender(KIT, "Embedding Kit", Path(minilm_artifact.folder), sys.executable)
    present = {"one": contender, "another": contender}
    requests: dict[str, Request] = {
        "one": (["some text"], []),
        "another": (["some text", "another"], []),
    }
    assert all(took > 0 for took in latency(present, requests, runs=1).values())
    started = starts(present, requests, count=1)
    assert list(started) == ["one", "another"]
    assert all(row["cpu"] > 0 and row["peak"] > 10 for row in started.values())


def test_the_short_texts_differ_in_length() -> None:
    """They have between 4 and 24 tokens."""
    assert len(SHORT_TEXTS) == 64
    assert (min(SHORT_TEXTS), max(SHORT_TEXTS)) == (4, 24)


def test_the_size_of_a_folder(tmp_path: Path) -> None:
    """Files in folders count."""
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "weights").write_bytes(b"0" * 1_500_000)
    (tmp_path / "manifest").write_bytes(b"0" * 500_000)
    assert folder_megabytes(tmp_path) == 2.0
