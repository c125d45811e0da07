"""A function from a zip: the zip's own files run, and nothing of this project's environment."""

import importlib.util
import json
import stat
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from embedder.core.engine import Engine
from tools.local_endpoint.__main__ import main
from tools.local_endpoint.events import to_event
from tools.local_endpoint.models import ModelError
from tools.local_endpoint.runtime import EmulatedRuntime, Function, emulator_binary, start
from tools.local_endpoint.signature import Caller, SignedRequest
from tools.local_endpoint.zip_function import unpack_zip, zip_function

MINILM = "sentence-transformers/all-MiniLM-L6-v2"
ON_LINUX = pytest.mark.skipif(emulator_binary() is None, reason="needs AWS's emulator")


def _event(body: dict) -> bytes:
    request = SignedRequest(
        method="POST", target="/", headers={"host": "localhost"}, body=json.dumps(body).encode()
    )
    caller = Caller(access_key="local", session_token=None)
    return to_event(request, caller=caller, source_ip="127.0.0.1")


def test_the_tree_is_read_only(tmp_path):
    """As Lambda's /var/task; a second call unpacks nothing."""
    archive = tmp_path / "abc.zip"
    with zipfile.ZipFile(archive, "w") as opened:
        opened.writestr("embedder/aws_lambda/handler.py", "pass\n")
    tree = unpack_zip(archive, cache=tmp_path)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in tree.rglob("*")}
    assert modes == {0o555, 0o444}
    archive.unlink()
    assert unpack_zip(archive, cache=tmp_path) == tree


@ON_LINUX
def test_another_python_imports_nothing_of_this_environment(tmp_path):
    """Only the function's folder and the runtime's are on its path, so a missing package fails."""
    found = importlib.util.find_spec("awslambdaric")
    runtime, installed = tmp_path / "runtime", Path(found.origin).parents[1]
    runtime.mkdir()
    for name in ("awslambdaric", "simplejson", "snapshot_restore_py*", "runtime_client*"):
        for path in installed.glob(name):
            (runtime / path.name).symlink_to(path)
    task = tmp_path / "task"
    task.mkdir()
    (task / "function.py").write_text(
        "import importlib.util, sys\n"
        "def handler(event, context):\n"
        "    return [importlib.util.find_spec('numpy') is None, sys.path]\n"
    )
    function = Function(
        handler="function.handler", source_root=task, python=sys.executable, runtime_root=runtime
    )
    running = start(function)
    try:
        missing, path = json.loads(running.invoke(b"{}"))
    finally:
        running.close()
    assert missing
    assert str(task) in path
    assert not [folder for folder in path if "site-packages" in folder]


@pytest.mark.parametrize(("system", "machine"), [("Darwin", "arm64"), ("Linux", "riscv64")])
def test_another_machine_is_refused(monkeypatch, system, machine):
    """There are no packages for it."""
    monkeypatch.setattr("tools.local_endpoint.zip_function.platform.system", lambda: system)
    monkeypatch.setattr("tools.local_endpoint.zip_function.platform.machine", lambda: machine)
    with pytest.raises(ModelError, match=f"found: {system} on {machine}"):
        zip_function(MINILM)


@pytest.mark.parametrize(
    "options", [["--vector-index", "arn:aws:s3vectors:a"], ["--index", "standard-library"]]
)
def test_other_indexes_than_a_file_of_texts_are_refused(options, capsys):
    """The zip carries what the environment's file can name."""
    assert main(["--zip", *options]) == 1
    assert "--zip takes no index but a file of texts" in capsys.readouterr().err


@pytest.mark.slow
@ON_LINUX
def test_the_zips_vectors_are_those_of_the_sources_to_the_last_bit(minilm_artifact):
    """The zip for this machine runs in Python 3.13 with its own packages only."""
    texts = ["hello world", "Wie spät ist es?", "a " * 200]
    function = zip_function(MINILM)
    running = start(function)
    assert isinstance(running, EmulatedRuntime)
    before = {path: path.stat().st_mtime_ns for path in function.source_root.rglob("*")}
    try:
        answers = [json.loads(running.invoke(_event({"text": text}))) for text in texts]
    finally:
        running.close()
    found = [json.loads(answer["body"])["embedding"] for answer in answers]
    engine = Engine.load(minilm_artifact)
    expected = [engine.embed([text]).vectors[0] for text in texts]
    assert np.array_equal(np.array(found, np.float32), np.array(expected, np.float32))
    assert {path: path.stat().st_mtime_ns for path in function.source_root.rglob("*")} == before
