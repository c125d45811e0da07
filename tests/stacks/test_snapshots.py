"""What each environment deploys, and what each switch changes, for reading in a review.

`pytest tests/stacks/test_snapshots.py --snapshot-update` writes them anew.
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
    """Write a template as YAML, without what only the CDK reads and without hashes of contents."""
    template = copy.deepcopy(template)
    resources = {
        name: {key: value for key, value in resource.items() if key != "Metadata"}
        for name, resource in sorted(template["Resources"].items())
    }
    for resource in resources.values():
        properties = resource.get("Properties", {})
        properties.pop("Tags", None)  # the same on all: a test of their own looks at them
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
    # A version's logical id, and the name of an export of it, have hashes of the image's content.
    return re.sub(
        r"(CurrentVersion\w{8})[0-9a-f]{32}(Version[0-9A-F]{8})?",
        lambda match: f"{match[1]}<version>{'Version' if match[2] else ''}",
        text,
    )


def _dashboard(body: dict[str, Any]) -> Any:
    """Read the dashboard's JSON, with each reference of the template as text in it."""
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
    """A change of a template is seen before it is deployed."""
    template = synthesized(environment).templates[stack]
    assert _readable(template) == snapshot(extension_class=_Yaml)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_switch_changes_this(synthesized, snapshot, variant):
    """Each switch is seen by what it changes of dev."""
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
    """A switch that is added is looked at."""
    assert set(environments) == {*ENVIRONMENTS, *VARIANTS, "all-together"}
