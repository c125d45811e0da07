"""The checks of `scripts/verify-image`, in the order in which they are made."""

import dataclasses
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path, PurePosixPath
from typing import Any

from image_rehearsal import contents, layers
from image_rehearsal.asset import ImageAsset, build, certificates, image_assets, synthesize
from image_rehearsal.base_image import Base, ensure_bases, final_base
from image_rehearsal.docker import ContainersUnavailableError, Docker, containers, emulated
from image_rehearsal.report import Report
from image_rehearsal.runtime import event, run_here, run_inside, running
from image_rehearsal.vectors import COSINE, TEXTS, body_of, least_cosine, vectors_of

__all__ = ["verify"]

#: What everything beside the base and the model may weigh unpacked.
_GOAL_BYTES = 130_000_000
_PLATFORM = "linux/arm64"


def verify(root: Path, environment: str, *, require_containers: bool) -> Report:
    """Build an environment's image and check it.

    Args:
        root: The repository.
        environment: The environment whose image it is.
        require_containers: Whether it is a failure that containers cannot run here.
    """
    report = Report(title=f"The image of the environment {environment}")
    with tempfile.TemporaryDirectory(prefix="verify-image-") as name:
        folder = Path(name)
        with report.step("synthesizing the stacks"):
            assembly = synthesize(root, environment, folder / "cdk.out")
        assets = image_assets(assembly)
        function = embedder_function(assembly)
        asset = next(asset for asset in assets if asset.hash in json.dumps(function["Code"]))
        _check_asset(report, asset)
        try:
            with containers(root / ".cache" / "docker") as docker:
                _check_image(report, docker, asset, _variables(function), folder, root)
        except ContainersUnavailableError as error:
            if require_containers:
                report.check("containers", "run on this machine", False, by="Docker", found=error)
            else:
                report.note(str(error))
            report.unproven(
                "image",
                "builds, starts and answers on ARM64",
                instead="the Dockerfile alone was read",
            )
    return report


def embedder_function(assembly: Path) -> dict[str, Any]:
    """Find the properties of the function that runs the image's own command."""
    for template in sorted(assembly.glob("*.template.json")):
        for resource in json.loads(template.read_text()).get("Resources", {}).values():
            properties: dict[str, Any] = resource.get("Properties", {})
            if resource["Type"] == "AWS::Lambda::Function" and "ImageUri" in properties["Code"]:
                if "Command" not in properties.get("ImageConfig", {}):
                    return properties
    raise ValueError(f"{assembly}: no function runs an image's own command")


def _variables(function: dict[str, Any]) -> dict[str, str]:
    """What the stacks set, and what Lambda would set beside it."""
    stated = function.get("Environment", {}).get("Variables", {})
    return {
        **{name: value for name, value in stated.items() if isinstance(value, str)},
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(function.get("MemorySize", 128)),
        "AWS_LAMBDA_FUNCTION_NAME": "rehearsal",
        # Emulated arithmetic is slow; what is asked here is whether it is right.
        "AWS_LAMBDA_FUNCTION_TIMEOUT": "900",
        "LAMBDA_TASK_ROOT": "/var/task",
    }


def _check_asset(report: Report, asset: ImageAsset) -> None:
    by = "the cloud assembly's asset manifest"
    report.check(
        "build", f"asks for {_PLATFORM}", asset.platform == _PLATFORM, by=by, found=asset.platform
    )
    last = (asset.context / asset.file).read_text().rpartition("\nFROM ")[2]
    told = "the Dockerfile's last stage only copies, so it needs no emulation"
    report.check("build", told, "\nRUN " not in last, by="the Dockerfile as it is staged")


def _check_image(
    report: Report,
    docker: Docker,
    asset: ImageAsset,
    variables: dict[str, str],
    folder: Path,
    root: Path,
) -> None:
    with report.step("getting the base images"):
        bases = ensure_bases(docker, asset)
    _tell_bases(report, docker, bases)
    with report.step("building the image: docker " + " ".join(asset.command)):
        build(docker, asset)
    if certificates(asset):
        report.note("The build stages were given this machine's certificates as a secret.")
    with report.step("taking the image apart"):
        image = layers.save(docker, asset.tag, base=final_base(asset).name, folder=folder)
    _check_layers(report, docker, asset, image, variables)
    with report.step("building again with a change of code, from nothing"):
        _check_code_change(report, docker, asset, image, folder)
    _check_answers(report, docker, asset, image, variables, folder, root)


