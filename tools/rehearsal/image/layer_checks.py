"""Checks of the image's layers, their files, and the byte code."""

import dataclasses
import json
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from tools.rehearsal.image import contents
from tools.rehearsal.image.asset import build
from tools.rehearsal.image.image_under_test import ImageUnderTest, first_few
from tools.rehearsal.image.layers import LARGE_BYTES, File, Image
from tools.rehearsal.image.report import Report
from tools.rehearsal.image.runtime import run_inside

__all__ = [
    "ASK_PYTHON",
    "PLATFORM",
    "check_bytecode",
    "check_code_change",
    "check_files",
    "check_layers",
    "check_pyc_files",
    "check_shared_layers",
]

#: Prints what names the byte code of a Python: its cache tag, its magic number and its version.
ASK_PYTHON = (
    "import importlib.util, json, sys; print(json.dumps([sys.implementation.cache_tag, "
    "importlib.util.MAGIC_NUMBER.hex(), sys.version.split()[0]]))"
)

PLATFORM = "linux/arm64"
_BY = "docker save"


def check_layers(tested: ImageUnderTest) -> None:
    """Check platform, manifest, order and size, and that no build files are left."""
    report, image, name = tested.report, tested.image, tested.name
    report.check(
        name, f"platform {PLATFORM}", image.platform == PLATFORM, by=_BY, found=image.platform
    )
    check = "one plain manifest, not an index"
    report.check(name, check, image.manifests == 1, by=_BY, found=f"{image.manifests} manifest")
    found = contents.kinds(image.own)
    check = f"the layers are {', '.join(tested.layers)}"
    report.check(name, check, found == [*tested.layers], by=_BY, found=", ".join(found))
    _check_size(tested, found)
    files = [file for layer in image.own for file in layer.files]
    every = [file for layer in image.layers for file in layer.files]
    check_files(report, name, files, every=every, by=_BY)


def check_files(
    report: Report, name: str, files: Sequence[File], *, every: Sequence[File], by: str
) -> None:
    """Check that no build files are left, that none is in it twice, and that all can be read.

    Args:
        report: The report of the checks.
        name: What has the files, as the report names it.
        files: Our own files.
        every: These and the base image's, if there is one.
        by: How they were read.
    """
    left = [f"{path} ({kind})" for kind, path in contents.leftovers(files)]
    check = "no build stages, package caches, tests, compilers or model sources"
    report.check(name, check, not left, by=by, found=first_few(left))
    doubled = [" = ".join(map(str, paths)) for paths in contents.copies(every)]
    check = f"no file of {LARGE_BYTES / 1e6:.0f} MB or more is in it twice"
    report.check(name, check, not doubled, by="SHA-256 of each", found=first_few(doubled))
    closed = [str(path) for path in contents.unreadable(files)]
    report.check(
        name, "Lambda's user can read each file", not closed, by=by, found=first_few(closed)
    )


def _check_size(tested: ImageUnderTest, kinds: list[str]) -> None:
    report, image = tested.report, tested.image
    measured = contents.sizes(image.own)
    beside = sum(sum(tops.values()) for kind, tops in measured.items() if kind != "model")
    report.check(
        tested.name,
        f"everything except base and model is under {tested.most_bytes / 1e6:.0f} MB unpacked",
        beside < tested.most_bytes,
        by=_BY,
        found=f"{beside / 1e6:.1f} MB",
    )
    for number, layer in enumerate(image.layers):
        kind = "base" if number < image.base_layers else kinds[number - image.base_layers]
        size = f"{layer.size / 1e6:.1f} MB, {len(layer.files)} files"
        report.note(f"Layer {number + 1} of the {tested.name}, {kind}: {size}.")
    for kind, tops in measured.items():
        largest = [f"{top} {size / 1e6:.1f}" for top, size in list(tops.items())[:12]]
        report.note(f"In {kind}, MB: {', '.join(largest)}.")


