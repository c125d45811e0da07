"""The rehearsal of a deploy, from bootstrap to destroy, in the order in which a user would do it."""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from deploy_rehearsal.callers import CALLER, STRANGER, check_answers, check_publishing, make_role
from deploy_rehearsal.cdk import Cdk, Finished
from deploy_rehearsal.checkout import Checkout, copy_checkout
from deploy_rehearsal.docker_client import write_client
from deploy_rehearsal.emulator import Emulator, emulator
from deploy_rehearsal.environment_checks import check_environment
from deploy_rehearsal.function import FunctionServer, function_server
from deploy_rehearsal.left_over import check_left_over
from deploy_rehearsal.resources import check_resources
from deploy_rehearsal.standing import Standing, read_standing
from embedding_kit.environment import load_environment
from image_rehearsal.asset import ImageAsset, certificates, image_assets, synthesize
from image_rehearsal.base_image import ensure_bases
from image_rehearsal.docker import ContainersUnavailableError, Docker, containers
from image_rehearsal.report import Report

__all__ = ["rehearse"]


def rehearse(root: Path, environment: str, *, require_containers: bool) -> Report:
    """Deploy, check, call, change, compare and destroy an environment.

    Args:
        root: The repository.
        environment: The environment's name.
        require_containers: Whether it is a failure that containers cannot run here.
    """
    report = Report(title=f"The deploy of the environment {environment}, rehearsed on this machine")
    with tempfile.TemporaryDirectory(prefix="rehearse-") as name, ExitStack() as stack:
        folder = Path(name)
        checkout = copy_checkout(root, folder / "checkout", environment)
        checkout.serve_without_a_hub()
        function = stack.enter_context(function_server())
        with report.step("starting the emulated AWS"):
            (folder / "aws").mkdir()
            aws = stack.enter_context(emulator(folder / "aws", function_url=function.url))
        checkout.let_call(make_role(aws, CALLER))
        make_role(aws, STRANGER)
        with report.step("synthesizing the stacks"):
            assembly = synthesize(checkout.root, environment, folder / "cdk.out")
        asset = image_assets(assembly)[0]
        docker = _docker(report, stack, root, asset, require_containers=require_containers)
        _tell(report, checkout, docker)
        client = _client(aws, docker, asset, folder)
        cdk = Cdk(checkout=checkout, aws=aws, docker=client)
        _run(report, cdk, assembly, function, folder, really_built=docker is not None)
    return report


def _docker(
    report: Report, stack: ExitStack, root: Path, asset: ImageAsset, *, require_containers: bool
) -> Docker | None:
    try:
        docker = stack.enter_context(containers(root / ".cache" / "docker"))
        with report.step("getting the base images"):
            ensure_bases(docker, asset)
    except ContainersUnavailableError as error:
        if require_containers:
            report.check("containers", "run on this machine", False, by="Docker", found=error)
        report.note(str(error))
        report.unproven(
            "image",
            "is built by the CLI and pushed to the repository",
            instead="an empty image was pushed under its tag",
        )
        return None
    return docker


def _client(aws: Emulator, docker: Docker | None, asset: ImageAsset, folder: Path) -> Path:
    return write_client(
        folder,
        registry=f"{aws.account}.dkr.ecr.{aws.region}.amazonaws.com",
        local=f"localhost:{aws.port}",
        docker=[docker.client, *certificates(asset)] if docker else None,
        variables=docker.environment if docker else {},
    )


def _tell(report: Report, checkout: Checkout, docker: Docker | None) -> None:
    for change in checkout.changes:
        report.note(f"Changed for the rehearsal: {change}.")
    report.note("The templates go to the emulated AWS as they are: none was transformed.")
    if docker:
        report.note(
            "The CLI's docker is the real one; ECR's address was led to the emulated registry."
        )