def _tell_bases(report: Report, docker: Docker, bases: list[Base]) -> None:
    daemon = "started by hand and stopped after" if docker.own else "this machine's own"
    report.note(
        f"Docker: {daemon}. ARM64 is {'emulated by qemu' if emulated() else 'native'} here."
    )
    for base in bases:
        told = {
            "pulled": "the real one, pulled",
            "stand-in": "a stand-in, Debian with the same Python minor version, AWS's runtime interface "
            "client and emulator: no registry with the real one can be reached from here",
        }[base.origin]
        report.note(f"Base image {base.name} ({base.architecture}): {told}.")


def _check_layers(
    report: Report,
    docker: Docker,
    asset: ImageAsset,
    image: layers.Image,
    variables: dict[str, str],
) -> None:
    by = "docker save"
    report.check(
        "image", f"platform {_PLATFORM}", image.platform == _PLATFORM, by=by, found=image.platform
    )
    media, entries = _manifest(image)
    report.check("image", "one plain manifest, no index", entries == 1, by=by, found=media)
    found = contents.kinds(image.own)
    order = ["dependencies", "model", "code"]
    report.check(
        "layers",
        "dependencies, then model, then code",
        found == order,
        by=by,
        found=", ".join(found),
    )
    measured = contents.sizes(image.own)
    beside = sum(sum(tops.values()) for kind, tops in measured.items() if kind != "model")
    report.check(
        "size",
        f"everything beside base and model is under {_GOAL_BYTES / 1e6:.0f} MB unpacked",
        beside < _GOAL_BYTES,
        by=by,
        found=f"{beside / 1e6:.1f} MB",
    )
    for number, layer in enumerate(image.layers):
        what = "base" if number < image.base_layers else found[number - image.base_layers]
        report.note(
            f"Layer {number + 1}, {what}: {layer.size / 1e6:.1f} MB, {len(layer.files)} files."
        )
    for kind, tops in measured.items():
        largest = [f"{top} {size / 1e6:.1f}" for top, size in list(tops.items())[:12]]
        report.note(f"In {kind}, MB: {', '.join(largest)}.")
    files = [file for layer in image.own for file in layer.files]
    left = [f"{path} ({what})" for what, path in contents.leftovers(files)]
    told = "nothing left of build stages, package cache, tests, compiler, model source"
    report.check("image", told, not left, by=by, found=_some(left))
    closed = [str(path) for path in contents.unreadable(files)]
    report.check(
        "image", "Lambda's user can read every file", not closed, by=by, found=_some(closed)
    )
    _check_bytecode(report, docker, asset, image, variables)


def _manifest(image: layers.Image) -> tuple[str, int]:
    """Read how many images the archive holds, and of which media type where it says so."""
    import tarfile  # noqa: PLC0415

    with tarfile.open(image.archive) as tar:
        member = tar.extractfile("manifest.json")
        entries = len(json.load(member)) if member else 0
    return f"{entries} manifest", entries


