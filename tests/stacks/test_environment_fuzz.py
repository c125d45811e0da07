"""Test that any content of an environment file gives an environment or a helpful error."""

import math
from pathlib import Path
from typing import Any

import pytest
import tomlkit
from hypothesis import given
from hypothesis import strategies as some

from stacks.descriptions import export_schema, kinds
from stacks.environment import EnvironmentSettings
from stacks.environment_file import EnvironmentFileError, load_environment


def _keys(table: dict[str, Any]) -> set[str]:
    keys = set(table.get("properties", {}))
    for setting in table.get("properties", {}).values():
        for group in kinds(setting.get("items", setting)).values():
            keys |= _keys(group)
    return keys


KEYS = some.sampled_from(sorted(_keys(export_schema(EnvironmentSettings)))) | some.text(max_size=5)
PLAIN = (
    some.booleans()
    | some.integers(-(2**40), 2**40)
    | some.floats()
    | some.sampled_from(
        [
            "9999999999d",
            "999999999d",
            "../x",
            "none",
            "snapstart",
            "provisioned",
            "canary",
            "linear",
            "weights",
            "alias",
            "30s",
            "1h",
        ]
    )
    | some.text(max_size=8)
)
VALUES = some.recursive(
    PLAIN,
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@pytest.fixture(scope="session")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("fuzz") / "environments"


@given(content=some.dictionaries(KEYS, VALUES, max_size=5))
def test_no_content_is_a_traceback(folder, content):
    """Every error names the file, the key and the values allowed; no other exception occurs."""
    content.setdefault("model", {"name": "any/model"})
    folder.mkdir(exist_ok=True)
    (folder / "test.toml").write_text(tomlkit.dumps(content), encoding="utf-8")
    try:
        environment = load_environment("test", folder=folder)
    except EnvironmentFileError as error:
        lines = str(error).splitlines()
        assert all(line.startswith("environments/test.toml") for line in lines)
        assert all("allowed" in line or "is not TOML" in line for line in lines)
    else:
        assert math.isfinite(environment.function.timeout.total_seconds())
