"""Rehearse a deploy from bootstrap to destroy, in the order of a real one."""

import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import tomlkit

from embedding_kit.environment_file import load_environment
from tools.local_endpoint.models import artifact_of
from tools.rehearsal.deploy.cdk import Cdk, Checkout, copy_checkout
from tools.rehearsal.deploy.deployed_functions import DeployedFunctions, rename_space
from tools.rehearsal.deploy.docker_client import recorded_calls, write_client
from tools.rehearsal.deploy.doctor import check_health
from tools.rehearsal.deploy.emulator import Emulator, emulator
from tools.rehearsal.deploy.endpoint_checks import (
    CALLER,
    STRANGER,
    check_answers,
    check_code_change,
)
from tools.rehearsal.deploy.environments import check_all_parts, check_zip_environment
from tools.rehearsal.deploy.function_server import FunctionServer, function_server
from tools.rehearsal.deploy.leftovers import check_destroyed, list_resources
from tools.rehearsal.deploy.parts import BATCH_SETTINGS, FRONT_SETTINGS, make_network, set_log_role
from tools.rehearsal.deploy.proof import check_proof
from tools.rehearsal.deploy.releases import Releases
from tools.rehearsal.image.asset import image_assets
from tools.rehearsal.report import Report

#: A model that needs no model hub and no accepted terms.
_MODEL = "sentence-transformers/all-MiniLM-L6-v2"


def rehearse(report: Report, root: Path, *environments: str) -> None:
    """Deploy, check, call, change, compare and destroy each environment.

    Only the first one goes through the scenarios: zips, own resources, failing releases, parts.

    Args:
        report: The report of the checks.
        root: The repository.
        environments: The environments' names.
    """
    first, *others = environments
    with tempfile.TemporaryDirectory(prefix="rehearse-") as name, ExitStack() as stack:
        folder = Path(name)
        function = stack.enter_context(function_server())
        with report.step("starting the emulated AWS"):
            (folder / "aws").mkdir()
            aws = stack.enter_context(emulator(folder / "aws", function_url=function.url))
            for role in (CALLER, STRANGER):
                aws.make_role(role)
            set_log_role(aws)
        checkout = _copy(root, folder / first, first, notify=True)
        artifact = artifact_of(_MODEL)
        artifacts = {"int8": artifact, "fp32": rename_space(artifact, folder / "renamed")}
        functions = DeployedFunctions(aws, artifacts, checkout.root / "cdk.out")
        stack.callback(functions.close)
        function.serve = functions.answer
        client = write_client(folder / "client", aws)
        cdk = Cdk(report=report, checkout=checkout, aws=aws, docker=client)
        run = _Rehearsal(root, folder, function, functions)
        cdk.succeeded(cdk.bootstrap())
        run.scenarios(cdk)
        for other in others:
            copied = _copy(root, folder / other, other)
            run.shortly(replace(cdk, checkout=copied))
    report.notes.append(
        "Some checks need an AWS account: docs/rehearsal.md lists them, each with its commands."
    )


@dataclass(frozen=True)
class _Rehearsal:
    """What every environment uses."""

    root: Path
    folder: Path
    function: FunctionServer
    functions: DeployedFunctions

    def shortly(self, cdk: Cdk) -> None:
        """Deploy an environment with its shipped settings, change its code, and destroy it."""
        self.functions.assembly = cdk.assembly
        before = list_resources(cdk.aws)
        cdk.succeeded(cdk.deploy("the first deploy"))
        check_answers(cdk.report, cdk.aws, cdk.outputs(), self.function)
        self._change(cdk)
        self._destroy(cdk, before)

    def scenarios(self, cdk: Cdk) -> None:
        """Deploy the first environment, and take it and others through the scenarios."""
        aws = cdk.aws
        server = make_network(aws)
        place = {name: server[name] for name in ("vpc", "subnets")}
        placed = {name: server[name] for name in server.keys() - place.keys()}
        parts = {"batch": BATCH_SETTINGS, "front": FRONT_SETTINGS, "server": server}
        before = list_resources(aws)
        cdk.succeeded(cdk.deploy("the first deploy"))
        calls = recorded_calls(cdk.docker)
        built = [words for words in calls if words[0] == "build"]
        ours = [asset.command for asset in image_assets(cdk.assembly)]
        check = "it builds the image with the command of scripts/test-image, and pushes it"
        pushed = any(words[0] == "push" for words in calls)
        cdk.report.check(check, pushed and sorted(built) == sorted(ours), built)
        url = cdk.outputs()["Url"]
        check_answers(cdk.report, aws, cdk.outputs(), self.function)
        check_zip_environment(cdk, url, root=self.root, folder=self.folder)
        check_proof(cdk, root=self.root, folder=self.folder)
        check_all_parts(cdk, parts, root=self.root, folder=self.folder)
        self._change(cdk)
        Releases(
            cdk=cdk,
            functions=self.functions,
            # The server takes its place from `[network]`.
            parts=parts | {"server": placed, "network": place},
            folder=self.folder,
        ).run()
        self._destroy(cdk, before)

    def _change(self, cdk: Cdk) -> None:
        check_code_change(cdk)
        name, folder = cdk.checkout.environment, cdk.checkout.file.parent
        if load_environment(name, folder=folder).termination_protection:
            refused = cdk.destroy("of a protected environment")
            holds = refused.status != 0 and refused.count("termination protection") == 1
            cdk.report.check("it is refused", holds, refused.last())
            _unprotect(cdk.checkout)
            cdk.succeeded(cdk.deploy("without protection"))
        check_health(cdk, self.folder)

    def _destroy(self, cdk: Cdk, before: set[tuple[str, str]]) -> None:
        cdk.succeeded(cdk.destroy("in the end"))
        check_destroyed(cdk, before)


def _copy(root: Path, folder: Path, environment: str, *, notify: bool = False) -> Checkout:
    """Copy the repository, and change the environment's file as docs/rehearsal.md says.

    Args:
        root: The repository.
        folder: The folder of the copy.
        environment: The environment.
        notify: Whether to add an address for notices: without one there is no topic.
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


def _unprotect(checkout: Checkout) -> None:
    with checkout.edit() as document:
        document["termination_protection"] = False