def check_shared_layers(tested: ImageUnderTest, endpoint: Image, *, own: list[int]) -> None:
    """Check that a push after the endpoint's sends only what this image has beside it.

    Args:
        tested: The image of another target.
        endpoint: The endpoint's image.
        own: The numbers of the layers, from 0, that the endpoint's image does not have.
    """
    digests = {layer.digest for layer in endpoint.layers}
    found = [number for number, layer in enumerate(tested.image.own) if layer.digest not in digests]
    sizes = [f"{tested.image.own[number].size / 1e6:.1f} MB" for number in found]
    tested.report.check(
        tested.name,
        "all layers but its own packages and code are those of the endpoint's image",
        found == own,
        by="the layers' digests",
        found=f"own: {', '.join(sizes)}",
    )


def check_bytecode(tested: ImageUnderTest) -> None:
    """Check that every module of ours has byte code for the image's Python."""
    report, image = tested.report, tested.image
    output = run_inside(
        tested.docker, tested.asset.tag, ["-c", ASK_PYTHON], environment=tested.variables
    )
    task = {
        path: content
        for layer in image.own
        for path, content in image.read(layer, "/var/task/")
        if path.suffix in {".py", ".pyc"}
    }
    check_pyc_files(report, tested.name, task, python=output, by="docker save")
    with report.step(f"importing {tested.imports} with python -v"):
        compiled = _compiled_imports(tested)
    ours = [path for path in compiled if path.startswith("/var/task/")]
    check = "a start compiles no module of ours"
    report.check(
        tested.name, check, not ours, by="python -v in the container", found=first_few(ours)
    )
    if base := [path for path in compiled if path not in ours]:
        report.note(
            f"The base image itself compiles {len(base)} modules at start: {first_few(base)}."
        )


def check_pyc_files(
    report: Report, name: str, task: Mapping[PurePosixPath, bytes], *, python: str, by: str
) -> None:
    """Check that each module has byte code that Lambda's Python uses without a look at its source.

    Args:
        report: The report of the checks.
        name: What has the files, as the report names it.
        task: The modules and their byte code under `/var/task`.
        python: What the Python that runs them prints for `ASK_PYTHON`.
        by: How the files were read.
    """
    tag, magic, version = json.loads(python)
    faults = [
        f"{path}: {why}"
        for path, why in contents.bytecode_faults(task, tag=tag, magic=bytes.fromhex(magic))
    ]
    modules = sum(path.suffix == ".py" for path in task)
    report.check(
        name,
        f"each of the {modules} modules under /var/task has its .pyc for Python {version}, "
        "unchecked-hash",
        not faults and modules > 0,
        by=f"{by}, PEP 552",
        found=first_few(faults),
    )


def _compiled_imports(tested: ImageUnderTest) -> list[str]:
    script = f"import sys; sys.path.insert(0, '/var/task'); import {tested.imports}"
    # Python reports imports on the standard error, which the wrapper prints.
    wrapper = (
        "import subprocess, sys; done = subprocess.run([sys.executable, '-v', '-c', sys.argv[1]], "
        "capture_output=True, text=True); print(done.stderr); sys.exit(done.returncode)"
    )
    output = run_inside(
        tested.docker,
        tested.asset.tag,
        ["-c", wrapper, script],
        environment=tested.variables,
    )
    # Python names a module's .pyc in quotes if it reads it, and its source if it compiles it.
    return re.findall(r"^# code object from (/\S+\.py)$", output, re.MULTILINE)


def check_code_change(tested: ImageUnderTest) -> None:
    """Build again with changed code and without a cache, and compare the layers."""
    context = tested.folder / "changed"
    shutil.copytree(tested.asset.context, context, symlinks=True)
    handler = context / "embedder" / "handler.py"
    handler.write_text(handler.read_text() + "\n# changed by the rehearsal\n")
    name = f"{tested.asset.hash[:12]}-changed"
    changed = dataclasses.replace(tested.asset, context=context, hash=name)
    build(tested.docker, changed, cached=False)
    output = tested.docker.run(
        "image", "inspect", "--format", "{{json .RootFS.Layers}}", changed.tag
    )
    tested.docker.run("image", "rm", changed.tag)
    before, after = [layer.digest for layer in tested.image.layers], json.loads(output)
    pairs = enumerate(zip(before, after, strict=False), start=1)
    differ = [number for number, (one, other) in pairs if one != other]
    tested.report.check(
        tested.name,
        "a change of code changes only the last layer, even without a build cache",
        differ == [len(before)] and len(before) == len(after),
        by="a second build without cache",
        found=f"changed: {differ} of {len(after)}",
    )
