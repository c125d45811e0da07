"""The extra `engine` brings what the engine imports, and nothing else."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import json, sys
from importlib.metadata import packages_distributions
from embedder.core.artifact import load_artifact
from embedder.core.engine import Engine

Engine.load(load_artifact(sys.argv[1])).embed(["a text"])
found = packages_distributions()
print(json.dumps([name for module in sys.modules for name in found.get(module, [])]))
"""


def test_the_extra_has_what_the_engine_imports(minilm_artifact):
    """A text is embedded with a fast tokenizer, with these three packages only."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = {
        line.split(">")[0].split("=")[0] for line in project["optional-dependencies"]["engine"]
    }
    command = [sys.executable, "-c", PROGRAM, str(minilm_artifact.folder)]
    imported = json.loads(subprocess.check_output(command))
    # A file of setuptools for paths is read at the start of every Python of the environment.
    assert set(imported) - {"embedding-kit", "setuptools"} == declared
    assert declared == {"numpy", "onnxruntime", "orjson"}
