"""Scenarios of failing releases: refused, rolled back, during an outage.

Each deploy is `scripts/deploy` with an assembly that was synthesized in advance. The emulated AWS
runs CodeDeploy, publishes the versions, evaluates the alarms and rolls back. The release check is
the real one.
"""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.rehearsal.deploy.batch_scenario import check_job, make_documents, remove_caller
from tools.rehearsal.deploy.callers import CALLER
from tools.rehearsal.deploy.calls import send
from tools.rehearsal.deploy.capacity import allocate, check_declined, check_ended
from tools.rehearsal.deploy.cdk import Cdk, Finished, check_success
from tools.rehearsal.deploy.deployed import Outputs
from tools.rehearsal.deploy.deployed_functions import DeployedFunctions
from tools.rehearsal.deploy.doctor_scenario import DoctorScenario
from tools.rehearsal.deploy.front_scenario import check_front
from tools.rehearsal.deploy.network_checks import check_network
from tools.rehearsal.deploy.release_state import ReleaseState
from tools.rehearsal.deploy.release_variants import FAULTY, SERVING
from tools.rehearsal.deploy.server_scenario import check_server
from tools.rehearsal.deploy.variants import Variant
from tools.rehearsal.image.report import Report

__all__ = ["Scenarios"]

_BY = "scripts/deploy; CloudFormation, Lambda and the emulated CodeDeploy"


