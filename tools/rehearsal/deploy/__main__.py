"""Deploy environments to an emulated AWS, and check the endpoint, its releases and the destroy."""

import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import tomlkit

from embedding_kit.programs import exit_with
from stacks.environment_file import load_environment
from tools.debian import DebianError
from tools.local_endpoint.models import artifact_of
from tools.rehearsal.deploy.cdk import Cdk, Checkout, copy_checkout
from tools.rehearsal.deploy.checks import (
    BATCH_SETTINGS,
    CALLER,
    FRONT_SETTINGS,
    STRANGER,
    check_answers,
    check_code_change,
    check_destroyed,
    check_health,
    list_resources,
    make_network,
    set_log_role,
)
from tools.rehearsal.deploy.deployed_functions import (
    DeployedFunctions,
    FunctionServer,
    function_server,
    rename_space,
)
from tools.rehearsal.deploy.docker_client import recorded_calls, write_client
from tools.rehearsal.deploy.emulator import Emulator, emulator
from tools.rehearsal.deploy.environments import check_all_parts, check_proof, check_zip_environment
from tools.rehearsal.deploy.releases import Releases
from tools.rehearsal.image.asset import certificates, image_assets, synthesize
from tools.rehearsal.image.docker import Docker, containers
from tools.rehearsal.image.substitute_base import ensure_bases
from tools.rehearsal.report import Report, run

#: A model that needs no model hub and no accepted terms.
_MODEL = "sentence-transformers/all-MiniLM-L6-v2"


def rehearse(report: Report, root: Path, *environments: str, require_containers: bool) -> None:
    """Deploy, check, call, change, compare and destroy each environment.

    Only the first one goes through the scenarios: zips, own resources, failing releases, parts.
    """
    first_environment, *other_environments = environments
    with tempfile.TemporaryDirectory(prefix="rehearse-") as name, ExitStack() as stack:
        folder = Path(name)
        function = stack.enter_context(function_server())
        with report.step("starting the emulated AWS"):
            (folder / "aws").mkdir()
            aws = stack.enter_context(emulator(folder / "aws", function_url=function.url))
            for role in (CALLER, STRANGER):
                aws.make_role(role)
            set_log_role(aws)
        checkout = _copy(root, folder / first_environment, first_environment, notify=True)
        with report.step("synthesizing the stacks"):
            assembly = synthesize(checkout.root, first_environment, folder / "cdk.out")
        docker = _docker(report, stack, root, assembly, require_containers=require_containers)
        artifact = artifact_of(_MODEL)
        artifacts = {"int8": artifact, "fp32": rename_space(artifact, folder / "renamed")}
        functions = DeployedFunctions(aws, artifacts, checkout.root / "cdk.out")
        stack.callback(functions.close)
        function.serve = functions.answer
        client = _client(aws, docker, assembly, folder / "client")
        cdk = Cdk(report=report, checkout=checkout, aws=aws, docker=client)
        # The first deploy builds and pushes the image: the others push empty ones.
        without_images = replace(cdk, docker=write_client(folder / "empty", aws))
        run = _Rehearsal(root, folder, function, functions)
        cdk.succeeded(cdk.bootstrap())
        run.scenarios(cdk, without_images, assembly if docker else None)
        for environment_name in other_environments:
            run.shortly(
                replace(
                    without_images,
                    checkout=_copy(root, folder / environment_name, environment_name),
                )
            )
        if docker:
            _remove_images(docker, aws, client)
    report.notes.append("Some checks need an AWS account: .github/CONTRIBUTING.md lists them.")


