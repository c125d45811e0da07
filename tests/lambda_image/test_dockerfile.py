"""The Dockerfile passes the linter, builds natively, and matches the local runtime."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
IMAGE = ROOT / "lambda_image"
DOCKERFILE = IMAGE / "Dockerfile"


@pytest.fixture(scope="module")
def stages() -> dict[str, list[str]]:
    """Return the instructions by stage, joined and without comments; the last is the endpoint."""
    text = "\n".join(
        line for line in DOCKERFILE.read_text().splitlines() if not line.lstrip().startswith("#")
    )
    instructions = [
        line.strip() for line in re.sub(r"\\\n", " ", text).splitlines() if line.strip()
    ]
    by_name: dict[str, list[str]] = {}
    name = ""
    for instruction in instructions:
        if instruction.startswith("FROM "):
            name = instruction.partition(" AS ")[2] or "endpoint"
        if name:
            by_name.setdefault(name, []).append(instruction)
    return by_name


def test_hadolint_finds_nothing():
    """The linter reports nothing beyond the exceptions that the file declares."""
    hadolint = Path(sys.prefix) / "bin" / "hadolint"
    done = subprocess.run([hadolint, DOCKERFILE], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("", 0)


def test_the_images_stages_only_copy(stages):
    """A RUN there would be emulated when an x86 machine builds for ARM64."""
    for name in ("endpoint", "batch", "server"):
        used = {instruction.split()[0] for instruction in stages[name]}
        assert used == {"FROM", "COPY", "ARG", "LABEL", "CMD"}


def test_each_image_is_labeled_with_what_is_in_it(stages):
    """The labels, which a promotion compares, are those of the build's arguments."""
    for target in ("endpoint", "batch", "server"):
        stage = stages[target]
        (label,) = (line for line in stage if line.startswith("LABEL "))
        labels = dict(word.split("=", 1) for word in label.split()[1:])
        assert labels == {
            "embedding-kit.target": target,
            "embedding-kit.models": '"$MODELS"',
            "embedding-kit.files": '"$FILES"',
            "embedding-kit.base_image": '"$BASE_IMAGE"',
        }
        # After the layers, so that a layer is the same for all models that share it.
        assert stage[-3].startswith("ARG MODELS ")


def test_the_images_python_is_that_of_the_zip_and_of_the_pins():
    """Docker reads no file before FROM, so the Dockerfile repeats the version, in one line."""
    text = DOCKERFILE.read_text()
    version = (IMAGE / ".python-version").read_text().strip()
    assert f"\nARG PYTHON={version}\n" in text
    assert set(re.findall(r"lambda/python:([^-\s]+)", text)) == {"$PYTHON"}


def test_every_run_is_native(stages):
    """Stages with a RUN are based on the platform of the building machine."""
    run = [stage for stage in stages.values() if any(line.startswith("RUN") for line in stage)]
    assert run
    for stage in run:
        start = stage[0]
        while (base := start.split()[1]) in stages:
            start = stages[base][0]
        assert "--platform=$BUILDPLATFORM" in start, stage[0]


def test_layers_are_in_the_order_of_their_change(stages):
    """New code changes one layer, and Lambda stores the model's layer once for all images."""
    copies = {
        target: [line.split()[1] for line in stages[target] if line.startswith("COPY")]
        for target in ("endpoint", "batch", "server")
    }
    own = ["--from=dependencies", "--from=models", "--from=code"]
    assert copies["endpoint"] == own
    for target in ("batch", "server"):
        further = [name for name in copies[target] if name not in own]
        assert [name for name in copies[target] if name in own] == own
        assert further == [f"--from={target}-dependencies", f"--from={target}-code"]


@pytest.mark.parametrize("key", ["model", "reranker", "sparse"])
def test_a_model_is_compiled_in_a_step_of_its_own(stages, key):
    """The step reads the model's own choices and folder, so another one's change runs no second."""
    stage = stages["models"]
    copied = stage.index(f"COPY --from=choices /build/{key}.json ./")
    assert f"python -m model_compiler build {key}.json --artifacts artifacts" in stage[copied + 1]
    assert re.findall(r"type=bind,from=(\w+),target=/build/sources/(\w+)", stage[copied + 1]) == [
        (key, key)
    ]


def test_each_command_that_downloads_gets_the_secrets(stages):
    """Pip gets index and certificates, the compiler the hub's token too; none is an argument."""
    pip = {"certificates", "index_url", "extra_index_url"}
    runs = [line for stage in stages.values() for line in stage if line.startswith("RUN ")]
    for run in runs:
        secrets = pip if re.search(r"pip install|wheels", run) else set()
        if "-m model_compiler" in run and "--output" not in run:
            secrets = secrets | {"certificates", "hub_token"}
        assert set(re.findall(r"--mount=type=secret,id=(\w+)", run)) == secrets
        assert ("use_secrets.sh" in run) == bool(secrets)
    assert not re.search(r"(ARG|ENV)\s+\w*(TOKEN|URL|CERT)", DOCKERFILE.read_text())


def test_secrets_become_variables(tmp_path):
    """A build without a secret sets nothing, so pip and the compiler use their defaults."""
    script = (IMAGE / "use_secrets.sh").read_text().replace("/run/secrets", str(tmp_path))
    command = ["sh", "-euc", f"{script}\nenv"]

    def variables() -> set[str]:
        done = subprocess.run(
            command, env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=True
        )
        return {line for line in done.stdout.splitlines() if re.match("HF_|PIP_|SSL_", line)}

    (tmp_path / "index_url").touch()
    assert variables() == set()
    secrets = {
        "hub_token": "hf_1",
        "index_url": "https://a:b@c/$x 'y",
        "extra_index_url": "https://d",
        "certificates": "-",
    }
    for name, value in secrets.items():
        (tmp_path / name).write_text(f"{value}\n")
    assert variables() == {
        "HF_TOKEN=hf_1",
        "PIP_INDEX_URL=https://a:b@c/$x 'y",
        "PIP_EXTRA_INDEX_URL=https://d",
        f"PIP_CERT={tmp_path}/certificates",
        f"SSL_CERT_FILE={tmp_path}/certificates",
    }


def test_what_the_dockerfile_copies_is_what_the_context_sends():
    """A copied file that is ignored fails the build, and an unused one slows it down."""
    sent = {
        line.removeprefix("!")
        for line in (IMAGE / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    copied = {
        word.partition("/")[0]
        for line in re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE.read_text(), flags=re.MULTILINE)
        for word in line.split()[:-1]
    }
    assert sent == copied
