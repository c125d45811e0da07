"""The checks of what the image is made of: its layers, what stands in them, and its byte code."""

import dataclasses
import json
import re
import shutil

from image_rehearsal import contents
from image_rehearsal.asset import build
from image_rehearsal.layers import LARGE_BYTES
from image_rehearsal.runtime import run_inside
from image_rehearsal.subject import Subject, some

__all__ = ["PLATFORM", "check_bytecode", "check_code_change", "check_layers"]

PLATFORM = "linux/arm64"
#: What everything beside the base and the model may weigh unpacked.
_GOAL_BYTES = 100_000_000
_BY = "docker save"


def check_layers(subject: Subject) -> None:
    """Check platform, manifest, order, size, and that nothing is left over."""
    report, image = subject.report, subject.image
    report.check(
        "image", f"platform {PLATFORM}", image.platform == PLATFORM, by=_BY, found=image.platform
    )
    told = "one plain manifest, no index"
    report.check("image", told, image.manifests == 1, by=_BY, found=f"{image.manifests} manifest")
    found = contents.kinds(image.own)
    order = ["dependencies", "model", "code"]
    told = "dependencies, then model, then code"
    report.check("layers", told, found == order, by=_BY, found=", ".join(found))
    _check_size(subject, found)
    files = [file for layer in image.own for file in layer.files]
    left = [f"{path} ({what})" for what, path in contents.leftovers(files)]
    told = "nothing left of build stages, package cache, tests, compiler, model source"
    report.check("image", told, not left, by=_BY, found=some(left))
    every = [file for layer in image.layers for file in layer.files]
    doubled = [" = ".join(map(str, paths)) for paths in contents.copies(every)]
    told = f"no file of {LARGE_BYTES / 1e6:.0f} MB or more is there twice"
    report.check("image", told, not doubled, by="SHA-256 of each", found=some(doubled))
    closed = [str(path) for path in contents.unreadable(files)]
    report.check(
        "image", "Lambda's user can read each file", not closed, by=_BY, found=some(closed)
    )


def _check_size(subject: Subject, kinds: list[str]) -> None:
    report, image = subject.report, subject.image
    measured = contents.sizes(image.own)
    beside = sum(sum(tops.values()) for kind, tops in measured.items() if kind != "model")
    report.check(
        "size",
        f"everything beside base and model is under {_GOAL_BYTES / 1e6:.0f} MB unpacked",
        beside < _GOAL_BYTES,
        by=_BY,
        found=f"{beside / 1e6:.1f} MB",
    )
    for number, layer in enumerate(image.layers):
        what = "base" if number < image.base_layers else kinds[number - image.base_layers]
        size = f"{layer.size / 1e6:.1f} MB, {len(layer.files)} files"
        report.note(f"Layer {number + 1}, {what}: {size}.")
    for kind, tops in measured.items():
        largest = [f"{top} {size / 1e6:.1f}" for top, size in list(tops.items())[:12]]
        report.note(f"In {kind}, MB: {', '.join(largest)}.")


def check_bytecode(subject: Subject) -> None:
    """Check that the image's Python finds every module of ours compiled."""
    report, image = subject.report, subject.image
    ask = (
        "import importlib.util, json, sys; print(json.dumps([sys.implementation.cache_tag, "
        "importlib.util.MAGIC_NUMBER.hex(), sys.version.split()[0]]))"
    )
    told = run_inside(subject.docker, subject.asset.tag, ["-c", ask], environment=subject.variables)
    tag, magic, version = json.loads(told)
    task = {
        path: content
        for layer in image.own
        for path, content in image.read(layer, "/var/task/")
        if path.suffix in {".py", ".pyc"}
    }
    faults = [
        f"{path}: {why}"
        for path, why in contents.bytecode_faults(task, tag=tag, magic=bytes.fromhex(magic))
    ]
    modules = sum(path.suffix == ".py" for path in task)
    report.check(
        "byte code",
        f"each of the {modules} modules under /var/task has its .pyc for Python {version}, "
        "unchecked-hash",
        not faults and modules > 0,
        by="docker save, PEP 552",
        found=some(faults),
    )
    with report.step("importing the handler with every import told"):
        compiled = _compiled_imports(subject)
    ours = [path for path in compiled if path.startswith("/var/task/")]
    told = "importing the handler compiles nothing of ours"
    report.check("byte code", told, not ours, by="python -v in the container", found=some(ours))
    if base := [path for path in compiled if path not in ours]:
        report.note(f"The base image itself compiles {len(base)} modules at start: {some(base)}.")


def _compiled_imports(subject: Subject) -> list[str]:
    script = "import sys; sys.path.insert(0, '/var/task'); import embedder.handler"
    # Python tells on the standard error, which the wrapper turns into the output.
    wrapper = (
        "import subprocess, sys; done = subprocess.run([sys.executable, '-v', '-c', sys.argv[1]], "
        "capture_output=True, text=True); print(done.stderr); sys.exit(done.returncode)"
    )
    told = run_inside(
        subject.docker,
        subject.asset.tag,
        ["-c", wrapper, script],
        environment=subject.variables,
    )
    # A module from byte code is told with its .pyc in quotes, a compiled one with its bare source.
    return re.findall(r"^# code object from (/\S+\.py)$", told, re.MULTILINE)


def check_code_change(subject: Subject) -> None:
    """Build again with a change of code, without any cache, and compare the layers."""
    context = subject.folder / "changed"
    shutil.copytree(subject.asset.context, context, symlinks=True)
    handler = context / "embedder" / "handler.py"
    handler.write_text(handler.read_text() + "\n# changed by the rehearsal\n")
    name = f"{subject.asset.hash[:12]}-changed"
    changed = dataclasses.replace(subject.asset, context=context, hash=name)
    build(subject.docker, changed, cached=False)
    told = subject.docker.run(
        "image", "inspect", "--format", "{{json .RootFS.Layers}}", changed.tag
    )
    subject.docker.run("image", "rm", changed.tag)
    before, after = [layer.digest for layer in subject.image.layers], json.loads(told)
    pairs = enumerate(zip(before, after, strict=False), start=1)
    differ = [number for number, (one, other) in pairs if one != other]
    subject.report.check(
        "layers",
        "a change of code changes the last layer alone, where no build is cached too",
        differ == [len(before)] and len(before) == len(after),
        by="a second build without cache",
        found=f"changed: {differ} of {len(after)}",
    )
