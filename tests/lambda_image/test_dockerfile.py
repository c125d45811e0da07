"""The Dockerfile: linted, native in its build stages, at one with what the local runtime runs."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from local_function_url import endpoint

ROOT = Path(__file__).resolve().parents[2]
IMAGE = ROOT / "lambda_image"
DOCKERFILE = IMAGE / "Dockerfile"


@pytest.fixture(scope="module")
def stages() -> list[list[str]]:
    """The Dockerfile's instructions, by stage, continued lines joined and comments gone."""
    text = "\n".join(
        line for line in DOCKERFILE.read_text().splitlines() if not line.lstrip().startswith("#")
    )
    instructions = [
        line.strip() for line in re.sub(r"\\\n", " ", text).splitlines() if line.strip()
    ]
    found: list[list[str]] = []
    for instruction in instructions:
        if instruction.startswith("FROM "):
            found.append([])
        if found:
            found[-1].append(instruction)
    return found


def test_hadolint_finds_nothing():
    """Each exception stands in the file, before the line that it is for."""
    hadolint = Path(sys.prefix) / "bin" / "hadolint"
    done = subprocess.run([hadolint, DOCKERFILE], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("", 0)


def test_the_last_stage_only_copies(stages):
    """A RUN there would run under emulation when an x86 machine builds for ARM64."""
    kinds = [instruction.split()[0] for instruction in stages[-1]]
    assert set(kinds) == {"FROM", "COPY", "CMD"}


def test_the_base_of_arm64_is_an_argument():
    """`base_image` replaces the tag by a digest; only the deployed stage starts from it."""
    lines = DOCKERFILE.read_text().splitlines()
    argument = "ARG BASE_IMAGE=public.ecr.aws/lambda/python:3.13-arm64"
    # Before the first stage, or no FROM would know it.
    assert lines.index(argument) < lines.index("FROM $BASE_IMAGE AS base-arm64")
    assert not [line for line in lines[: lines.index(argument)] if line.startswith("FROM")]


def test_every_run_is_native(stages):
    """Stages that run something start from the building machine's own platform."""
    names = {stage[0].split()[-1]: stage[0] for stage in stages}
    for stage in stages:
        if any(instruction.startswith("RUN") for instruction in stage):
            base = stage[0].split()[1]
            start = names.get(base, stage[0])
            assert "--platform=$BUILDPLATFORM" in start, stage[0]


def test_layers_stand_in_the_order_of_their_change(stages):
    """Dependencies, then the model, then the code: a change of code sends the last layer only."""
    copies = [line.split()[1] for line in stages[-1] if line.startswith("COPY")]
    assert copies == ["--from=dependencies", "--from=model", "--from=code"]


def test_the_image_runs_the_handler_that_the_local_runtime_runs(stages):
    """One handler, behind Lambda's URL and behind the local one."""
    (command,) = (line for line in stages[-1] if line.startswith("CMD"))
    (local,) = re.findall(r'handler="([\w.]+)"', Path(endpoint.__file__).read_text())
    assert command == f'CMD ["{local}"]'


def test_the_image_installs_what_the_local_runtime_runs(stages):
    """The runtime's pins are the pins of the environment that the tests and the local URL use."""
    dependencies = next(stage for stage in stages if stage[0].endswith(" dependencies"))
    assert "COPY requirements.txt" in " ".join(dependencies)
    assert "--requirement requirements.txt" in " ".join(dependencies)
    here = _pins(ROOT / "requirements.txt")
    image = _pins(IMAGE / "requirements.txt")
    assert image
    assert {name: here.get(name) for name in image} == image


def test_models_are_compiled_with_the_versions_that_are_tested(stages):
    """What compiles in the image is what compiles in the tests."""
    here = _pins(ROOT / "requirements.txt")
    compiler = _pins(IMAGE / "compiler-requirements.txt")
    assert {name: here.get(name) for name in compiler} == compiler


def test_the_image_compiles_with_all_that_the_compiler_needs():
    """The names are those of the package's own extra; a new dependency is not forgotten."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = {Requirement(line).name for line in project["optional-dependencies"]["compiler"]}
    written = {
        line.strip()
        for line in (IMAGE / "compiler-requirements.in").read_text().splitlines()
        if line.strip() and not line.startswith(("#", "-"))
    }
    assert {name.replace("-", "_") for name in written} == {
        name.replace("-", "_") for name in needed
    }


def test_the_artifact_lies_where_the_embedder_looks_for_it():
    """The embedder's defaults are the image's layout."""
    from embedder.settings import Settings

    artifact = Path(Settings.from_env({"LAMBDA_TASK_ROOT": "/var/task"}).artifact)
    text = DOCKERFILE.read_text()
    assert f"--output layer{artifact}" in text
    assert f"--output layer{artifact.with_name('index')}" in text
    assert f"COPY embedder layer{artifact.with_name('embedder')}" in text


@pytest.mark.parametrize("stage", ["texts", "folder"])
def test_what_a_build_context_replaces_is_an_empty_stage(stages, stage):
    """BuildKit puts the context of that name in the stage's place; without one nothing is there."""
    (found,) = (lines for lines in stages if lines[0] == f"FROM scratch AS {stage}")
    assert found[1:] == ["COPY requirements.txt /"]


def test_the_token_of_the_hub_is_a_secret_and_no_argument(stages):
    """An argument would be kept in the image's history."""
    text = DOCKERFILE.read_text()
    assert "--mount=type=secret,id=hub_token" in text
    assert not re.search(r"(ARG|ENV)\s+\w*TOKEN", text)


def test_what_the_dockerfile_copies_is_what_the_context_sends():
    """A file that is copied and ignored fails the build; one that is sent and unused slows it."""
    sent = {
        line.removeprefix("!")
        for line in (IMAGE / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    copied = {
        word
        for line in re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE.read_text(), flags=re.MULTILINE)
        for word in line.split()[:-1]
    }
    assert sent == copied


def _pins(path: Path) -> dict[str, str]:
    """Return the pinned version of each requirement, by its normalised name."""
    requirements = [
        Requirement(line) for line in path.read_text().splitlines() if line and line[0] not in "#-"
    ]
    return {
        requirement.name.lower().replace("_", "-"): str(requirement.specifier)
        for requirement in requirements
        if requirement.marker is None
    }