@dataclass(frozen=True, kw_only=True)
class Scenarios:
    """Runs the scenarios.

    Attributes:
        report: The report of the checks.
        cdk: Runs the scripts; its Docker client pushes empty images.
        deployed: The stacks of the first deploy.
        functions: The processes that run the functions' code.
        variants: The variants of the environment, by name.
        assemblies: The folder of their assemblies.
        doctor: Looks at the environment in the states that the scenarios leave.
    """

    report: Report
    cdk: Cdk
    deployed: Outputs
    functions: DeployedFunctions
    variants: Mapping[str, Variant]
    assemblies: Path
    doctor: DoctorScenario

    @property
    def state(self) -> ReleaseState:
        """The state of the release."""
        return ReleaseState(
            aws=self.cdk.aws,
            deployed=self.deployed,
            environment=self.cdk.checkout.environment,
        )

    def run(self) -> None:
        """Run every scenario, in order: each starts from the state that the one before left."""
        self._refused_then_allowed()
        self._fix_in_an_outage()
        self._rolled_back_then_again()
        self._rolled_back_by_script()
        check_declined(self.report, self.cdk, self.deployed)
        make_documents(self.cdk.aws)
        done = self._deploy(
            "parts",
            "without provisioned concurrency, with batch jobs, a server and an API in front, in "
            "a VPC",
        )
        if check_success(self.report, "scripts/deploy with all parts", done):
            self._parts(done)
        self._experiments()

    def _parts(self, done: Finished) -> None:
        """Use each part; the next deploy is without their tables, and the destroy removes them."""
        url = self.deployed["Url"]
        check_ended(self.report, self.cdk, self.deployed, done)
        check_job(self.report, self.cdk)
        check_server(self.report, self.cdk, assembly=self.assemblies / "parts", url=url)
        self.doctor.check_batch()
        self.doctor.check_server()
        check_front(self.report, self.cdk, url=url)
        check_network(self.report, self.cdk.aws, self.deployed)
        remove_caller(self.cdk.aws)

    def _refused_then_allowed(self) -> None:
        before, versions = self.state.alias(), self.state.versions()
        refused = self._deploy("other-space", "with vectors of another space")
        self._check(
            "refused release",
            "the check refuses vectors of another space, and the deploy prints its reason",
            refused.status != 0 and refused.count("vectors would change from") > 0,
            found=_last(refused, "vectors would change from"),
        )
        self._check(
            "refused release",
            "the stack rolls back: the alias is unchanged, the refused version is deleted",
            (self.state.alias(), self.state.versions(), self.state.stack_status())
            == (before, versions, "UPDATE_ROLLBACK_COMPLETE"),
            found=str(self.state),
        )
        allowed = self._deploy("other-space-allowed", "with the same image, allowed")
        self._check(
            "refused release",
            "the same image is deployed once allow_vector_space_change is set",
            allowed.status == 0 and self.state.alias()[0] != before[0],
            found=f"alias {self.state.alias()}{_failure(allowed)}",
        )

    def _fix_in_an_outage(self) -> None:
        self._deploy("fault", "with a fault that the check cannot find")
        broken = self.state.alias()[0]
        answers = [self._ask("a") for _ in range(5)]
        alarms = self.state.alarms()
        self._check(
            "outage",
            "the serving version answers 502, and alarms of the release go into ALARM",
            set(answers) == {502} and bool(alarms),
            found=f"version {broken}: {answers}, in ALARM: {', '.join(alarms) or 'none'}",
        )
        self.doctor.check_outage()
        fix = self._deploy("fix", "with the fix, during the outage, provisioned and canary")
        served = self._ask("a")
        self._check(
            "outage",
            "the fix is deployed while they are in ALARM, and the URL answers 200",
            fix.status == 0 and self.state.alias()[0] != broken and served == 200,
            found=f"alias {self.state.alias()}, {served}{_failure(fix)}",
        )
        allocate(self.cdk, self.deployed)
        self.doctor.check_capacity()

    def _rolled_back_then_again(self) -> None:
        before, versions = self.state.alias(), self.state.versions()
        self.state.subscribe()
        stopped, answers = self._during_the_shift("next", FAULTY)
        self._check(
            "rollback",
            "requests reach a faulty version, and its own alarm stops the release",
            stopped.status != 0
            and 502 in answers
            and stopped.count("alarms in ALARM: .*Crashes") > 0,
            found=f"{answers.count(200)} times 200, {answers.count(502)} times 502, "
            f"{_last(stopped, 'in ALARM')}",
        )
        self._check(
            "rollback",
            "the alias, the versions and the stack are rolled back",
            (self.state.alias(), self.state.versions(), self.state.stack_status())
            == (before, versions, "UPDATE_ROLLBACK_COMPLETE"),
            found=str(self.state),
        )
        self.doctor.check_rollback()
        notices = [text for text in self.state.notifications() if "did not succeed" in text]
        self._check(
            "rollback",
            "the alarm topic sends one notice of the failed release",
            len(notices) == 1,
            found=" ".join(notices)[:200] or "no notice",
        )
        again, answers = self._during_the_shift("next", "a")
        self._check(
            "rollback",
            "the same commit is deployed again, and keeps provisioned concurrency",
            again.status == 0
            and self.state.alias()[0] != before[0]
            and set(answers) == {200}
            and self.state.provisioned() == 1,
            found=f"alias {self.state.alias()}, {len(answers)} times 200, "
            f"{self.state.provisioned()} allocated{_failure(again)}",
        )

    def _rolled_back_by_script(self) -> None:
        released, versions = self.state.alias()[0], self.state.versions()
        with self.report.step("scripts/rollback, after a completed release"):
            done = self.cdk.roll_back()
        self._check(
            "scripts/rollback",
            "moves all requests to the version before, and keeps the released version",
            done.status == 0
            and self.state.alias() == (_before(released, versions), {})
            and self.state.versions() == versions,
            found=f"{released} to {self.state.alias()}, {_last(done, '')}",
        )
        with self.report.step("scripts/rollback, again"):
            again = self.cdk.roll_back()
        self._check(
            "scripts/rollback",
            "changes nothing if run again",
            again.status == 0 and again.count("rolled back already") == 1,
            found=_last(again, "rolled back"),
        )

    def _experiments(self) -> None:
        serving, asked = self.state.alias()[0], len(self.functions.checks)
        self._check(
            "experiment",
            "the version of the experiment is the serving one, released again after the rollback",
            serving == str(SERVING),
            found=f"version {serving}",
        )
        weights = self._deploy("weights", "with an experiment by weights and a new version")
        self._check(
            "removed tables",
            "scripts/deploy names their three stacks, and the command that destroys them",
            weights.count("is still deployed.*scripts/destroy .* --removed") == 3,
            found=_last(weights, "--removed"),
        )
        checks = len(self.functions.checks) - asked
        self._check(
            "experiment",
            "a new version next to an experiment by weights is checked",
            weights.status == 0 and checks > 0 and self.state.alias()[1] == {serving: 0.2},
            found=f"{checks} checks, alias {self.state.alias()}{_failure(weights)}",
        )
        before = self.state.alias()
        across = self._deploy("weights-across", "with an experiment across vector spaces")
        self._check(
            "experiment",
            "an experiment by weights across two vector spaces is refused",
            across.status != 0 and self.state.alias() == before,
            found=f"alias {self.state.alias()}, {_last(across, 'vectors of')}",
        )

    def _during_the_shift(self, name: str, text: str) -> tuple[Finished, list[int]]:
        """Deploy, and send a text while the alias has weights; return the answers' statuses."""
        done: list[Finished] = []
        step = f"with the variant {name!r}, and requests during the shift"
        deploying = threading.Thread(target=lambda: done.append(self._deploy(name, step)))
        deploying.start()
        answers = []
        while deploying.is_alive():
            if self.state.alias()[1]:
                answers.append(self._ask(text))
            else:
                time.sleep(0.05)
        deploying.join()
        return done[0], answers

    def _ask(self, text: str) -> int:
        """Send a text through the URL, as a caller; return the answer's status."""
        aws = self.cdk.aws
        caller = aws.assume(f"arn:aws:iam::{aws.account}:role/{CALLER}")
        return send(aws, self.deployed["Url"], {"text": text}, who=caller).status

    def _deploy(self, name: str, step: str) -> Finished:
        assembly = self.assemblies / name
        while not (assembly / "manifest.json").is_file():
            time.sleep(0.1)
        self.functions.learn(assembly)
        # The scripts also read the environment's file.
        file = self.cdk.checkout.file
        file.write_text(self.variants[name].settings_in(file.read_text()))
        with self.report.step(f"scripts/deploy, {step}"):
            return self.cdk.deploy(assembly)

    def _check(self, subject: str, checked: str, holds: bool, *, found: str) -> None:
        self.report.check(subject, checked, holds, by=_BY, found=found)


def _last(done: Finished, words: str) -> str:
    """Return the last line that contains some words."""
    lines = [line.strip() for line in done.output.splitlines() if words in line]
    return lines[-1][:160] if lines else f"status {done.status}, nothing about it"


def _before(version: str, versions: list[str]) -> str:
    """Return the newest version that is older than a version."""
    return str(max(int(number) for number in versions if int(number) < int(version)))


def _failure(done: Finished) -> str:
    return "" if done.status == 0 else f"; {_last(done, 'FAILED')}"
