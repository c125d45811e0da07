"""A zip with its artifact and one with the artifact from S3, started in Lambda's Python."""

import json
import os
import platform
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from embedder.application import build_router
from embedder.core.settings import EmbedderSettings
from tests.embedder.calls import post
from tests.fixtures.s3_object_server import REGION, serving_object
from zip_builder.build import build_artifact_object, build_zip
from zip_builder.cache import default_cache
from zip_builder.model import Models
from zip_builder.tree import find_python

RECIPE = Path(__file__).resolve().parents[2] / "lambda_image"
MODELS = Models({"model": {"name": "all-MiniLM-L6-v2"}})
BODY = {"text": "first things first"}
#: What Lambda does with the function: an initialization, then an invocation.
PROGRAM = """
import json, sys
from embedder.aws_lambda.handler import handler
event = {
    "version": "2.0", "rawPath": "/", "rawQueryString": "", "isBase64Encoded": False,
    "headers": {"content-type": "application/json"}, "body": sys.argv[1],
    "requestContext": {"http": {"method": "POST", "path": "/"}, "requestId": "1"},
}
print(json.dumps(handler(event, None)))
"""

# It builds a zip, with packages from PyPI.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="the packages are for Linux"),
]


@pytest.mark.parametrize("with_artifact", [True, False])
def test_the_built_zip_answers_as_the_image(minilm_artifact, tmp_path, with_artifact):
    """It finds all that it needs in its own files, or in the object that the builder publishes.

    The vector is the same to the last bit.
    """
    cache = default_cache()
    archive = build_zip(
        MODELS, recipe=RECIPE, cache=cache, machine=platform.machine(), with_artifact=with_artifact
    )
    content = build_artifact_object(MODELS, recipe=RECIPE, cache=cache).read_bytes()
    with zipfile.ZipFile(archive) as opened:
        opened.extractall(tmp_path / "task")
    # Lambda's runtime has botocore.
    runtime = tmp_path / "runtime"
    runtime.mkdir()
    for module in ("botocore", "dateutil", "jmespath", "six", "urllib3"):
        source = Path(find_spec(module).origin)
        source = source.parent if source.name == "__init__.py" else source
        (runtime / source.name).symlink_to(source)
    with serving_object(content) as server:
        environ = {
            "PATH": os.environ["PATH"],
            "LAMBDA_TASK_ROOT": str(tmp_path / "task"),
            "PYTHONPATH": f"{tmp_path / 'task'}:{runtime}",
            "TMPDIR": str(tmp_path),
            **({} if with_artifact else {"EMBEDDING_ARTIFACT_LOCATION": server.location}),
            "AWS_REGION": REGION,
            "AWS_ENDPOINT_URL_S3": server.url,
            "AWS_ACCESS_KEY_ID": server.keys[0],
            "AWS_SECRET_ACCESS_KEY": server.keys[1],
            "AWS_SESSION_TOKEN": server.token,
        }
        command = [find_python(), "-c", PROGRAM, json.dumps(BODY)]
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer["statusCode"] == 200
    expected = post(build_router(EmbedderSettings(artifact=minilm_artifact.folder)), "/", BODY)
    assert json.loads(answer["body"]) == json.loads(expected.body)
