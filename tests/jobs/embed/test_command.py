"""What the commands of jobs and of loads share."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE_ROOT = Path(__file__).parents[3] / "lambda_image"
COMMANDS = {
    "jobs.embed": ["docs", "vectors", "--artifact", "artifact"],
    "jobs.ingest": ["vectors", "arn"],
    "jobs.ingest.recall": ["vectors", "arn"],
}


@pytest.mark.parametrize("module", COMMANDS)
def test_a_missing_package_is_an_error_that_names_the_extra(module) -> None:
    """Without any package, the arguments are read, and the error is one line."""
    done = subprocess.run(
        [sys.executable, "-S", "-m", module, *COMMANDS[module]],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(SOURCE_ROOT)},
    )
    assert (done.returncode, done.stdout) == (1, "")
    name, found, rest = done.stderr.partition(" is missing: ")
    assert (found, rest) == (" is missing: ", "pip install 'embedding-kit[batch]'.\n")
    assert name.removeprefix("error: ") in {"tqdm", "botocore"}
