"""Snapshots of what dev deploys, and of each environment's and switch's difference.

A difference is one from dev, or from the switch that another one needs.

`pytest tests/stacks/test_snapshots.py --snapshot-update` writes them again.
"""

import copy
import difflib
import json
import re
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from stacks.names import stacks_of_file

STACKS = ("repository", "endpoint", "observability")
ENVIRONMENTS = ("staging", "production")
SWITCHES = (
    "alias",
    "batch",
    "callers",
    "canary",
    "existing",
    "existing-bucket",
    "front",
    "index",
    "ingest",
    "linear",
    "network",
    "own-key",
    "placed",
    "private-front",
    "provisioned",
    "reserved",
    "server",
    "snapstart",
    "standby",
    "told",
    "vector-space-change",
    "watch",
    "watched",
    "weights",
    "zip",
    "zip-s3",
)
#: The switches without which others have no effect.
BASES = {"standby": "ingest"}


class _Yaml(SingleFileSnapshotExtension):
    file_extension = "yaml"
    _write_mode = WriteMode.TEXT


class _Diff(_Yaml):
    file_extension = "diff"


class _Dumper(yaml.CSafeDumper):
    """Write a mapping in one line only if it is short, so that a diff shows each change."""

    def represent_mapping(self, tag: Any, mapping: Any, flow_style: Any = None) -> Any:
        node = super().represent_mapping(tag, mapping, flow_style)
        node.flow_style = node.flow_style and len(str(mapping)) < 80
        return node


def _readable(template: dict[str, Any], environment: str) -> list[str]:
    """Format a template as lines of YAML that a person can review.

    It is without the CDK's metadata and content hashes, and with NAME for the environment's name.
    """
    resources = copy.deepcopy(template["Resources"])
    for resource in resources.values():
        resource.pop("Metadata", None)
        # The same in all stacks; a separate test checks them.
        resource.get("Properties", {}).pop("Tags", None)
    outputs = {
        name: {key: value for key, value in output.items() if key != "Export"}
        # Those of the CDK come last, in the order of its tokens, which depends on earlier tests.
        for name, output in sorted(
            template.get("Outputs", {}).items(),
            key=lambda item: item[0] if item[0].startswith("PublishOutput") else "",
        )
    }
    shown = {
        "Description": template["Description"],
        "Resources": _folded(dict(sorted(resources.items()))),
        "Outputs": _folded(outputs),
    }
    for resource in shown["Resources"].values():
        if resource["Type"] == "AWS::CloudWatch::Dashboard":
            properties = resource["Properties"]
            properties["DashboardBody"] = json.loads(properties["DashboardBody"])
    text = yaml.dump(
        # A copy in which no two values are one object, which YAML would write as an alias.
        json.loads(json.dumps(shown)),
        Dumper=_Dumper,
        sort_keys=False,
        width=120,
        default_flow_style=None,
    )
    text = re.sub(r"\b[0-9a-f]{64}\b", "<asset>", text)
    # A version's logical id and the name of its export contain hashes of the image.
    text = re.sub(
        r"(CurrentVersion\w{8})[0-9a-f]{32}(Version[0-9A-F]{8})?",
        lambda match: f"{match[1]}<version>{'Version' if match[2] else ''}",
        text,
    )
    # A generated physical name ends with a hash of the construct's path, which has the name.
    name = rf"EmbeddingKit{environment}(\w+?(?:-Release-)?)[0-9A-F]{{8}}\b"
    text = re.sub(name, r"EmbeddingKitNAME\1<hash>", text)
    return re.sub(rf"\b{environment}\b", "NAME", text).splitlines()


#: CloudFormation's functions as text, such as `${Topic}`, `${Role.Arn}` and `${Stack.Output}`.
_FUNCTIONS: dict[str, Callable[[Any], str]] = {
    "Ref": lambda name: f"${{{name}}}",
    "Fn::GetAtt": lambda path: f"${{{'.'.join(path)}}}",
    "Fn::GetStackOutput": lambda output: f"${{{output['StackName']}.{output['OutputName']}}}",
    "Fn::Split": lambda arguments: f"{arguments[1]} split at {arguments[0]}",
    "Fn::Select": lambda arguments: f"${{part {arguments[0]} of {arguments[1]}}}",
    "Fn::Sub": str,
    "Fn::Join": lambda arguments: arguments[0].join(arguments[1]),
}


def _folded(value: Any) -> Any:
    """Replace the functions in a part of a template by their text."""
    if isinstance(value, list):
        return [_folded(item) for item in value]
    if not isinstance(value, dict):
        return value
    folded = {key: _folded(item) for key, item in value.items()}
    name = next(iter(folded), "")
    return _FUNCTIONS[name](folded[name]) if name in _FUNCTIONS else folded


@pytest.mark.parametrize("name", ["dev", *ENVIRONMENTS, *SWITCHES])
def test_the_stacks_are_known_from_the_file(synthesized, environments, name):
    """Others of the environment that are deployed are left from tables that the file had."""
    known = [stack.rpartition("-")[2].lower() for stack in stacks_of_file(environments[name])]
    assert sorted(known) == sorted(synthesized(name).templates)


@pytest.mark.parametrize("stack", STACKS)
def test_dev_deploys_this(synthesized, snapshot, stack):
    """The snapshot shows a change of a template before it is deployed."""
    text = "\n".join(_readable(synthesized("dev").templates[stack], "dev"))
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
            _readable(before[stack], "dev") if stack in before else [],
            _readable(after[stack], environment) if stack in after else [],
            fromfile=f"{base} {stack}",
            tofile=f"{name} {stack}",
            lineterm="",
        )
    ]
    # Line numbers would change with every line above them.
    text = "\n".join("@@" if line.startswith("@@") else line for line in lines)
    assert text == snapshot(extension_class=_Diff)


def test_every_variant_has_a_snapshot(environments):
    """Every environment and variant has a snapshot."""
    assert set(environments) == {"dev", *ENVIRONMENTS, *SWITCHES, "all-together"}
