"""The page of all settings, and the JSON Schema that it is made from."""

import re
import sys
import tomllib
from contextlib import nullcontext
from pathlib import Path

import jsonschema
import pytest

from stacks.descriptions import export_schema, kinds
from stacks.environment import EnvironmentSettings
from stacks.environment_file import EnvironmentFileError, load_environment

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENTS = sorted((ROOT / "tests" / "fixtures" / "environments").glob("*.toml"))
sys.path.insert(0, str(ROOT / "docs"))

from settings_page import page_rows  # noqa: E402 - docs/ is on the path only here

SCHEMA = export_schema(EnvironmentSettings)


@pytest.mark.parametrize("name", ["reranker", "sparse"])
def test_a_table_that_refers_to_the_model_has_its_settings(name):
    """`As in [model]` is true: names, types, defaults and descriptions are the same."""
    settings = SCHEMA["properties"]
    (table,), (model,) = (kinds(settings[one]).values() for one in (name, "model"))
    rows = [row for row in page_rows(table) if not row.startswith("|`kind`|")]
    assert rows
    assert set(rows) <= set(page_rows(model))


@pytest.mark.parametrize("path", ENVIRONMENTS, ids=lambda path: path.stem)
def test_an_environments_file_names_the_schema_and_is_valid(path):
    """An editor finds the schema by the first line, and reports no error in the shipped files."""
    text = path.read_text(encoding="utf-8")
    assert text.splitlines()[0] == "#:schema ./environment.schema.json"
    jsonschema.validate(tomllib.loads(text), SCHEMA)


@pytest.mark.parametrize("path", ENVIRONMENTS, ids=lambda path: path.stem)
def test_a_setting_in_a_comment_is_valid_without_the_sign(path, tmp_path):
    """Each block of such lines alone, and all of them with the terms of the model accepted."""
    text = path.read_text(encoding="utf-8")
    found = [*re.finditer(r"(?:^# (?:\[.+\]|\w+ = .+)\n)+", text, re.MULTILINE)]
    assert found
    whole = text
    for block in found:
        shown = re.sub("^# ", "", block[0], flags=re.MULTILINE)
        whole = whole.replace(block[0], shown)
        (tmp_path / path.name).write_text(text.replace(block[0], shown))
        load_environment(path.stem, folder=tmp_path, licensed=False)
    (tmp_path / path.name).write_text(whole)
    load_environment(path.stem, folder=tmp_path)


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ("[release]\nallow_vector_space_change = true", True),
        ('[release]\nkind = "canary"\npercent = 20', True),
        ('[release]\nkind = "canary"\nmemory_mb = 1', False),
        ("[cold_start]\nminimum = 2", False),
        ('[function]\ntimeout = "30"', False),
        ("[function]\nmemory_mb = 64", False),
        ("[functions]\nmemory_mb = 128", False),
        ('name = "other"', False),
        ('[callers]\nprincipals = ["o-a1b2c3d4e5"]', True),
    ],
)
def test_the_schema_agrees_with_the_types(tmp_path, text, valid):
    """An editor accepts what synth accepts, and marks unknown keys and values out of range."""
    path = tmp_path / "test.toml"
    path.write_text(f'{text}\n[model]\nname = "BAAI/bge-small-en-v1.5"\n')
    assert jsonschema.Draft7Validator(SCHEMA).is_valid(tomllib.loads(path.read_text())) is valid
    with nullcontext() if valid else pytest.raises(EnvironmentFileError):
        load_environment("test", folder=tmp_path)
