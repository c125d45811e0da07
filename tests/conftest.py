"""Fixtures that several tests share: compiled models, made once and kept between runs."""

import fcntl
import functools
import gc
import hashlib
import os
import resource
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import botocore.session
import httpx2
import pytest
from botocore.loaders import create_loader
from hypothesis import HealthCheck, settings

from embedder.core.artifact import Artifact, load_artifact
from model_compiler.compile import CompileOptions, compile_model
from model_compiler.graph.builder import Precision
from model_compiler.source.find import find_source
from model_compiler.tokenizer import tables

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / ".cache" / "test-artifacts"
AN_HOUR = 3600.0

# No test uses the AWS account of who runs it.
for variable in [name for name in os.environ if name.startswith("AWS_")]:
    del os.environ[variable]
os.environ["AWS_CONFIG_FILE"] = os.environ["AWS_SHARED_CREDENTIALS_FILE"] = os.devnull
os.environ["AWS_EC2_METADATA_DISABLED"] = "true"

# A synth copies the images' folder into its assembly, which one test reads.
os.environ["CDK_CONTEXT_JSON"] = '{"aws:cdk:disable-asset-staging": true}'

# A shell starts background jobs with SIGINT ignored, and children inherit that: the programs
# that tests interrupt would never end.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The time of an example says nothing on a busy machine. Other settings, such as those of CI, stay.
settings.register_profile(
    "busy", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("busy")

# The modules and tests of a process are objects by the million that never go. Searching them for
# garbage again and again would be a fifth of the time.
gc.set_threshold(100_000, 50, 100)


def pytest_collection_finish() -> None:
    """Exclude from garbage collection what has been imported."""
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def few_texts_decide_on_tables() -> Iterator[None]:
    """Compile tokenizers sooner; their own tests compare them on more texts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "_SAMPLE", 250)
        yield


@pytest.fixture(autouse=True, scope="session")
def large_files_are_read_once() -> Iterator[None]:
    """Share what each session of botocore and each client of httpx2 would read for itself.

    They are megabytes of JSON about AWS's services, and the certificates that are trusted.
    """
    trusted = functools.cache(httpx2.create_ssl_context)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(botocore.session, "create_loader", functools.cache(create_loader))
        patch.setattr("httpx2._transports.default.create_ssl_context", trusted)
        yield


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Return a folder that is this repository, with environments as shipped: users edit theirs."""
    folder = tmp_path / "clone"
    folder.mkdir()
    for path in ROOT.iterdir():
        (folder / path.name).symlink_to(path)
    (folder / "environments").unlink()
    (folder / "environments").symlink_to(ROOT / "tests" / "fixtures" / "environments")
    return folder


@pytest.fixture(scope="session")
def minilm_folder() -> Path:
    """Return the folder of all-MiniLM-L6-v2, which tests must not change."""
    return find_source("all-MiniLM-L6-v2").folder.path


@pytest.fixture(scope="session")
def minilm_artifact() -> Artifact:
    """all-MiniLM-L6-v2, compiled to int8; not to be written to."""
    return _compiled(Precision.INT8)


@pytest.fixture(scope="session")
def minilm_artifact_fp32() -> Artifact:
    """all-MiniLM-L6-v2, compiled to fp32; not to be written to."""
    return _compiled(Precision.FP32)


def _compiled(precision: Precision) -> Artifact:
    """Compile the model, or take what the same sources of the compiler have compiled before."""
    folder = KEPT / f"minilm-{precision}-{_sources_hash()}"
    KEPT.mkdir(parents=True, exist_ok=True)
    with (KEPT / f"{precision}.lock").open("w") as lock:  # two runs at once must not both write
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            _clear_old(f"minilm-{precision}-*")
            compile_model(
                find_source("all-MiniLM-L6-v2"),
                folder,
                CompileOptions(precision=precision, progress=False),
            )
    return load_artifact(folder)


def _clear_old(pattern: str) -> None:
    """Remove what older sources compiled, unless another run may still be using it."""
    for folder in KEPT.glob(pattern):
        if time.time() - folder.stat().st_mtime > AN_HOUR:
            shutil.rmtree(folder, ignore_errors=True)


def _sources_hash() -> str:
    """Hash everything that decides on an artifact's bytes."""
    sources = [
        *(ROOT / "lambda_image" / "model_compiler").rglob("*.py"),
        *(ROOT / "lambda_image" / "embedder").rglob("*.py"),
        ROOT / "uv.lock",
    ]
    digest = hashlib.sha256()
    for path in sorted(sources):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@contextmanager
def _limited_files(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture(scope="session")
def file_limit() -> Callable[[int], AbstractContextManager[None]]:
    """Limit the size of all files within a block: the kernel's own full disk."""
    return _limited_files
