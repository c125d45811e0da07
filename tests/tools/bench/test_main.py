"""The command line of `scripts/bench`."""

from pathlib import Path

import pytest

from tools.bench.__main__ import main


def test_another_family_is_refused_before_anything_is_made(
    minilm_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The benchmark's export, texts and targets are EmbeddingGemma's."""
    monkeypatch.setattr("sys.argv", ["bench", "--quick", "--model", str(minilm_folder)])
    with pytest.raises(SystemExit):
        main()
    assert "is of the family bert; EmbeddingGemma's, gemma3_text, is measured" in (
        capsys.readouterr().err
    )


def test_what_is_no_model_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder without a configuration is an error that names the folder and the file."""
    monkeypatch.setattr("sys.argv", ["bench", "--model", str(tmp_path)])
    with pytest.raises(SystemExit):
        main()
    assert f"{tmp_path} is not a model's folder: config.json cannot be read" in (
        capsys.readouterr().err
    )
