"""Snapshots of what each environment deploys and what each switch changes, for code reviews.

`pytest tests/stacks/test_snapshots.py --snapshot-update` writes them again.
"""

import copy
import difflib
import json
import re
from typing import Any

import pytest
import yaml
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

ENVIRONMENTS = ("dev", "staging", "production")
STACKS = ("repository", "endpoint", "observability")
VARIANTS = (
    "alias",
    "callers",
    "canary",
    "linear",
    "placed",
    "provisioned",
    "reserved",
    "snapstart",
    "told",
    "vector-space-change",
    "weights",
)


class _Yaml(SingleFileSnapshotExtension):
    file_extension = "yaml"
    _write_mode = WriteMode.TEXT


class _Diff(_Yaml):
    file_extension = "diff"


def _readable(template: dict[str, Any]) -> str:
    """Format a template as YAML, without the CDK's metadata and without content hashes."""
    template = copy.deepcopy(template)
    resources = {
        name: {key: value for key, value in resource.items() if key != "Metadata"}
        for name, resource in sorted(template["Resources"].items())
    }
    for resource in resources.values():
        properties = resource.get("Properties", {})
        properties.pop("Tags", None)  # The same in all stacks; a separate test checks them.
        if "DashboardBody" in properties:
            properties["DashboardBody"] = _dashboard(properties["DashboardBody"])
    shown = {
        "Description": template["Description"],
        "Resources": resources,
        "Outputs": {
            name: {key: value for key, value in output.items() if key != "Export"}
            for name, output in template["Outputs"].items()
        },
    }
    text = yaml.safe_dump(
        json.loads(json.dumps(shown)), sort_keys=False, width=120, default_flow_style=None
    )
    text = re.sub(r"\b[0-9a-f]{64}\b", "<asset>", text)
    # A version's logical id and the name of its export contain hashes of the image.
    return re.sub(
        r"(CurrentVersion\w{8})[0-9a-f]{32}(Version[0-9A-F]{8})?",
        lambda match: f"{match[1]}<version>{'Version' if match[2] else ''}",
        text,
    )


def _dashboard(body: dict[str, Any]) -> Any:
    """Parse the dashboard's JSON, with the template's references as text."""
    parts = body["Fn::Join"][1]
    text = "".join(part if isinstance(part, str) else _reference(part) for part in parts)
    return json.loads(text)


def _reference(part: dict[str, Any]) -> str:
    (value,) = part.values()
    if isinstance(value, dict):
        value = value["OutputName"]
    return "${" + (value if isinstance(value, str) else value[0]) + "}"


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_an_environment_deploys_this(synthesized, snapshot, environment, stack):
    """The snapshot shows a change of a template before it is deployed."""
    template = synthesized(environment).templates[stack]
    assert _readable(template) == snapshot(extension_class=_Yaml)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_switch_changes_this(synthesized, snapshot, variant):
    """The snapshot shows each switch's difference from dev."""
    before, after = synthesized("dev").templates, synthesized(variant).templates
    lines = [
        line
        for stack in STACKS
        for line in difflib.unified_diff(
            _readable(before[stack]).splitlines(),
            _readable(after[stack]).splitlines(),
            fromfile=f"dev {stack}",
            tofile=f"{variant} {stack}",
            lineterm="",
        )
    ]
    # Line numbers would change with every line above them.
    text = "\n".join("@@" if line.startswith("@@") else line for line in lines)
    assert text == snapshot(extension_class=_Diff)


def test_every_variant_has_a_snapshot(environments):
    """Every variant has a snapshot."""
    assert set(environments) == {*ENVIRONMENTS, *VARIANTS, "all-together"}
