"""Compare what each file of environments/ deploys with its snapshot, without AWS and Docker.

A file without a snapshot gets one, to be committed. With the variable CI, as in GitHub Actions, it
is an error, as is a difference.
"""

import argparse
import copy
import difflib
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import yaml

from embedding_kit.image_identity import build_arguments
from embedding_kit.programs import exit_with
from embedding_kit.settings import ModelSettings, ModelSource
from embedding_kit.settings.model import s3_place
from stacks.environment import EnvironmentSettings
from stacks.environment_file import load_environment
from tools.synthesis import Stack, synthesize

_ENVIRONMENTS = Path(__file__).resolve().parents[1] / "environments"
_COMMAND = "scripts/test-environments"
_HEAD = f"""\
# What {{}} deploys, written by {_COMMAND}.
# Without hashes of code and of models, which change with their files.
"""
_Source = TypeVar("_Source", bound=ModelSource)
_Synthesize = Callable[[EnvironmentSettings], Sequence[Stack]]


def main(
    arguments: Sequence[str] | None = None,
    *,
    folder: Path = _ENVIRONMENTS,
    synthesize: _Synthesize = synthesize,
) -> int:
    """Compare or write the snapshots; return 1 if a file or its snapshot is not as it must be."""
    parser = argparse.ArgumentParser(prog=_COMMAND, description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="a file, without .toml; or all")
    parser.add_argument("--update", action="store_true", help="write the snapshots again")
    options = parser.parse_args(arguments)
    templates = {
        file.stem for pattern in ("*.toml", "__snapshots__/*.yaml") for file in folder.glob(pattern)
    }
    failed = False
    for name in options.names or sorted(templates):
        try:
            for line in _compare(name, folder, synthesize, update=options.update):
                print(line)
        except (ValueError, FileNotFoundError) as error:
            print("\n".join(f"error: {line}" for line in str(error).splitlines()), file=sys.stderr)
            failed = True
    return int(failed)


def _compare(name: str, folder: Path, synthesize: _Synthesize, *, update: bool) -> Iterator[str]:
    """Compare a file with its snapshot, or write it; yield the lines to print.

    Raises:
        ValueError: The file has mistakes, or deploys something else than the snapshot says.
        FileNotFoundError: A model's folder does not exist.
    """
    file, snapshot = folder / f"{name}.toml", folder / "__snapshots__" / f"{name}.yaml"
    of_file, shown = (path.relative_to(folder.parent) for path in (file, snapshot))
    before = snapshot.read_text(encoding="utf-8") if snapshot.exists() else None
    if before is not None and not file.exists():
        if not update:
            raise ValueError(f"there is no {of_file} for {shown}; {_COMMAND} --update deletes it")
        snapshot.unlink()
        yield f"{name}: deleted {shown}"
        return
    environment = load_environment(name, folder=folder, licensed=False)
    if environment.branch_of:
        raise ValueError(
            f"a branch has no snapshot; found: {name}; allowed: {environment.branch_of}"
        )
    yield from _unaccepted(environment)
    after = _HEAD.format(of_file) + _whole(environment, synthesize)
    if before == after:
        yield f"{name}: as in {shown}"
    elif update or (before is None and os.environ.get("CI", "").lower() in {"", "0", "false"}):
        snapshot.parent.mkdir(exist_ok=True)
        snapshot.write_text(after, encoding="utf-8")
        yield f"{name}: wrote {shown}; look at it and commit it"
    elif before is None:
        raise ValueError(f"there is no {shown}; {_COMMAND} {name} writes it: commit it")
    else:
        lines_before, lines_after = before.splitlines(), after.splitlines()
        yield from difflib.unified_diff(
            lines_before, lines_after, str(shown), str(of_file), lineterm=""
        )
        raise ValueError(
            f"{of_file} deploys something else than {shown} says; if it should: "
            f"{_COMMAND} {name} --update"
        )


