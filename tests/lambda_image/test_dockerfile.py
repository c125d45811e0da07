"""The Dockerfile passes the linter, builds natively, and matches the local runtime."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools.local_endpoint import endpoint

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
    found: dict[str, list[str]] = {}
    name = ""
    for instruction in instructions:
        if instruction.startswith("FROM "):
            name = instruction.partition(" AS ")[2] or "endpoint"
        if name:
            found.setdefault(name, []).append(instruction)
    return found


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


@pytest.mark.parametrize(
    ("name", "handler"),
    [("batch", "jobs.embed.handler.handler"), ("server", "embedder.aws_lambda.handler.handler")],
)
def test_another_image_has_the_endpoints_layers_and_two_more(stages, name, handler):
    """Lambda stores and loads the model's layer once for all. The server's runs in Lambda too."""
    endpoint, image = (
        [line for line in stages[stage] if line.startswith("COPY")] for stage in ("endpoint", name)
    )
    assert [line for line in image if line in endpoint] == endpoint
    assert [line for line in image if line not in endpoint] == [
        f"COPY --from={name}-dependencies /build/layer/ /",
        f"COPY --from={name}-code /build/layer/ /",
    ]
    assert stages["endpoint"][0] == "FROM base-$TARGETARCH"
    assert stages[name][-1] == f'CMD ["{handler}"]'


def test_each_image_is_labeled_with_what_is_in_it(stages):
    """The labels, which a promotion compares, are those of the build's arguments."""
    for target in ("endpoint", "batch", "server"):
        stage = stages[target]
        (label,) = (line for line in stage if line.startswith("LABEL "))
        found = dict(word.split("=", 1) for word in label.split()[1:])
        assert found == {"embedding-kit.target": target} | {
            f"embedding-kit.{name.lower()}": f'"${name}"'
            for name in (
                "MODEL",
                "REVISION",
                "PRECISION",
                "DIMENSIONS",
                "ROUTE",
                "RERANKER",
                "SPARSE",
                "FILES",
                "BASE_IMAGE",
            )
        }
        # After the layers, so that a layer is the same for all models that share it.
        assert stage[-3].startswith("ARG MODEL ")


def test_the_endpoints_image_has_nothing_of_the_server(stages):
    """The layer of code leaves the server's package out, which has a layer of its own."""
    assert stages["code"][-1] == "RUN python finish_layer.py layer --remove server"
    named = [path for path in (IMAGE / "embedder").rglob("server") if path.is_dir()]
    assert named == [IMAGE / "embedder" / "server"]
    copied = "COPY embedder/server layer/var/task/embedder/server"
    assert stages["server-code"][1] == copied


def test_the_images_python_is_that_of_the_zip_and_of_the_pins():
    """Docker reads no file before FROM, so the Dockerfile repeats the version, in one line."""
    text = DOCKERFILE.read_text()
    version = (IMAGE / ".python-version").read_text().strip()
    assert f"\nARG PYTHON={version}\n" in text
    assert set(re.findall(r"lambda/python:([^-\s]+)", text)) == {"$PYTHON"}


def test_every_run_is_native(stages):
    """Stages with a RUN are based on the platform of the building machine."""
    run = [each for each in stages.values() if any(line.startswith("RUN") for line in each)]
    assert run
    for stage in run:
        start = stage[0]
        while (base := start.split()[1]) in stages:
            start = stages[base][0]
        assert "--platform=$BUILDPLATFORM" in start, stage[0]


def test_layers_stand_in_the_order_of_their_change(stages):
    """Dependencies, model and code are in this order, so that new code only changes one layer."""
    copies = [line.split()[1] for line in stages["endpoint"] if line.startswith("COPY")]
    assert copies == ["--from=dependencies", "--from=models", "--from=code"]


def test_the_image_runs_the_handler_that_the_local_runtime_runs(stages):
    """The same handler runs in Lambda and behind the local URL."""
    (command,) = (line for line in stages["endpoint"] if line.startswith("CMD"))
    (local,) = re.findall(r'handler="([\w.]+)"', Path(endpoint.__file__).read_text())
    assert command == f'CMD ["{local}"]'


@pytest.mark.parametrize("prefix", ["", "batch-", "server-"])
def test_an_image_installs_what_uv_lock_pins(stages, prefix):
    """Each layer of packages has a file with versions and hashes; see scripts/lock."""
    lines = " ".join(stages[f"{prefix}dependencies"])
    assert f"COPY {prefix}requirements.txt" in lines
    assert f"--requirement {prefix}requirements.txt" in lines


def test_the_artifact_lies_where_the_embedder_looks_for_it():
    """The embedder's default paths are those of the image."""
    from embedder.core.settings import EmbedderSettings

    artifact = Path(EmbedderSettings.from_env({"LAMBDA_TASK_ROOT": "/var/task"}).artifact)
    text = DOCKERFILE.read_text()
    assert f"--output layer{artifact}" in text
    assert f"--output layer{artifact.with_name('index')}" in text
    assert f"COPY embedder layer{artifact.with_name('embedder')}" in text


def test_each_command_that_downloads_gets_the_secrets(stages):
    """Pip gets index and certificates, the compiler the hub's token too; none is an argument."""
    pip = {"certificates", "index_url", "extra_index_url"}
    runs = [line for stage in stages.values() for line in stage if line.startswith("RUN ")]
    for run in runs:
        wanted = pip if "pip install" in run else set()
        if "-m model_compiler" in run:
            wanted = wanted | {"certificates", "hub_token"}
        assert set(re.findall(r"--mount=type=secret,id=(\w+)", run)) == wanted
        assert ("use_secrets.sh" in run) == bool(wanted)
    assert sum("pip install" in run for run in runs) == 5
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