def _check_bytecode(
    report: Report,
    docker: Docker,
    asset: ImageAsset,
    image: layers.Image,
    variables: dict[str, str],
) -> None:
    ask = "import importlib.util, json, sys; print(json.dumps([sys.implementation.cache_tag, "
    ask += "importlib.util.MAGIC_NUMBER.hex(), sys.version.split()[0]]))"
    told = run_inside(docker, asset.tag, ["-c", ask], environment=variables)
    tag, magic, version = json.loads(told)
    task = {
        p: c
        for layer in image.own
        for p, c in image.read(layer, "/var/task/")
        if p.suffix in {".py", ".pyc"}
    }
    task = {p: c for p, c in task.items() if not p.is_relative_to("/var/task/artifact")}
    faults = [
        f"{p}: {why}"
        for p, why in contents.bytecode_faults(task, tag=tag, magic=bytes.fromhex(magic))
    ]
    modules = sum(path.suffix == ".py" for path in task)
    report.check(
        "byte code",
        f"each of the {modules} modules under /var/task has its .pyc for Python {version}, unchecked-hash",
        not faults and modules > 0,
        by="docker save, PEP 552",
        found=_some(faults),
    )
    script = "import sys; sys.path.insert(0, '/var/task'); import embedder.handler"
    with report.step("importing the handler with every import told"):
        compiled = _compiled_imports(docker, asset, script, variables)
    ours = [path for path in compiled if path.startswith("/var/task/")]
    report.check(
        "byte code",
        "importing the handler compiles nothing of ours",
        not ours,
        by="python -v in the container",
        found=_some(ours),
    )
    if base := [path for path in compiled if path not in ours]:
        report.note(f"The base image itself compiles {len(base)} modules at start, {_some(base)}.")


def _compiled_imports(
    docker: Docker, asset: ImageAsset, script: str, variables: dict[str, str]
) -> list[str]:
    # Python tells on the standard error, which the wrapper below turns into the output.
    wrapper = (
        "import subprocess, sys; done = subprocess.run([sys.executable, '-v', '-c', sys.argv[1]], "
        "capture_output=True, text=True); print(done.stderr); sys.exit(done.returncode)"
    )
    told = run_inside(docker, asset.tag, ["-c", wrapper, script], environment=variables)
    # A module from byte code is told with its .pyc in quotes, a compiled one with its bare source.
    return re.findall(r"^# code object from (/\S+\.py)$", told, re.MULTILINE)


def _check_code_change(
    report: Report, docker: Docker, asset: ImageAsset, image: layers.Image, folder: Path
) -> None:
    context = folder / "changed"
    shutil.copytree(asset.context, context, symlinks=True)
    handler = context / "embedder" / "handler.py"
    handler.write_text(handler.read_text() + "\n# changed by the rehearsal\n")
    changed = dataclasses.replace(asset, context=context, hash=f"{asset.hash[:12]}-changed")
    build(docker, changed, cached=False)
    told = docker.run("image", "inspect", "--format", "{{json .RootFS.Layers}}", changed.tag)
    before, after = [layer.digest for layer in image.layers], json.loads(told)
    docker.run("image", "rm", changed.tag)
    differ = [
        n + 1 for n, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1]
    ]
    report.check(
        "layers",
        "a change of code changes the last layer alone, on a machine that has no build cache too",
        differ == [len(before)] and len(before) == len(after),
        by="a second build without cache",
        found=f"changed: {differ} of {len(after)}",
    )


def _check_answers(
    report: Report,
    docker: Docker,
    asset: ImageAsset,
    image: layers.Image,
    variables: dict[str, str],
    folder: Path,
    root: Path,
) -> None:
    task = folder / "task"
    _unpack(image, task)
    # The machine's own Python, libraries and processor; the image's code and artifact.
    here = {**variables, "LAMBDA_TASK_ROOT": str(task), "PATH": "/usr/bin:/bin"}
    texts = json.dumps(TEXTS).encode()
    with report.step("tokenizing in the container and here"):
        inside = json.loads(
            run_inside(
                docker, asset.tag, ["/probe.py", "tokens"], environment=variables, stdin=texts
            )
        )
        outside = json.loads(run_here(["/probe.py", "tokens"], environment=here, stdin=texts))
    told = f"token ids of {len(TEXTS)} texts equal this machine's"
    report.check(
        "tokenizer",
        told,
        inside == outside and all(inside),
        by="the image's tokenizer in both places",
    )
    precision = json.loads((task / "artifact" / "manifest.json").read_text())["precision"]
    with report.step("starting the image under its emulator and asking it"):
        _check_service(report, docker, asset, variables, here, precision)
    other = "fp32" if precision == "int8" else "int8"
    with report.step(f"compiling the same model in {other} and asking the image with that"):
        artifact = folder / other
        command = [
            sys.executable,
            "-m",
            "model_compiler",
            asset.arguments["MODEL"],
            "--precision",
            other,
        ]
        subprocess.run([*command, "--output", str(artifact)], cwd=root, check=True)
        _compare(
            report,
            docker,
            asset,
            {**variables, "EMBEDDING_ARTIFACT": "/compiled"},
            {**here, "EMBEDDING_ARTIFACT": str(artifact)},
            other,
            {artifact: "/compiled"},
        )