@dataclass(frozen=True)
class _Rehearsal:
    """A rehearsal of all environments: its folders, and the functions that the emulator runs."""

    root: Path
    folder: Path
    function: FunctionServer
    functions: DeployedFunctions

    def shortly(self, cdk: Cdk) -> None:
        """Deploy an environment with its shipped settings, change its code, and destroy it."""
        self.functions.assembly = cdk.assembly
        before = list_resources(cdk.aws)
        cdk.succeeded(cdk.deploy("the first deploy"))
        check_answers(cdk, self.function)
        self._change(cdk)
        self._destroy(cdk, before)

    def scenarios(self, cdk: Cdk, without_images: Cdk, assembly: Path | None) -> None:
        """Deploy the first environment, and take it and others through the scenarios.

        Its assembly has the images of the first deploy; None without containers.
        """
        aws = cdk.aws
        server = make_network(aws)
        network = {name: server[name] for name in ("vpc", "subnets")}
        server_settings = {name: server[name] for name in server.keys() - network.keys()}
        tables = {"batch": BATCH_SETTINGS, "front": FRONT_SETTINGS, "server": server}
        before = list_resources(aws)
        cdk.succeeded(cdk.deploy("the first deploy"))
        if assembly:
            calls = recorded_calls(cdk.docker)
            built = [words for words in calls if words[0] == "build"]
            ours = [asset.command for asset in image_assets(assembly)]
            check = "it builds the image with the command of scripts/test-image, and pushes it"
            pushed = any(words[0] == "push" for words in calls)
            cdk.report.check(check, pushed and sorted(built) == sorted(ours), built)
        check_answers(cdk, self.function)
        check_zip_environment(cdk, cdk.outputs()["Url"], root=self.root, folder=self.folder)
        check_proof(without_images, root=self.root, folder=self.folder)
        check_all_parts(without_images, tables, root=self.root, folder=self.folder)
        self._change(without_images)
        Releases(
            cdk=without_images,
            functions=self.functions,
            # The server takes its place from `[network]`.
            parts=tables | {"server": server_settings, "network": network},
            folder=self.folder,
        ).run()
        self._destroy(without_images, before)

    def _change(self, cdk: Cdk) -> None:
        check_code_change(cdk)
        name, folder = cdk.checkout.environment, cdk.checkout.file.parent
        if load_environment(name, folder=folder).termination_protection:
            refused = cdk.destroy("of a protected environment")
            holds = refused.status != 0 and refused.count("termination protection") == 1
            cdk.report.check("it is refused", holds, refused.last())
            with cdk.checkout.edit() as document:
                document["termination_protection"] = False
            cdk.succeeded(cdk.deploy("without protection"))
        check_health(cdk, self.folder)

    def _destroy(self, cdk: Cdk, before: set[tuple[str, str]]) -> None:
        cdk.succeeded(cdk.destroy("in the end"))
        check_destroyed(cdk, before)


def _copy(root: Path, folder: Path, environment: str, *, notify: bool = False) -> Checkout:
    """Copy the repository, and change the environment's file as .github/CONTRIBUTING.md says.

    With `notify`, alarms have an address: without one there is no topic.
    """
    checkout = copy_checkout(root, folder, environment)
    with checkout.edit() as document:
        if document["model"]["name"] != _MODEL:
            document["model"] = tomlkit.item({"name": _MODEL})
        callers = document.setdefault("callers", tomlkit.table())
        role = f"arn:aws:iam::{Emulator.account}:role/{CALLER}"
        callers["principals"] = [*callers.get("principals", []), role]
        if notify:
            alarms = document.setdefault("alarms", tomlkit.table())
            alarms["emails"] = [*alarms.get("emails", []), "rehearsal@example.com"]
    return checkout


def _docker(
    report: Report, stack: ExitStack, root: Path, assembly: Path, *, require_containers: bool
) -> Docker | None:
    asset = image_assets(assembly)[0]
    try:
        docker = stack.enter_context(containers(root / ".cache" / "docker"))
        ensure_bases(report, docker, asset)
        # The CLI does not build an image if the daemon knows its name. The layers stay cached.
        # By force: a killed run leaves containers, and without force these keep the name.
        docker.succeeds("image", "rm", "--force", asset.tag)
    except DebianError as error:
        if require_containers:
            report.check("containers run on this machine", False, error)
        report.notes.append(f"An empty image was pushed instead of the built one: {error}.")
        return None
    return docker


def _client(aws: Emulator, docker: Docker | None, assembly: Path, folder: Path) -> Path:
    if docker is None:
        return write_client(folder, aws)
    command = [docker.client, *certificates(image_assets(assembly)[0])]
    return write_client(folder, aws, docker=command, variables=docker.environment)


def _remove_images(docker: Docker, aws: Emulator, client: Path) -> None:
    """Remove the names that the rehearsal gave to images."""
    local = f"localhost:{aws.port}"
    names = set()
    for words in recorded_calls(client):
        if words[0] == "push":
            names.add(words[-1].replace(aws.registry, local))
        if words[0] == "build":
            names.add(words[words.index("--tag") + 1])
    for name in sorted(names):
        docker.succeeds("image", "rm", name)


if __name__ == "__main__":
    exit_with(lambda: run("scripts/rehearse", __doc__, rehearse, several=True))