def _unaccepted(environment: EnvironmentSettings) -> Iterator[str]:
    for source in (source for model in environment.models.values() for source in model.sources):
        terms = source.license_to_accept
        if terms and source.accept_license != terms:
            yield (
                f"{environment.name}: a deploy refuses {source.name} without "
                f'accept_license = "{terms}"'
            )


def _whole(environment: EnvironmentSettings, synthesize: _Synthesize) -> str:
    """Return an environment's builds and stacks in YAML.

    No folder of S3 is read: it need not be on this machine.
    """
    with TemporaryDirectory() as empty:
        models = {
            table: _without_s3(model, Path(empty)) for table, model in environment.models.items()
        }
        built = {table: _built(model) for table, model in models.items()}
        stacks = synthesize(environment.model_copy(update=models))
    documents = [_as_yaml({"Built": built})]
    for stack in stacks:
        properties = {
            "Environment": stack.place,
            "TerminationProtection": stack.protected,
            "Tags": _tags(stack.template),
        }
        documents += [f"--- # {stack.name}\n", _as_yaml(properties), readable(stack.template)]
    return "".join(documents)


def _without_s3(source: _Source, empty: Path) -> _Source:
    """Return a model with an empty folder in the place of one in S3, and so its companions."""
    changes: dict[str, Any] = {}
    if source.folder and s3_place(source.folder):
        changes["folder"] = empty
    if isinstance(source, ModelSettings):
        changes |= {name: _without_s3(model, empty) for name, model in source.companions.items()}
    return source.model_copy(update=changes)


def _built(model: ModelSettings) -> dict[str, Any]:
    """Return the choices that an image or a zip is built with."""
    arguments: dict[str, Any] = dict(build_arguments(model))
    arguments["MODELS"] = json.loads(arguments["MODELS"])
    if "FILES" in arguments:
        arguments["FILES"] = "<asset>"
    if model.hub_token_variable:
        arguments["HUB_TOKEN_VARIABLE"] = model.hub_token_variable
    return arguments


def _tags(template: dict[str, Any]) -> dict[str, str]:
    """Return the tags that any resource of a template has."""
    tags_by_key: dict[str, str] = {}
    for resource in template["Resources"].values():
        tags = resource.get("Properties", {}).get("Tags", {})
        tags_by_key |= (
            tags if isinstance(tags, dict) else {tag["Key"]: tag["Value"] for tag in tags}
        )
    return dict(sorted(tags_by_key.items()))


class _Dumper(yaml.CSafeDumper):
    """Write a mapping in one line only if it is short, so that a diff shows each change."""

    def represent_mapping(self, tag: Any, mapping: Any, flow_style: Any = None) -> Any:
        node = super().represent_mapping(tag, mapping, flow_style)
        node.flow_style = node.flow_style and len(str(mapping)) < 80
        return node


def _as_yaml(value: object) -> str:
    text: str = yaml.dump(
        # A copy in which no two values are one object, which YAML would write as an alias.
        json.loads(json.dumps(value)),
        Dumper=_Dumper,
        sort_keys=False,
        width=120,
        default_flow_style=None,
    )
    return text


def readable(template: dict[str, Any]) -> str:
    """Return a template in YAML that a person can review.

    It is without the CDK's metadata, hashes of assets, and tags, which all resources share.
    """
    resources = copy.deepcopy(template["Resources"])
    for resource in resources.values():
        resource.pop("Metadata", None)
        resource.get("Properties", {}).pop("Tags", None)
    outputs = {
        name: {key: value for key, value in output.items() if key != "Export"}
        # Those of the CDK come last, in the order of its tokens, which depends on earlier stacks.
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
    text = re.sub(r"\b[0-9a-f]{64}\b", "<asset>", _as_yaml(shown))
    # A version's logical id and the name of its export contain hashes of the image.
    return re.sub(
        r"(CurrentVersion\w{8})[0-9a-f]{32}(Version[0-9A-F]{8})?",
        lambda match: f"{match[1]}<version>{'Version' if match[2] else ''}",
        text,
    )


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


if __name__ == "__main__":
    exit_with(main)
