"""The programs in the image's recipe, which the wheel has below this package.

Their packages have common names, such as `embedder`. So Python finds them in a process that runs or
imports one of them, and in no other: the command `embedding-kit`, and `embedding_kit.engine`.

The client runs a job on this machine with `python -m embedding_kit.programs jobs.embed JSON`.
"""

import json
import os
import runpy
import select
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import NoReturn

#: The modules that can be run, with what each does.
PROGRAMS = {
    "embedder.server": "serves a model as a long-lived HTTP server",
    "model_compiler": "compiles, verifies and inspects models",
    "model_compiler.index_builder": "builds an image's index from texts",
}


@dataclass(frozen=True, slots=True)
class JobMap:
    """Names of a job that its state machine works on, item by item."""

    #: An item: the step that works on it. The plan returns `{item}s`, their number, and
    #: `{item}s_key`, the key of a file with one item a line.
    item: str
    #: Path of the plan below a job's folder, with wildcards.
    plan: str
    #: Path of the folder with the records of the items, below a job's folder.
    results: str


@dataclass(frozen=True, slots=True)
class Contract:
    """Names that the code of the images shares with the constructs that deploy it."""

    #: Handlers by their programs.
    handlers: Mapping[str, str]
    jobs: Mapping[str, JobMap]
    #: Classes of errors: a second attempt would find the `final` ones again; those of `passing`
    #: pass, as throttles do.
    errors: Mapping[str, Sequence[str]]
    #: Variables of the environment by their settings.
    variables: Mapping[str, str]
    tags: Mapping[str, str]


@cache
def contract() -> Contract:
    """Read the names that the images and the constructs share.

    The images have these names in their code, which a test compares: a start reads no file for
    them.
    """
    names = json.loads((image_folder() / "contract.json").read_bytes())
    names["jobs"] = {job: JobMap(**fields) for job, fields in names["jobs"].items()}
    return Contract(**names)


def image_folder() -> Path:
    """Find the Docker context: in the installed package, else in the surrounding repository.

    Raises:
        FileNotFoundError: It is in neither place.
    """
    package = Path(__file__).parent
    folders = (package / "lambda_image", package.parents[1] / "lambda_image")
    for folder in folders:
        if (folder / "Dockerfile").is_file():
            return folder
    looked = " and ".join(str(folder) for folder in folders)
    raise FileNotFoundError(f"the image's Dockerfile is missing; looked in {looked}")


def python_version() -> str:
    """Return the Python that the image and the zip run, such as `3.13`."""
    return (image_folder() / ".python-version").read_text(encoding="utf-8").strip()


def run(program: str, arguments: list[str]) -> None:
    """Run a program as `python -m` does, without the current folder on the path."""
    if not sys.flags.safe_path:
        del sys.path[0]
    # The processes that the program starts leave the current folder out, too.
    os.environ["PYTHONSAFEPATH"] = "1"
    sys.path.insert(0, str(image_folder()))
    sys.argv = [program, *arguments]
    runpy.run_module(program, run_name="__main__", alter_sys=True)


def exit_with(main: Callable[[], int | str | None]) -> NoReturn:
    """Run a command and exit with its status: with 1, quietly, if a pipe's reader has gone."""
    try:
        try:
            status = main()
        except SystemExit as ended:  # such as after --help
            status = ended.code
        sys.stdout.flush()
    except BrokenPipeError:
        if not _reader_has_gone():
            raise  # It was another pipe or a connection.
        # Python flushes both once more at its end.
        with Path(os.devnull).open("wb") as nothing:
            for stream in (sys.stdout, sys.stderr):
                os.dup2(nothing.fileno(), stream.fileno())
        status = 1
    sys.exit(status)


def _reader_has_gone() -> bool:
    poll = select.poll()
    for stream in (sys.stdout, sys.stderr):
        poll.register(stream, 0)
    return bool(poll.poll(0))


def import_modules(*names: str) -> list[ModuleType]:
    """Import modules of the programs; the path of the process stays as it was."""
    folder = str(image_folder())
    sys.path.insert(0, folder)
    try:
        return [import_module(name) for name in names]
    finally:
        sys.path.remove(folder)


if __name__ == "__main__":
    exit_with(lambda: run(sys.argv[1], sys.argv[2:]))
