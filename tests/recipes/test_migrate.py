"""Clients of other servers on docs/migrate.md, and signers of other languages, unmodified."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from embedder.core.artifact import Artifact
from tests.docs.pages import BLOCK, RECIPES, SERVED
from tests.docs.pages import run as run_command
from tests.embedder.server.test_serve import process
from tests.fixtures.small_artifact import small_artifact
from tests.model_compiler.goldens.reranker_models import write_reranker

from .conftest import FACTS, FOLDER, KEYS

pytestmark = pytest.mark.slow

#: None of these signs a request, so they call the server.
INFINITY = """
import json
from infinity_client import Client
from infinity_client.api.default import embeddings, models
from infinity_client.models import OpenAIEmbeddingInputText

client = Client(base_url="{url}")
(model,) = models.sync(client=client).data
body = OpenAIEmbeddingInputText(input_={texts!r}, model=model.id)
answer = embeddings.sync(client=client, body=body)
print(json.dumps([entry.embedding for entry in answer.data]))
"""
INFINITY_CLASSIFY = """
import json
from infinity_client import Client
from infinity_client.api.default import classify
from infinity_client.models import ClassifyInput

body = ClassifyInput(input_={texts!r}, raw_scores=True)
answer = classify.sync(client=Client(base_url="{url}"), body=body)
print(json.dumps([[entry.to_dict() for entry in entries] for entries in answer.data]))
"""
MISTRAL = """
import json
from mistralai.client import Mistral

answer = Mistral(api_key="-", server_url="{url}").embeddings.create(model="any", inputs={texts!r})
print(json.dumps([entry.embedding for entry in answer.data]))
"""
#: The rest of a program with the page's function.
GO = """
func main() {
	vectors, err := embed(context.Background(), os.Args[1:])
	if err != nil {
		panic(err)
	}
	answer, _ := json.Marshal(vectors)
	fmt.Println(string(answer))
}
"""
LANGUAGES = FOLDER / "languages"
#: Of Debian's package with the SDK's source.
GO_PATH = Path("/usr/share/gocode")


@pytest.fixture(scope="module")
def url(minilm_artifact: Artifact) -> Iterator[str]:
    with process(minilm_artifact, "--no-keys") as (served, _):
        yield served


@pytest.mark.parametrize("program", [INFINITY, MISTRAL], ids=["infinity", "Mistral"])
def test_vectors_by_other_servers_clients(program, *, url, run, request, printed_vectors, tmp_path):
    """They find the model's name, or send any, and get the vectors of the kit's client."""
    code = program.format(url=url, texts=FACTS)
    python = request.getfixturevalue("python_with_infinity")
    printed_vectors(run(code, tmp_path, python=python))


def test_labels_by_infinitys_client(run, request, tmp_path):
    """It sends its own body to /classify, and reads the labels of the kit's API."""
    artifact = small_artifact(write_reranker(tmp_path / "m", labels=3))
    with process(artifact, "--no-keys") as (served, _):
        body = {"texts": FACTS, "raw_scores": True, "truncate": True}
        own = httpx2.post(f"{served}/classify", json=body).raise_for_status().json()
        code = INFINITY_CLASSIFY.format(url=served, texts=FACTS)
        printed = run(code, tmp_path, python=request.getfixturevalue("python_with_infinity"))
    assert json.loads(printed) == own["classifications"]


@pytest.mark.skipif(not (GO_PATH / "src/github.com/aws/aws-sdk-go-v2").exists(), reason="needs Go")
def test_the_go_recipe(served, printed_vectors, tmp_path):
    """The page's function, with Debian's Go and AWS SDK, gets the vectors of the kit's client."""
    (code,) = (
        m["code"] for m in BLOCK.finditer(RECIPES.read_text("utf-8")) if m["language"] == "go"
    )
    code = code.replace(SERVED, served.url).replace("import (", 'import (\n"os"', 1)
    (tmp_path / "main.go").write_text(f"package main\n{code}{GO}")
    go = {"GO111MODULE": "off", "GOPATH": str(GO_PATH), "GOCACHE": str(tmp_path / "cache")}
    printed_vectors(run_command(["go", "run", "main.go", *FACTS], tmp_path, **go, **KEYS))


@pytest.mark.skipif(not shutil.which("ruby"), reason="needs Ruby")
def test_rubys_signer(served, printed_vectors, tmp_path):
    """A request that the AWS SDK's signer for Ruby signed gets the vectors of the kit's client."""
    program = ["ruby", str(LANGUAGES / "embed.rb"), served.url + "/", json.dumps(FACTS)]
    printed_vectors(run_command(program, tmp_path, **KEYS))


@pytest.mark.skipif(not shutil.which("javac"), reason="needs a JDK")
def test_javas_http_client(served, printed_vectors, tmp_path):
    """It offers HTTP/2 with each request, and gets the vectors of the kit's client."""
    program = ["java", str(LANGUAGES / "Embed.java"), served.url + "/", json.dumps(FACTS)]
    answer = run_command(program, tmp_path, **KEYS)
    printed_vectors(json.dumps(json.loads(answer)["embeddings"]))
