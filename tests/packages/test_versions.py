"""The packages work with the lowest and the newest versions that they allow.

`.github/workflows/versions.yml` sets `RESOLUTION` to `highest` every week; other runs stay the same
until `pyproject.toml` changes.
"""

import json
import os

import pytest

from tools.local_endpoint.endpoint import endpoint

from .conftest import ROOT, Environment

pytestmark = pytest.mark.slow

RESOLUTION = os.environ.get("RESOLUTION", "lowest-direct")
#: What a user writes: files in and out, a vector, an index of LangChain's.
CLIENT = """
import sys
from pathlib import Path

from embedding_client import EmbeddingClient
from embedding_client.cli import main
from embedding_client.langchain import FunctionUrlEmbeddings
from embedding_client.llamaindex import FunctionUrlEmbedding

url = sys.argv[1]
with EmbeddingClient(url) as client:
    vector = client.embed_one("a text")
assert FunctionUrlEmbeddings(url).embed_query("a text") == vector.tolist()
assert FunctionUrlEmbedding(url=url).get_query_embedding("a text") == vector.tolist()
Path("notes.csv").write_text("body\\na text\\n")
sys.argv = ["embed", "--url", url, "--file", "notes.csv", "--column", "body"]
sys.argv += ["--output", "a.parquet"]
raise SystemExit(main())
"""
KIT = """
import embedding_kit as kit

print([getattr(kit, name) for name in kit.__all__])
"""


@pytest.fixture
def environment(dist, tmp_path) -> Environment:
    """Return an environment without packages."""
    return Environment(tmp_path / "venv", dist)


def test_the_client_works(environment, minilm_artifact):
    """With each of its extras, against an endpoint."""
    environment.resolve(RESOLUTION, "embedding-client[completion,langchain,llamaindex,parquet]")
    running, _ = endpoint(minilm_artifact.folder)
    program = environment.folder.parent / "program.py"
    program.write_text(CLIENT)
    with running:
        environment.execute([environment.python, program, running.url])
    assert (program.parent / "a.parquet").is_file()


def test_an_app_is_synthesized(environment, tmp_path):
    """The example's, with each construct imported."""
    environment.resolve(RESOLUTION, "embedding-kit")
    assert "EmbeddingEndpoint" in environment.execute([environment.python, "-c", KIT])
    app = ROOT / "docs" / "examples" / "app" / "app.py"
    environment.execute([environment.python, app], CDK_OUTDIR=str(tmp_path / "out"))
    template = json.loads((tmp_path / "out" / "Search.template.json").read_text())
    assert "EmbeddingUrl" in template["Outputs"]


def test_a_model_is_compiled_and_embeds(environment, minilm_folder, tmp_path):
    """By the compiler and the engine, with the same vector space as here."""
    environment.resolve(RESOLUTION, "embedding-kit[batch,compiler,engine,server,zip]")
    artifact = tmp_path / "artifact"
    command = environment.python.with_name("embedding-kit")
    environment.execute([command, "model_compiler", "compile", minilm_folder, "--output", artifact])
    program = (
        "import sys\n"
        "from embedding_kit.engine import Engine, load_artifact\n"
        "engine = Engine.load(load_artifact(sys.argv[1]), threads=1)\n"
        "print(engine.embed(['a text']).vectors.shape)"
    )
    assert environment.execute([environment.python, "-c", program, artifact]) == "(1, 384)\n"
    environment.execute([command, "embedder.server", "--help"])
    jobs = "'jobs.embed.local', 'jobs.load.worker'"
    environment.run(
        "-c", f"from embedding_kit.programs import import_modules; import_modules({jobs})"
    )
