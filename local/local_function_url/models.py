"""A model, named as people name it → the folder of its artifact, compiled where it is not yet."""

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

__all__ = ["DEFAULT_MODEL", "ROOT", "ModelError", "artifact_of"]

ROOT = Path(__file__).resolve().parents[2]
DEFAULT_MODEL = "sentence-transformers/all-MiniLM-L6-v2"
_SOURCES = ("lambda_image/model_compiler", "lambda_image/embedder")


class ModelError(Exception):
    """The model cannot be served; the reason has been told, or is the message."""


def artifact_of(model: str, *, cache: Path = ROOT / ".cache" / "artifacts") -> Path:
    """Returns the artifact of a model.

    Args:
        model: an artifact's folder, a sentence-transformers folder, or a name of the catalogue.
        cache: where compiled artifacts are kept. One is compiled anew when the folder or the
            compiler has changed.

    Raises:
        ModelError: it cannot be compiled.
    """
    folder = Path(model).expanduser()
    if (folder / "manifest.json").is_file():
        return folder.resolve()
    name = folder.resolve().name if folder.is_dir() else model.rpartition("/")[2]
    artifact = cache / f"{name}-{_fingerprint(model, folder)}"
    if not (artifact / "manifest.json").is_file():
        cache.mkdir(parents=True, exist_ok=True)
        sys.stderr.write(f"compiling {model} ...\n")
        command = [sys.executable, "-m", "model_compiler", model, "--output", str(artifact)]
        # A program of its own: the compiler and this one share nothing but the artifact.
        if subprocess.run(command, check=False, stdout=sys.stderr).returncode != 0:  # noqa: S603
            raise ModelError(f"{model} could not be compiled.")
    return artifact


def _fingerprint(model: str, folder: Path) -> str:
    digest = hashlib.sha256()
    sources: Iterable[Path] = (path for root in _SOURCES for path in (ROOT / root).rglob("*.py"))
    for path in sorted(sources):
        digest.update(path.read_bytes())
    if folder.is_dir():
        files = sorted(path for path in folder.resolve().rglob("*") if path.is_file())
        stats = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in files]
        digest.update(json.dumps(stats).encode())
    else:
        digest.update(model.encode())
    return digest.hexdigest()[:12]
