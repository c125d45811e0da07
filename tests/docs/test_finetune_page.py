"""The page on your own fine-tune runs, from the saved folder to an endpoint of its artifact."""

import pytest

from stacks.environment_file import load_environment
from tests.model_compiler.goldens.tiny_models import write_model, write_router
from tools.local_endpoint.endpoint import endpoint

from .pages import BASH, FINETUNE, PYTHON, SERVED, blocks, run

TEXT = FINETUNE.read_text("utf-8")


@pytest.mark.slow
def test_the_commands_and_programs_run(tmp_path):
    """The folder is inspected and compiled with its report, and the endpoint has its space."""
    write_model(tmp_path / "my-model", new_files=True)
    said = [run([*BASH, block], tmp_path) for block in blocks(TEXT, "bash")]
    assert "my-model compiles from its weights" in said[0]
    assert "cosine to full precision, lowest" in said[1]
    running, _ = endpoint(tmp_path / "compiled")
    with running:
        program = "\n".join(blocks(TEXT, "python")).replace(SERVED, running.url)
        assert "bert@" in run([*PYTHON, program], tmp_path)


@pytest.mark.parametrize("block", blocks(TEXT, "toml"))
def test_the_settings_are_accepted(tmp_path, block):
    """A folder next to the environments and one of S3 need no name."""
    write_model(tmp_path / "my-model")
    write_router(tmp_path / "my-pair")
    (tmp_path / "environments").mkdir()
    (tmp_path / "environments" / "dev.toml").write_text(block)
    model = load_environment("dev", folder=tmp_path / "environments").model
    assert model.name in {"my-model", "2026-11-24", "my-pair"}
