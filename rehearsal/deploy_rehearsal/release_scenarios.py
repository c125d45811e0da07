"""Releases that go wrong, and what must be possible then: refused, rolled back, during an outage.

Each deploy is `scripts/deploy` with an assembly that was synthesized beforehand. CodeDeploy, the
versions, the alarms and the rollback are the emulated AWS's; the release check is the real one.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from botocore.exceptions import ClientError

from deploy_rehearsal.callers import CALLER
from deploy_rehearsal.calls import ask
from deploy_rehearsal.capacity import allocate, check_declined, check_ended, check_registered
from deploy_rehearsal.cdk import Cdk, Finished
from deploy_rehearsal.deployed_functions import DeployedFunctions
from deploy_rehearsal.standing import Standing
from deploy_rehearsal.variants import Variant
from image_rehearsal.report import Report

__all__ = ["VARIANTS", "Scenarios"]

_MODEL = "sentence-transformers/all-MiniLM-L6-v2"
_OTHER_SPACE = {"name": _MODEL, "precision": "fp32"}
_AT_ONCE = {"kind": "all-at-once"}
_CANARY = {"kind": "canary", "percent": 10, "interval": "5m"}
_PROVISIONED = {"kind": "provisioned", "minimum": 1, "maximum": 2}
#: A fault that no check can see: only what comes through the URL fails.
_FAULT = """

_answer = handler


def handler(event, context):
    if "domainName" in event["requestContext"]:
        raise RuntimeError("the rehearsal's fault")
    return _answer(event, context)
