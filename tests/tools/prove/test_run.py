"""The environment of a run."""

from pathlib import Path

import pytest

from embedding_kit.environment_file import load_environment
from tools.prove.run import derived

ROOT = Path(__file__).resolve().parents[3]
PARTS = """
[function]
memory_mb = 2048
reserved_concurrency = 5

[alarms]
emails = ["ops@example.com"]

[batch]
input = "s3://texts/"
output = "s3://vectors/"

[budget]
monthly_usd = 1.0

[index]
"""


def _load(content: str, folder: Path):
    folder.joinpath("x-prove.toml").write_text(
        derived(content, account="111122223333", region="eu-central-1")
    )
    return load_environment("x-prove", folder=folder)


@pytest.mark.parametrize("name", ["dev", "staging", "production"])
def test_a_shipped_environment_becomes_one_that_can_be_deleted(name, tmp_path):
    """It names the account, and keeps what is measured."""
    text = (ROOT / "environments" / f"{name}.toml").read_text()
    (tmp_path / f"{name}.toml").write_text(text.replace("# accept_license", "accept_license"))
    source = load_environment(name, folder=tmp_path)
    made = _load((tmp_path / f"{name}.toml").read_text(), tmp_path)
    assert (made.account, made.region) == ("111122223333", "eu-central-1")
    assert (made.removal_policy, made.termination_protection) == ("destroy", False)
    assert made.model == source.model
    assert made.function.memory_mb == source.function.memory_mb
    assert (made.budget, made.function.reserved_concurrency) == (None, None)
    assert getattr(made.cold_start, "kind", None) == getattr(source.cold_start, "kind", None)
    assert getattr(made.cold_start, "schedule", ()) == ()


def test_parts_that_are_not_measured_are_left_out(tmp_path):
    """The index is measured; a place in the file gives way to that of the credentials."""
    head = '\ufeffregion = "us-east-1"\n[model]\nname = "BAAI/bge-small-en-v1.5"\n'
    made = _load(head + PARTS, tmp_path)
    assert (made.batch, made.budget, made.alarms.emails) == (None, None, ())
    assert made.index is not None
    assert made.region == "eu-central-1"