def _run(
    report: Report,
    cdk: Cdk,
    assembly: Path,
    function: FunctionServer,
    folder: Path,
    *,
    really_built: bool,
) -> None:
    with report.step("cdk bootstrap"):
        _ended(report, "cdk bootstrap", cdk.bootstrap())
    with report.step("scripts/deploy, the first time"):
        if not _ended(report, "scripts/deploy", cdk.deploy()):
            return
    if really_built:
        _check_build(report, folder)
    standing = read_standing(assembly, cdk.aws)
    environment = load_environment(cdk.checkout.environment, folder=cdk.checkout.file.parent)
    with report.step("reading back what stands"):
        check_environment(report, cdk.aws, standing, environment)
        check_resources(report, cdk.aws, standing)
        check_publishing(report, cdk.aws, str(standing.one("AWS::ECR::Repository").physical_id))
    with report.step("calling the endpoint"), _handler(report, cdk, standing, function, folder):
        caller = cdk.aws.assume(f"arn:aws:iam::{cdk.aws.account}:role/{CALLER}")
        stranger = cdk.aws.assume(f"arn:aws:iam::{cdk.aws.account}:role/{STRANGER}")
        check_answers(report, cdk.aws, standing, caller=caller, stranger=stranger)
    with report.step("cdk diff, with nothing changed"):
        same = cdk.diff()
        told = "finds nothing to change after a deploy"
        report.check("cdk diff", told, same.status == 0, by="the CLI", found=_tail(same))
    _change(report, cdk, standing, assembly)
    with report.step("scripts/destroy"):
        _ended(report, "scripts/destroy", cdk.destroy())
    check_left_over(report, cdk.aws, standing, environment)


def _change(report: Report, cdk: Cdk, before: Standing, assembly: Path) -> None:
    cdk.checkout.change_code()
    with report.step("cdk diff, with the code changed"):
        changed = cdk.diff()
        told = "finds the change of code, and no resource that goes"
        holds = changed.status == 1 and changed.count(r"(?m)^\[-\] AWS::(?!Lambda::Version)") == 0
        report.check("cdk diff", told, holds, by="the CLI", found="" if holds else _tail(changed))
    with report.step("scripts/deploy, with the code changed"):
        if not _ended(report, "scripts/deploy again", cdk.deploy()):
            return
    shutil.rmtree(assembly)
    synthesize(cdk.checkout.root, cdk.checkout.environment, assembly)
    after = read_standing(assembly, cdk.aws)
    by = "the services' APIs, before and after"
    report.check(
        "second deploy",
        "the URL is the same",
        before.outputs["Url"] == after.outputs["Url"],
        by=by,
        found=after.outputs["Url"],
    )
    images = [_image(cdk.aws, standing) for standing in (before, after)]
    report.check(
        "second deploy", "the function runs another image", images[0][0] != images[1][0], by=by
    )
    report.check(
        "second deploy",
        "a new version is published, and the alias points to it",
        int(images[1][1]) > int(images[0][1]),
        by=by,
        found=f"{images[0][1]} → {images[1][1]}",
    )
    check_resources(Report(title="again"), cdk.aws, after)


_images: dict[int, tuple[str, str]] = {}


def _image(aws: Emulator, standing: Standing) -> tuple[str, str]:
    return _images[id(standing)]


def _tail(done: Finished, lines: int = 12) -> str:
    return " / ".join(line.strip() for line in done.output.splitlines()[-lines:] if line.strip())


def _ended(report: Report, command: str, done: Finished) -> bool:
    if done.status:
        print(done.output[-8000:], file=sys.stderr)
    found = f"{done.seconds:.0f} s" if done.status == 0 else f"status {done.status}"
    return report.check(command, "succeeds", done.status == 0, by="the pinned CDK CLI", found=found)


@contextmanager
def _handler(
    report: Report, cdk: Cdk, standing: Standing, function: FunctionServer, folder: Path
) -> Iterator[None]:
    raise NotImplementedError
