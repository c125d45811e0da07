"""Snapshots of what dev deploys, and of each environment's and switch's difference.

A difference is one from dev, or from the switch that another one needs.

`pytest tests/stacks/test_snapshots.py --snapshot-update` writes them again.
"""

import difflib
import re
from typing import Any

import pytest
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from stacks.names import stacks_of_file
from tools.environment_snapshots import readable

from .conftest import VARIANTS

STACKS = ("repository", "endpoint", "observability")
ENVIRONMENTS = ("staging", "production")
#: All switches at once are for the checks of a synth: their difference would repeat the others.
SWITCHES = sorted(VARIANTS.keys() - {"all-together"})
#: The switches without which others have no effect.
BASES = {"standby": "ingest"}


class _Yaml(SingleFileSnapshotExtension):
    file_extension = "yaml"
    _write_mode = WriteMode.TEXT


class _Diff(_Yaml):
    file_extension = "diff"


def _lines(template: dict[str, Any], environment: str) -> list[str]:
    """Return the lines of a readable template, with NAME for the environment's name."""
    # A generated physical name ends with a hash of the construct's path, which has the name.
    name = rf"EmbeddingKit{environment}(\w+?(?:-Release-)?)[0-9A-F]{{8}}\b"
    text = re.sub(name, r"EmbeddingKitNAME\1<hash>", readable(template))
    return re.sub(rf"\b{environment}\b", "NAME", text).splitlines()


@pytest.mark.parametrize("name", ["dev", *ENVIRONMENTS, *SWITCHES])
def test_the_stacks_are_known_from_the_file(synthesized, environments, name):
    """Others of the environment that are deployed are left from tables that the file had."""
    parts_of_file = [
        stack.rpartition("-")[2].lower() for stack in stacks_of_file(environments[name])
    ]
    assert sorted(parts_of_file) == sorted(synthesized(name).templates)


@pytest.mark.parametrize("stack", STACKS)
def test_dev_deploys_this(synthesized, snapshot, stack):
    """The snapshot shows a change of a template before it is deployed."""
    text = "\n".join(_lines(synthesized("dev").templates[stack], "dev"))
    assert text == snapshot(extension_class=_Yaml)


@pytest.mark.parametrize("name", [*ENVIRONMENTS, *SWITCHES])
def test_this_differs_from_dev(synthesized, snapshot, name):
    """The snapshot shows the difference of another environment, or of one switch, from dev."""
    base = BASES.get(name, "dev")
    before, after = synthesized(base).templates, synthesized(name).templates
    environment = name if name in ENVIRONMENTS else "dev"
    lines = [
        line
        for stack in (*STACKS, *sorted(after.keys() - {*STACKS}))
        for line in difflib.unified_diff(
            _lines(before[stack], "dev") if stack in before else [],
            _lines(after[stack], environment) if stack in after else [],
            fromfile=f"{base} {stack}",
            tofile=f"{name} {stack}",
            lineterm="",
        )
    ]
    # Line numbers would change with every line above them.
    text = "\n".join("@@" if line.startswith("@@") else line for line in lines)
    assert text == snapshot(extension_class=_Diff)