def _check_service(
    report: Report,
    docker: Docker,
    asset: ImageAsset,
    variables: dict[str, str],
    here: dict[str, str],
    precision: str,
) -> None:
    by = "the emulator in the container"
    asked = [
        event("GET", "/health"),
        event("POST", "/", b'{"text": ""}'),
        event("POST", "/similar", b'{"text": "a"}'),
    ]
    with running(docker, asset.tag, environment=variables) as container:
        try:
            health, empty, similar = container.invoke(asked)
            answers = container.invoke(_embed_events())
        except Exception:
            print(container.logs(), file=sys.stderr)
            raise
        logs = container.logs()
    report.check(
        "handler",
        "GET /health answers 200",
        health["statusCode"] == 200,
        by=by,
        found=health["statusCode"],
    )
    told = body_of(empty)
    report.check(
        "handler",
        "an empty text is refused, and the answer says why",
        empty["statusCode"] in {400, 422} and bool(told),
        by=by,
        found=empty["statusCode"],
    )
    carried = "TEXTS" in asset.arguments and bool(asset.arguments["TEXTS"])
    expected = 200 if carried else 404
    report.check(
        "handler",
        f"POST /similar answers {expected}",
        similar["statusCode"] == expected,
        by=by,
        found=similar["statusCode"],
    )
    leaked = [text for text in TEXTS if len(text) > 8 and text[:30] in logs]
    report.check(
        "handler",
        "no text of a request stands in the log",
        not leaked,
        by="docker logs",
        found=_some(leaked),
    )
    _report_cosine(report, answers, here, precision, "the image's own artifact")


def _compare(
    report: Report,
    docker: Docker,
    asset: ImageAsset,
    variables: dict[str, str],
    here: dict[str, str],
    precision: str,
    mounts: dict[Path, str],
) -> None:
    with running(docker, asset.tag, environment=variables, mounts=mounts) as container:
        answers = container.invoke(_embed_events())
    _report_cosine(report, answers, here, precision, "the same model compiled here, mounted")


def _embed_events() -> list[dict[str, Any]]:
    return [event("POST", "/", json.dumps({"text": text}).encode()) for text in TEXTS]


def _report_cosine(
    report: Report, answers: list[Any], here: dict[str, str], precision: str, artifact: str
) -> None:
    lines = "".join(json.dumps(asked) + "\n" for asked in _embed_events()).encode()
    own = [
        json.loads(line)
        for line in run_here(["/probe.py", "answers"], environment=here, stdin=lines).splitlines()
    ]
    cosine = least_cosine(vectors_of(answers), vectors_of(own))
    report.check(
        "vectors",
        f"{precision}, {artifact}: cosine to this machine's own ≥ {COSINE[precision]}",
        cosine >= COSINE[precision],
        by="the emulator in the container, the handler here",
        found=f"{cosine:.8f}",
    )
    spaces = {body_of(answer).get("vector_space") for answer in [*answers, *own]}
    report.check(
        "vectors",
        f"{precision}: both name the same vector space",
        len(spaces) == 1 and None not in spaces,
        by="the answers",
        found=_some(sorted(map(str, spaces))),
    )


def _unpack(image: layers.Image, task: Path) -> None:
    for layer in image.own:
        for part in ("artifact", "index", "embedder"):
            for path, content in image.read(layer, f"/var/task/{part}/"):
                place = task / PurePosixPath(path).relative_to("/var/task")
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(content)


def _some(found: list[str], most: int = 4) -> str:
    rest = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(found[:most]) + rest
