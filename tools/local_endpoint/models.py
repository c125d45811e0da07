"""Finds or compiles the artifact of a model and the search index of texts or documents.

Both are stored in .cache. They are built again when their input, or the code that builds them, has
changed.
"""

import fcntl
import hashlib
import json
import re
import subprocess
import sys
import sysconfig
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.local_endpoint.standard_library import standard_library

ROOT = Path(__file__).resolve().parents[2]
DEFAULT_MODEL = "sentence-transformers/all-MiniLM-L6-v2"
STANDARD_LIBRARY = "standard-library"
_CACHE = ROOT / ".cache" / "artifacts"
# A deploy compares nearest neighbors among 250 documents, which takes most of the compile time.
_DOCUMENTS = 100
_TAIL = 20
#: What names the artifact in a folder, or the several ones.
_NAMES = ("manifest.json", "artifacts.json")
_SOURCES = ("lambda_image/model_compiler", "lambda_image/embedder")


class ModelError(Exception):
    """The model cannot be served."""


def artifact_of(
    model: str,
    *,
    task: str | None = None,
    accept_license: str | None = None,
    cache: Path = _CACHE,
    verbose: bool = False,
) -> Path:
    """Return the artifact folder of a model. Compile the model if necessary."""
    folder = Path(model).expanduser()
    if any((folder / name).is_file() for name in _NAMES):
        return folder.resolve()
    name = folder.resolve().name if folder.is_dir() else model.rpartition("/")[2]
    artifact = cache / f"{name}-{_fingerprint(model, folder)}{f'-{task}' * bool(task)}"
    options = {"--accept-license": accept_license, "--task": task, "--documents": str(_DOCUMENTS)}
    command = ["model_compiler", model]
    command += [word for name, value in options.items() if value for word in (name, value)]
    _build(artifact, f"compiling {model}", command, verbose=verbose)
    return artifact


def together_of(artifacts: Mapping[str, Path], *, cache: Path = _CACHE) -> Path:
    """Return a folder of several artifacts, which one function serves."""
    names = json.dumps({task: str(folder) for task, folder in artifacts.items()}, sort_keys=True)
    together = cache / f"together-{hashlib.sha256(names.encode()).hexdigest()[:12]}"
    together.mkdir(parents=True, exist_ok=True)
    for task, folder in artifacts.items():
        if not (together / task).exists():
            (together / task).symlink_to(folder, target_is_directory=True)
    program = [sys.executable, "-m", "model_compiler.artifact.together", str(together)]
    done = subprocess.run(program, check=False, capture_output=True, text=True)  # noqa: S603  (our own program)
    if done.returncode:
        raise ModelError(done.stderr.strip().removeprefix("error: "))
    return together


def index_of(
    texts: str, artifact: Path, *, bm25: bool = False, cache: Path = _CACHE, verbose: bool = False
) -> Path:
    """Return the folder of a search index. Build the index if necessary."""
    path = Path(texts).expanduser()
    if (path / "manifest.json").is_file():
        return path.resolve()
    if texts == STANDARD_LIBRARY:
        path = cache / f"python{sysconfig.get_python_version()}.json"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(standard_library()), encoding="utf-8")
        source, name = str(path), path.stem
    else:
        source, name = texts, f"{path.stem}-{_fingerprint(texts, path)}"
    index = cache / f"index-{name}-{_digest(artifact)}{'-bm25' * bm25}"
    command = ["model_compiler.index_builder", source, "--artifact", str(artifact)]
    command += ["--bm25"] * bm25
    _build(index, f"embedding the texts of {texts}", command, verbose=verbose)
    return index


def documents_of(
    folder: str, artifact: Path, *, metadata: Sequence[str] = (), cache: Path = _CACHE
) -> Path:
    """Return the folder of an index of the documents in a folder, as they are now."""
    path = Path(folder).expanduser().resolve()
    digest = hashlib.sha256(str(path).encode()).hexdigest()[:12]
    index = cache / f"documents-{path.name}-{digest}-{_digest(artifact)}"
    command = ["tools.local_endpoint.documents", str(path), "--artifact", str(artifact)]
    command += [word for key in metadata for word in ("--metadata", key)]
    # Its progress is shown: a first run may take minutes.
    _build(index, f"reading the documents of {folder}", command, verbose=True, again=True)
    return index


def _digest(artifact: Path) -> str:
    named = next(file for file in _NAMES if (artifact / file).is_file())
    return hashlib.sha256((artifact / named).read_bytes()).hexdigest()[:12]


def _build(
    folder: Path, title: str, command: Sequence[str], *, verbose: bool, again: bool = False
) -> None:
    """Build a folder with a program, unless it exists and need not be built again."""
    if not again and (folder / "manifest.json").is_file():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        # Another process may build the same folder. Closing the file releases the lock.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if again or not (folder / "manifest.json").is_file():
            _run(folder, title, command, verbose=verbose)


def _run(folder: Path, title: str, command: Sequence[str], *, verbose: bool) -> None:
    # In another process, because this package and the compiler share only the folder.
    program = [sys.executable, "-m", *command, "--output", str(folder)]
    if verbose:
        sys.stderr.write(f"{title} ...\n")
        if subprocess.run(program, check=False, stdout=sys.stderr).returncode:  # noqa: S603  (our own program)
            raise ModelError(f"{title} failed.")
        return
    sys.stderr.write(f"{title} ... ")
    sys.stderr.flush()
    began = time.monotonic()
    log = folder.with_name(f"{folder.name}.log")
    with (
        log.open("wb") as output,
        subprocess.Popen(program, stdout=output, stderr=subprocess.STDOUT) as build,  # noqa: S603  (our own program)
    ):
        while True:
            try:
                build.wait(1)
                break
            except subprocess.TimeoutExpired:
                _show_percentage(title, log)
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{title} ... \033[K")  # in place of the last percentage
    if build.returncode != 0:
        sys.stderr.write("failed\n")
        # A progress bar overwrites its line, so show only the last state of each line.
        lines = log.read_bytes().decode(errors="replace").split("\n")
        tail = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines[-_TAIL:])
        raise ModelError(f"{title} failed. The log is {log}; its last lines are:\n{tail}")
    sys.stderr.write(f"{time.monotonic() - began:.0f} s\n")


def _show_percentage(title: str, log: Path) -> None:
    """Show on a terminal how far the program's last progress bar is."""
    shown = re.findall(rb"(\d+)%", log.read_bytes())
    if shown and sys.stderr.isatty():
        sys.stderr.write(f"\r{title} ... {int(shown[-1])}% ")
        sys.stderr.flush()


def _fingerprint(model: str, folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(path for root in _SOURCES for path in (ROOT / root).rglob("*.py")):
        digest.update(path.read_bytes())
    if folder.exists():
        paths = [folder.resolve(), *folder.resolve().rglob("*")]
        files = sorted(path for path in paths if path.is_file())
        stats = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in files]
        digest.update(json.dumps(stats).encode())
    else:
        digest.update(model.encode())
    return digest.hexdigest()[:12]