"""
#: The versions that are deployed before the first experiment: the last of the first vector space,
#: and the one that serves. Each published version takes a number, also one that is rolled back.
_FIRST_SPACE, _SERVING = 2, 8
_BY = "scripts/deploy; CloudFormation, Lambda and the emulated CodeDeploy"


def _variant(name: str, code: str = "", **settings: object) -> Variant:
    sections = {"release": _AT_ONCE, "cold_start": None, "experiment": None} | settings
    return Variant(name=name, code=code, settings={"model": _OTHER_SPACE, **sections})  # type: ignore[dict-item]


_SHIFTED = {"release": _CANARY, "cold_start": _PROVISIONED}
VARIANTS = (
    _variant("other-space", "\n# Changed by the rehearsal.\n"),
    _variant(
        "other-space-allowed",
        "\n# Changed by the rehearsal.\n",
        release={**_AT_ONCE, "allow_vector_space_change": True},
    ),
    _variant("fault", _FAULT),
    _variant("fix", "\n# The fix.\n", **_SHIFTED),
    _variant("next", "\n# The next release.\n", **_SHIFTED),
    _variant("not-provisioned", "\n# The next release.\n"),
    _variant(
        "weights",
        "\n# With an experiment.\n",
        experiment={"kind": "weights", "version": _SERVING, "percent": 20},
    ),
    _variant(
        "weights-across",
        "\n# With an experiment.\n",
        experiment={"kind": "weights", "version": _FIRST_SPACE, "percent": 20},
    ),
)
_BY_NAME = {variant.name: variant for variant in VARIANTS}


@dataclass(frozen=True, kw_only=True)
class Scenarios:
    """What the scenarios need.

    Attributes:
        report: Where the checks go.
        cdk: Deploys; its client of Docker pushes empty images.
        standing: What the first deploy made.
        functions: What runs behind the functions.
        assemblies: The folder of the variants' assemblies.
    """

    report: Report
    cdk: Cdk
    standing: Standing
    functions: DeployedFunctions
    assemblies: Path

    def run(self) -> None:
        """Run every scenario, in an order in which each starts from what the one before left."""
        self._refused_then_allowed()
        self._fix_in_an_outage()
        self._rolled_back_then_again()
        check_declined(self.report, self.cdk, self.standing)
        ended = self._deploy("not-provisioned", "without provisioned concurrency any more")
        check_ended(self.report, self.cdk, self.standing, ended)
        self._experiments()

    def _refused_then_allowed(self) -> None:
        before, versions = self._alias(), self._versions()
        refused = self._deploy("other-space", "with vectors of another space")
        self._check(
            "refused release",
            "the check refuses vectors of another space, and the deploy prints its reason",
            refused.status != 0 and refused.count("vectors would change from") > 0,
            found=_last(refused, "vectors would change from"),
        )
        self._check(
            "refused release",
            "the stack rolls back: the alias stays, the refused version is deleted",
            (self._alias(), self._versions(), self._status())
            == (before, versions, "UPDATE_ROLLBACK_COMPLETE"),
            found=f"alias {self._alias()}, versions {self._versions()}, {self._status()}",
        )
        allowed = self._deploy("other-space-allowed", "with the same image, allowed")
        self._check(
            "refused release",
            "the same image is deployed once allow_vector_space_change is set",
            allowed.status == 0 and self._alias()[0] != before[0],
            found=f"alias {self._alias()}{_failure(allowed)}",
        )

    def _fix_in_an_outage(self) -> None:
        self._deploy("fault", "with a fault that the check cannot see")
        broken = self._alias()[0]
        caller = self.cdk.aws.assume(f"arn:aws:iam::{self.cdk.aws.account}:role/{CALLER}")
        url = self.standing.outputs["Url"]
        answers = [ask(self.cdk.aws, url, {"text": "a"}, who=caller).status for _ in range(5)]
        alarms = self._alarms("ALARM")
        self._check(
            "outage",
            "the version that serves answers 502, and alarms of the release go into ALARM",
            set(answers) == {502} and bool(alarms),
            found=f"version {broken}: {answers}, in ALARM: {', '.join(alarms) or 'none'}",
        )
        fix = self._deploy("fix", "the fix, during the outage, provisioned and canary")
        served = ask(self.cdk.aws, url, {"text": "a"}, who=caller).status
        self._check(
            "outage",
            "the fix is deployed while they are in ALARM, and the URL answers 200",
            fix.status == 0 and self._alias()[0] != broken and served == 200,
            found=f"alias {self._alias()}, {served}{_failure(fix)}",
        )
        check_registered(self.report, self.cdk, self.standing, fix)
        allocate(self.cdk, self.standing)

    def _rolled_back_then_again(self) -> None:
        before, versions = self._alias(), self._versions()
        seen: list[str] = []
        name = "next"
        stopped = self._during_the_shift(name, lambda: seen.extend(self._ring()))
        self._check(
            "rollback",
            "an alarm in the middle of a canary shift rolls it back, alias, version and stack",
            stopped.status != 0
            and bool(seen)
            and (self._alias(), self._versions(), self._status())
            == (before, versions, "UPDATE_ROLLBACK_COMPLETE"),
            found=f"weights {seen}, alias {self._alias()}, versions {self._versions()}, "
            f"{self._status()}",
        )
        self._set_alarms("OK")
        seen.clear()
        again = self._during_the_shift(name, lambda: seen.append(self._change_capacity()))
        self._check(
            "rollback",
            "the same commit is deployed again once the alarm is over",
            again.status == 0 and self._alias()[0] != before[0],
            found=f"alias {self._alias()}{_failure(again)}",
        )
        kept = self._allocated()
        self._check(
            "provisioned with canary",
            "the shift keeps provisioned concurrency, which AWS does not let change meanwhile",
            kept == 1 and "Alias with weights" in "".join(seen),
            found=f"{kept} allocated; {' '.join(seen)}",
        )

    def _experiments(self) -> None:
        serving, asked = self._alias()[0], len(self.functions.checks)
        self._check(
            "experiment",
            "the version that the rehearsal's experiment names is the one that serves",
            serving == str(_SERVING),
            found=f"version {serving}",
        )
        weights = self._deploy("weights", "with an experiment by weights and a new version")
        checks = len(self.functions.checks) - asked
        self._check(
            "experiment",
            "a new version beside an experiment by weights is checked",
            weights.status == 0 and checks > 0 and self._alias()[1] == {serving: 0.2},
            found=f"{checks} checks, alias {self._alias()}{_failure(weights)}",
        )
        before = self._alias()
        across = self._deploy("weights-across", "with an experiment across vector spaces")
        self._check(
            "experiment",
            "an experiment by weights across two vector spaces is refused",
            across.status != 0 and self._alias() == before,
            found=f"alias {self._alias()}, {_last(across, 'vectors of')}",
        )

    def _during_the_shift(self, name: str, act: Callable[[], None]) -> Finished:
        """Deploy, and act once the alias has weights."""
        done: list[Finished] = []
        told = f"of {name}, and something happens during the shift"
        deploying = threading.Thread(target=lambda: done.append(self._deploy(name, told)))
        deploying.start()
        while deploying.is_alive():
            if self._alias()[1]:
                act()
                break
            time.sleep(0.05)
        deploying.join()
        return done[0]

    def _deploy(self, name: str, told: str) -> Finished:
        assembly = self.assemblies / name
        while not (assembly / "manifest.json").is_file():
            time.sleep(0.1)
        self.functions.learn(assembly)
        # The scripts read the file beside the assembly.
        file = self.cdk.checkout.file
        file.write_text(_BY_NAME[name].settings_in(file.read_text()))
        with self.report.step(f"scripts/deploy, {told}"):
            return self.cdk.deploy(assembly)

    def _check(self, subject: str, told: str, holds: bool, *, found: str) -> None:
        self.report.check(subject, told, holds, by=_BY, found=found)

    def _alias(self) -> tuple[str, dict[str, float]]:
        function, _, alias = self.standing.outputs["AliasArn"].rpartition(":")
        found = self.cdk.aws.client("lambda").get_alias(FunctionName=function, Name=alias)
        weights = found.get("RoutingConfig", {}).get("AdditionalVersionWeights", {})
        return found["FunctionVersion"], weights

    def _versions(self) -> list[str]:
        function = self.standing.outputs["AliasArn"].rpartition(":")[0]
        client = self.cdk.aws.client("lambda")
        found = client.list_versions_by_function(FunctionName=function)["Versions"]
        return [version["Version"] for version in found if version["Version"] != "$LATEST"]

    def _status(self) -> str:
        name = f"EmbeddingKit-{self.cdk.checkout.environment}-Endpoint"
        stacks = self.cdk.aws.client("cloudformation").describe_stacks(StackName=name)["Stacks"]
        return str(stacks[0]["StackStatus"])

    def _alarms(self, state: str) -> list[str]:
        """Name the release's alarms in a state; all of them if it is empty."""
        (group,) = self.cdk.aws.recorded("AWS::CodeDeploy::DeploymentGroup")
        named = group["properties"].get("AlarmConfiguration", {}).get("Alarms", [])
        names = [alarm["Name"] for alarm in named]
        found = self.cdk.aws.client("cloudwatch").describe_alarms(AlarmNames=names)["MetricAlarms"]
        return [a["AlarmName"] for a in found if state in ("", a["StateValue"])]

    def _ring(self) -> list[str]:
        weights = [str(weight) for weight in self._alias()[1].items()]
        self._set_alarms("ALARM")
        return weights

    def _set_alarms(self, state: str) -> None:
        for name in self._alarms(""):
            self.cdk.aws.client("cloudwatch").set_alarm_state(
                AlarmName=name, StateValue=state, StateReason="the rehearsal"
            )

    def _change_capacity(self) -> str:
        try:
            allocate(self.cdk, self.standing, 2)
        except ClientError as error:
            return str(error.response["Error"]["Message"])
        return "the change was accepted"

    def _allocated(self) -> int:
        function, _, alias = self.standing.outputs["AliasArn"].rpartition(":")
        found = self.cdk.aws.client("lambda").get_provisioned_concurrency_config(
            FunctionName=function, Qualifier=alias
        )
        return int(found["RequestedProvisionedConcurrentExecutions"])


def _last(done: Finished, words: str) -> str:
    """The last line that has some words."""
    lines = [line.strip() for line in done.output.splitlines() if words in line]
    return lines[-1][:160] if lines else f"status {done.status}, nothing about it"


def _failure(done: Finished) -> str:
    return "" if done.status == 0 else f"; {_last(done, 'FAILED')}"
