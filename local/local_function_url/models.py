"""Models and texts, named as people name them → artifacts and indexes, made where they are not yet.

Both are kept in .cache, and made anew when what they are made of, or what makes them, has changed.
"""

import hashlib
import json
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

__all__ = ["DEFAULT_MODEL", "ROOT", "STANDARD_LIBRARY", "ModelError", "artifact_of", "index_of"]

ROOT = Path(__file__).resolve().parents[2]
DEFAULT_MODEL = "sentence-transformers/all-MiniLM-L6-v2"
STANDARD_LIBRARY = "standard-library"
_CACHE = ROOT / ".cache" / "artifacts"
# A deploy compares the nearest neighbors among 250 documents, which is most of a compile's time.
_DOCUMENTS = 100
_TAIL = 20
_SOURCES = ("lambda_image/model_compiler", "lambda_image/embedder")


class ModelError(Exception):
    """The model cannot be served; the reason has been told, or is the message."""


def artifact_of(
    model: str,
    *,
    accept_license: str | None = None,
    cache: Path = _CACHE,
    verbose: bool = False,
) -> Path:
    """Returns the artifact of a model.

    Args:
        model: an artifact's folder, a sentence-transformers folder, or a name of the catalogue.
        accept_license: the name of a license whose terms the user accepts; some models have one.
        cache: where compiled artifacts are kept.
        verbose: show what the compiler prints, which otherwise goes to a log file.

    Raises:
        ModelError: it cannot be compiled.
    """
    folder = Path(model).expanduser()
    if (folder / "manifest.json").is_file():
        return folder.resolve()
    name = folder.resolve().name if folder.is_dir() else model.rpartition("/")[2]
    artifact = cache / f"{name}-{_fingerprint(model, folder)}"
    accepted = ["--accept-license", accept_license] if accept_license else []
    fewer = ["--documents", str(_DOCUMENTS)]
    command = ["model_compiler", model, *accepted, *fewer]
    _make(artifact, f"compiling {model}", command, verbose=verbose)
    return artifact


def index_of(texts: str, artifact: Path, *, cache: Path = _CACHE, verbose: bool = False) -> Path:
    """Returns the search index of some texts.

    Args:
        texts: an index's folder, a file (a JSON list of strings, or a text on each line), or
            `standard-library` for the docstrings of Python's.
        artifact: the model that embeds them.
        cache: where indexes are kept.
        verbose: show what the index's builder prints, which otherwise goes to a log file.

    Raises:
        ModelError: it cannot be built.
    """
    path = Path(texts).expanduser()
    if (path / "manifest.json").is_file():
        return path.resolve()
    if texts == STANDARD_LIBRARY:
        source, name = (
            "--standard-library",
            f"python{sys.version_info.major}.{sys.version_info.minor}",
        )
    else:
        source, name = texts, f"{path.stem}-{_fingerprint(texts, path)}"
    made_by = hashlib.sha256((artifact / "manifest.json").read_bytes()).hexdigest()[:12]
    index = cache / f"index-{name}-{made_by}"
    command = ["model_compiler.index_builder", source, "--artifact", str(artifact)]
    _make(index, f"embedding the texts of {texts}", command, verbose=verbose)
    return index


def _make(folder: Path, told: str, command: Sequence[str], *, verbose: bool) -> None:
    """Makes a folder, if it is not there, by a module of the compiler."""
    if (folder / "manifest.json").is_file():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    # A program of its own: the compiler and this one share nothing but the folder.
    program = [sys.executable, "-m", *command, "--output", str(folder)]
    if verbose:
        sys.stderr.write(f"{told} ...\n")
        if subprocess.run(program, check=False, stdout=sys.stderr).returncode:  # noqa: S603  (ours)
            raise ModelError(f"{told} failed.")
        return
    sys.stderr.write(f"{told} ... ")
    sys.stderr.flush()
    began = time.monotonic()
    log = folder.with_name(f"{folder.name}.log")
    with log.open("wb") as output:
        made = subprocess.run(program, check=False, stdout=output, stderr=subprocess.STDOUT)  # noqa: S603  (ours)
    if made.returncode != 0:
        sys.stderr.write("failed\n")
        # A progress bar draws over itself: of each line only what was drawn last is shown.
        lines = log.read_bytes().decode(errors="replace").split("\n")
        tail = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines[-_TAIL:])
        raise ModelError(f"{told} failed; the whole log is {log}, its last lines are:\n{tail}")
    sys.stderr.write(f"{time.monotonic() - began:.0f} s\n")


def _fingerprint(model: str, folder: Path) -> str:
    digest = hashlib.sha256()
    sources: Iterable[Path] = (path for root in _SOURCES for path in (ROOT / root).rglob("*.py"))
    for path in sorted(sources):
        digest.update(path.read_bytes())
    if folder.exists():
        whole = [folder.resolve(), *folder.resolve().rglob("*")]
        files = sorted(path for path in whole if path.is_file())
        stats = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in files]
        digest.update(json.dumps(stats).encode())
    else:
        digest.update(model.encode())
    return digest.hexdigest()[:12]
