"""Modules that are skipped for a quick start, tested in separate processes."""

import subprocess
import sys


def run(program: str) -> str:
    command = [sys.executable, "-W", "error", "-c", program]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not finished.stderr, finished.stderr
    return finished.stdout


def test_numpy_comes_without_docstrings_and_types():
    """The modules that startup lists are not imported, and numpy has no docstrings."""
    program = """
import gc, sys
import embedder.core.startup as startup
import numpy
print(numpy.ndarray.reshape.__doc__, gc.isenabled())
print([name for name in startup._UNREAD if name in sys.modules])
"""
    assert run(program) == "None False\n[]\n"


def test_what_was_left_out_can_be_imported_later():
    """A library that uses numpy's types later gets the real ones instead of the placeholders."""
    program = """
import embedder.core.startup
import numpy as np
import numpy.typing as npt
print(npt.NDArray[np.float32], npt.ArrayLike is list)
import numpy._core._add_newdocs
print(np.ndarray.reshape.__doc__.split()[0])
print(np.linalg.eigh(np.eye(2)).eigenvalues, np.random.default_rng(0).integers(1, 2))
"""
    assert run(program) == (
        "numpy.ndarray[tuple[typing.Any, ...], numpy.dtype[numpy.float32]] False\n"
        "a.reshape(shape,\n[1. 1.] 1\n"
    )


def test_numpy_that_is_there_is_left_as_it_is():
    """If numpy is already imported, it is not modified."""
    program = """
import sys
import numpy
before = set(sys.modules)
import embedder.core.startup
print(sorted(name for name in set(sys.modules) - before if name.startswith("numpy")))
print(numpy.ndarray.reshape.__doc__ is None)
"""
    assert run(program) == "[]\nFalse\n"


def test_lambdas_entry_imports_no_type_of_numpys():
    """The handler's modules import no skipped module, no OpenSSL, and nothing of the server."""
    program = """
import sys
import ctypes
# With Python 3.14, ctypes imports threading.
of_ctypes = set(sys.modules)
import embedder.core.startup
import embedder.application
unwanted = ("numpy._typing", "numpy.typing", "_hashlib", "ssl", "hmac", "http", "socket",
    "urllib", "select", "embedder.core.aws", "embedder.core.s3_vectors",
    "embedder.core.artifact_download", "embedder.core.search")
unwanted += ("embedder.server", "prometheus_client", "opentelemetry", "uvicorn", "httptools",
    "asyncio", "threading")
print([name for name in unwanted if name in sys.modules and name not in of_ctypes])
"""
    assert run(program) == "[]\n"


def test_lambdas_entry_prepares_the_start_before_it_imports_numpy():
    """The order of its imports decides; here its artifact is missing."""
    program = """
import sys
try:
    import embedder.aws_lambda.handler
except Exception as error:
    print(type(error).__name__, "numpy" in sys.modules, "numpy._typing" in sys.modules)
"""
    assert run(program) == "ArtifactError True False\n"


def test_a_search_needs_no_botocore():
    """The endpoint's own client has a quarter of botocore's cost."""
    program = """
import sys
import embedder.core.startup
import embedder.application
import embedder.core.s3_vectors
unwanted = ("botocore", "boto3", "httpx", "httpx2", "requests", "urllib3", "asyncio")
print([name for name in unwanted if name in sys.modules], "http.client" in sys.modules)
"""
    assert run(program) == "[] True\n"
