"""The steps of `scripts/test-image`: synthesize, build, inspect, run, compare; image and zip."""

import json
import tempfile
from pathlib import Path
from typing import Any

from embedding_kit.environment_file import load_environment
from embedding_kit.settings import FunctionSettings, Model, artifact_in_s3
from tools.rehearsal.image import layers
from tools.rehearsal.image.answer_checks import check_answers, check_other_precision
from tools.rehearsal.image.asset import ImageAsset, build, certificates, image_assets, synthesize
from tools.rehearsal.image.base_image import Base, ensure_bases, final_base
from tools.rehearsal.image.batch_image import batch_image
from tools.rehearsal.image.docker import ContainersUnavailableError, Docker, containers, emulated
from tools.rehearsal.image.image_under_test import ImageUnderTest, embedder_function, variables_of
from tools.rehearsal.image.layer_checks import (
    PLATFORM,
    check_bytecode,
    check_code_change,
    check_layers,
)
from tools.rehearsal.image.layers import Image
from tools.rehearsal.image.report import Report
from tools.rehearsal.image.server_image import server_image
from tools.rehearsal.image.target_image import check_target_image
from tools.rehearsal.image.zip_checks import build_zip, check_zip, check_zip_runs

__all__ = ["verify"]

_ORIGINS = {
    "pulled": "AWS's image, pulled",
    "substitute": "a substitute, because no registry answered: Debian with the same Python minor "
    "version and AWS's runtime interface client and emulator",
}


def verify(root: Path, environment: str, *, require_containers: bool) -> Report:
    """Build an environment's image and check it.

    Args:
        root: The repository.
        environment: The environment's name.
        require_containers: Whether missing containers are a failure.
    """
    report = Report(title=f"The image of the environment {environment}")
    with tempfile.TemporaryDirectory(prefix="test-image-") as temporary:
        folder = Path(temporary)
        with report.step("synthesizing the stacks"):
            assembly = synthesize(root, environment, folder / "cdk.out")
        function = embedder_function(assembly)
        code = json.dumps(function["Code"])
        asset = next(asset for asset in image_assets(assembly) if asset.hash in code)
        _check_asset(report, asset)
        try:
            with containers(root / ".cache" / "docker") as docker:
                model = load_environment(environment, folder=root / "environments").model
                image = _check_image(report, docker, asset, function, folder, model=model)
                for name, target_image in (("batch", batch_image), ("server", server_image)):
                    own = folder / name
                    target = target_image(root, environment, own / "cdk.out")
                    check_target_image(report, docker, target, folder=own, endpoint=image)
        except ContainersUnavailableError as error:
            if require_containers:
                report.check("containers", "run on this machine", False, by="Docker", found=error)
            report.note(f"The image was not built and not run: {error}.")
    return report


def _check_asset(report: Report, asset: ImageAsset) -> None:
    by = "the cloud assembly's asset manifest"
    platform = asset.platform
    report.check(
        "build", f"the platform is {PLATFORM}", platform == PLATFORM, by=by, found=platform
    )
    last = (asset.context / asset.file).read_text().rpartition("\nFROM ")[2]
    check = "the Dockerfile's last stage only copies, so it needs no emulation"
    report.check("build", check, "\nRUN " not in last, by="the Dockerfile as it is staged")


def _check_image(
    report: Report,
    docker: Docker,
    asset: ImageAsset,
    function: dict[str, Any],
    folder: Path,
    *,
    model: Model,
) -> Image:
    with report.step("getting the base images"):
        bases = ensure_bases(docker, asset)
    _note_bases(report, docker, bases)
    with report.step("building the image: docker " + " ".join(asset.command)):
        build(docker, asset)
    if certificates(asset):
        report.note("The build stages got this machine's certificates as a secret.")
    with report.step("reading the image's layers"):
        image = layers.save(docker, asset.tag, base=final_base(asset).name, folder=folder)
    tested = ImageUnderTest(
        report=report,
        docker=docker,
        asset=asset,
        image=image,
        variables=variables_of(function),
        folder=folder,
    )
    check_layers(tested)
    check_bytecode(tested)
    with report.step("building again with changed code, without a cache"):
        check_code_change(tested)
    check_answers(tested)
    if not artifact_in_s3(model, FunctionSettings(package="zip")):
        with report.step("building the zip of the same model"):
            archive = build_zip(model)
        check_zip(report, archive)
        check_zip_runs(tested, archive)
    check_other_precision(tested)
    docker.run("image", "rm", asset.tag)
    return image


def _note_bases(report: Report, docker: Docker, bases: list[Base]) -> None:
    daemon = "started and stopped by this command" if docker.own else "this machine's own"
    arm = "emulated by QEMU" if emulated() else "native"
    report.note(f"Docker: {daemon}. ARM64 is {arm} here.")
    for base in bases:
        report.note(f"Base image {base.name} ({base.architecture}): {_ORIGINS[base.origin]}.")
