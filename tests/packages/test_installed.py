"""The wheels work in new environments, which have nothing of this repository."""

import json
import subprocess
import sys
from importlib.metadata import version

import pytest

from embedding_kit.programs import PROGRAMS, image_folder

from .conftest import Environment

pytestmark = pytest.mark.slow

#: The packages of the programs.
PACKAGES = sorted(path.parent.name for path in image_folder().glob("*/__init__.py"))


def typed(environment: Environment, program: str) -> list[str]:
    """Return what mypy finds in a user's program."""
    file = environment.folder.parent / "program.py"
    file.write_text(program)
    # The CDK's own types take mypy a minute.
    settings = "[mypy]\nstrict = true\n[mypy-aws_cdk.*,constructs.*]\nfollow_imports = skip\n"
    file.with_name("mypy.ini").write_text(settings)
    command = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini"]
    command += ["--cache-dir", "mypy", "--no-error-summary"]
    command += ["--python-executable", str(environment.python), file.name]
    done = subprocess.run(command, cwd=file.parent, capture_output=True, text=True, check=False)
    assert not done.stderr
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def client(dist, tmp_path_factory) -> Environment:
    """Return an environment with the client and none of its extras."""
    environment = Environment(tmp_path_factory.mktemp("client") / "venv", dist)
    environment.install("embedding-client")
    return environment


@pytest.fixture(scope="module")
def kit(dist, tmp_path_factory) -> Environment:
    """Return an environment with the kit and all of its extras."""
    environment = Environment(tmp_path_factory.mktemp("kit") / "venv", dist)
    environment.install("embedding-kit[batch,compiler,engine,server,zip]")
    return environment


def test_the_client_brings_no_compiler_and_no_cdk(client):
    """All in all 15 distributions, most of them small."""
    found = client.packages()
    assert not found & {"embedding-kit", "aws-cdk-lib", "onnx", "onnxruntime", "pydantic"}
    assert len(found) == 15


def test_the_command_is_installed(client):
    """`embed` prints its help and its version."""
    embed = client.python.with_name("embed")
    assert client.execute([embed, "--help"]).startswith("usage: embed ")
    assert client.execute([embed, "--version"]) == f"embed {version('embedding-client')}\n"


def test_a_users_types_are_checked_against_the_clients(client):
    """A vector is an array, and no list."""
    found = typed(
        client,
        "from embedding_client import EmbeddingClient\n"
        "with EmbeddingClient('https://example.com') as client:\n"
        "    vector: list[float] = client.embed_one('a text')\n",
    )
    assert len(found) == 1
    assert "program.py:3: error: Incompatible types in assignment" in found[0]
    assert 'expression has type "ndarray[' in found[0]


def test_the_extras_of_the_client_bring_what_they_are_for(dist, tmp_path):
    """LangChain, LlamaIndex and Parquet; none of them brings the kit."""
    environment = Environment(tmp_path / "venv", dist)
    environment.install("embedding-client[langchain,llamaindex,parquet]")
    program = (
        "import embedding_client.langchain, embedding_client.llamaindex, pyarrow\n"
        "from importlib.util import find_spec\n"
        "print(find_spec('embedding_kit'))\n"
    )
    # Warnings of other packages' imports are not ours to mend.
    assert environment.execute([environment.python, "-c", program]).split() == ["None"]


def test_a_users_types_are_checked_against_the_constructs(kit):
    """The settings and the attributes of a construct have types."""
    found = typed(
        kit,
        "from aws_cdk import App, Stack\n"
        "from embedding_kit import EmbeddingEndpoint, ModelSettings\n"
        "url: int = EmbeddingEndpoint(Stack(App()), 'E', model=ModelSettings(name=1)).url\n",
    )
    assert [line.rpartition("  ")[2] for line in found] == ["[assignment]", "[arg-type]"]


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_of_the_image_runs(kit, program):
    """With the libraries of the extras: by the command, and as a module of the package."""
    usage = f"usage: embedding-kit {program} "
    assert kit.execute([kit.python.with_name("embedding-kit"), program, "--help"]).startswith(usage)
    assert kit.run("-m", "embedding_kit", program, "--help").startswith(usage)


def test_the_command_names_its_programs(kit):
    """Without one, and in the error about another."""
    command = kit.python.with_name("embedding-kit")
    listed = kit.execute([command])
    assert listed.startswith("usage: embedding-kit PROGRAM [ARGUMENTS]\n")
    assert all(f"  {program} " in listed for program in PROGRAMS)
    assert kit.execute([command, "embedder"], status=2) == (
        f"error: no such program; found: embedder; allowed: {', '.join(PROGRAMS)}\n"
    )


def test_no_other_process_finds_the_programs(kit):
    """Their names are common: a user's own `embedder` must stay the user's."""
    program = (
        "import json, sys\n"
        "from importlib.util import find_spec\n"
        f"names = {PACKAGES}\n"
        "print(json.dumps([[name for name in names if find_spec(name)], sys.path]))\n"
    )
    found, path = json.loads(kit.run("-c", program))
    assert found == []
    assert not [folder for folder in path if "lambda_image" in folder]


def test_a_local_job_starts_its_processes(kit, tmp_path, minilm_artifact):
    """Each finds the program and its modules, though Python's path has them in none."""
    texts = tmp_path / "texts"
    texts.mkdir()
    (texts / "texts.jsonl").write_text('{"text": "one"}\n{"text": "two"}\n')
    settings = {"source": str(texts), "destination": str(tmp_path / "out")}
    artifact = str(minilm_artifact.folder)
    options = json.dumps({"settings": settings, "artifact": artifact, "processes": 2})
    kit.run("-P", "-m", "embedding_kit.programs", "jobs.embed", options)
    assert list((tmp_path / "out").rglob("*.parquet"))


def test_the_engine_runs_without_the_cdk(dist, tmp_path, minilm_artifact):
    """As docs/recipes.md says, with three libraries and none of theirs."""
    environment = Environment(tmp_path / "venv", dist)
    environment.install("--no-deps", "embedding-kit", "numpy", "onnxruntime", "orjson")
    program = (
        "import sys\n"
        "from embedding_kit.engine import Engine, load_artifact\n"
        "assert not [folder for folder in sys.path if 'lambda_image' in folder]\n"
        "print(Engine.load(load_artifact(sys.argv[1])).embed(['a text']).vectors.shape)\n"
    )
    assert environment.run("-c", program, str(minilm_artifact.folder)) == "(1, 384)\n"
