"""The wheels work in new environments, which have nothing of this repository."""

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from embedder.artifact import Artifact

from .conftest import Environment

pytestmark = pytest.mark.slow


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
    """`embed` prints its help and its version, and says what `embed load` needs."""
    embed = client.python.with_name("embed")
    assert client.execute([embed, "--help"]).startswith("usage: embed ")
    assert client.execute([embed, "--version"]) == f"embed {version('embedding-client')}\n"
    assert client.execute([embed, "load", "--url", "http://127.0.0.1:9"], status=1) == (
        "error: embed load needs: pip install 'embedding-client[load]'; "
        "not found: embedding_costs, aiohttp, pydantic.\n"
    )


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
    """LangChain, LlamaIndex, Parquet, and the load test; none of them brings the kit."""
    environment = Environment(tmp_path / "venv", dist)
    environment.install("embedding-client[langchain,llamaindex,load,parquet]")
    environment.execute([environment.python.with_name("embed"), "load", "--help"])
    program = (
        "import embedding_client.langchain, embedding_client.llamaindex, pyarrow\n"
        "import embedding_client.load_test.command\n"
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
        "from embedding_kit import EmbeddingEndpoint, Model\n"
        "url: int = EmbeddingEndpoint(Stack(App()), 'E', model=Model(name=1)).url\n",
    )
    assert [line.rpartition("  ")[2] for line in found] == ["[assignment]", "[arg-type]"]


@pytest.mark.parametrize(
    "program",
    [
        "batch_embedding",
        "embedder.server",
        "embedder.server.new_key",
        "model_compiler",
        "model_compiler.index_builder",
        "vector_loading",
    ],
)
def test_a_program_of_the_image_runs(kit, program):
    """As `python -m`, with the libraries of the extras."""
    assert kit.run("-m", program, "--help").startswith(f"usage: python -m {program} ")


def test_the_programs_are_the_images(kit):
    """There is one copy of them, which is last on Python's path, and so hides no other package."""
    program = "import embedder, json, sys; print(json.dumps([embedder.__file__, sys.path]))"
    file, path = json.loads(kit.run("-c", program))
    assert Path(file).parents[1] == Path(path[-1])
    assert path[-1].endswith("site-packages/embedding_kit/lambda_image")


def test_the_engine_runs_without_the_cdk(dist, tmp_path, minilm_artifact: Artifact):
    """As docs/recipes.md says, with three libraries and none of theirs."""
    environment = Environment(tmp_path / "venv", dist)
    environment.install("--no-deps", "embedding-kit", "numpy", "onnxruntime", "orjson")
    program = (
        "import sys\n"
        "from embedder.artifact import load_artifact\n"
        "from embedder.engine import Engine\n"
        "print(Engine.load(load_artifact(sys.argv[1])).embed(['a text']).vectors.shape)\n"
    )
    assert environment.run("-c", program, str(minilm_artifact.folder)) == "(1, 384)\n"
