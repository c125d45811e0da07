"""Scenarios of failing releases: refused, during an outage, rolled back; then the parts.

The emulated AWS runs CodeDeploy, publishes the versions, evaluates the alarms and rolls back. The
release check is the real one.
"""

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tomlkit

from embedding_client.doctor import State
from tools.rehearsal.deploy.cdk import HANDLER, Cdk, Finished
from tools.rehearsal.deploy.checks import (
    DeployedRelease,
    ask,
    check_batch,
    check_front,
    check_illness,
    read_release,
)
from tools.rehearsal.deploy.deployed_functions import DeployedFunctions

_ROLLED_BACK = "UPDATE_ROLLBACK_COMPLETE"
_OTHER_SPACE = {"name": "sentence-transformers/all-MiniLM-L6-v2", "precision": "fp32"}
_AT_ONCE = {"kind": "all-at-once"}
#: Half of the requests, so that a few of them are enough to find a fault.
_SHIFTED = {"release": {"kind": "canary", "percent": 50, "interval": "5m"}}
_PROVISIONED = {"cold_start": {"kind": "provisioned", "minimum": 1, "maximum": 2}}
#: The tables that a deploy has only if it names them.
_UNSET = ("cold_start", "experiment", "batch", "server", "front", "network")
_MARK = "\n# The release:\n"
#: A fault that the release check cannot find: only requests through the URL fail, with some words,
#: so that the same commit can be released without such requests.
_FAULT = """
_answer = handler


def handler(event, context):
    if "domainName" in event["requestContext"] and {words!r} in str(event.get("body")):
        raise RuntimeError("the rehearsal's fault")
    return _answer(event, context)
"""
_FAULTY = "a text that the next release cannot embed"


@dataclass(frozen=True, kw_only=True)
class Releases:
    """Runs the scenarios. The parts are settings by table."""

    cdk: Cdk
    functions: DeployedFunctions
    parts: Mapping[str, Mapping[str, Any]]
    folder: Path

    def run(self) -> None:
        """Run every scenario, in order: each starts from the state that the one before left."""
        self._refused_then_allowed()
        self._fixed_in_an_outage()
        self._rolled_back_then_again()
        self._rolled_back_by_script()
        self._parts()
        self._experiment()

    def _refused_then_allowed(self) -> None:
        before = self._state()
        refused = self._deploy("with vectors of another space", "")
        check, reason = "the check refuses them, and the deploy says why", "vectors would change"
        self._check(check, refused.status != 0 and reason in refused.output, refused.last(reason))
        self._check_rolled_back(before)
        release = {**_AT_ONCE, "allow_vector_space_change": True}
        self.cdk.succeeded(self._deploy("with the same image, allowed", "", release=release))
        self._check("it is released", self._state().version != before.version, self._state())

    def _fixed_in_an_outage(self) -> None:
        # In steps, so that it has alarms: no request comes while it shifts.
        self._deploy("with a fault that the check cannot find", _FAULT.format(words=""), **_SHIFTED)
        broken, answers = self._state().version, [self._ask("a") for _ in range(5)]
        cloudwatch = self.cdk.aws.client("cloudwatch")
        in_alarm = cloudwatch.describe_alarms(StateValue="ALARM")["MetricAlarms"]
        names = ", ".join(alarm["AlarmName"] for alarm in in_alarm)
        check = "the version answers 502, and alarms of the release go into ALARM"
        self._check(check, set(answers) == {502} and bool(names), f"{answers}, {names}")
        check_illness(self.cdk, self.folder, {"signed": State.FAILED, "alarms": State.FAILED})
        fix = self._deploy("with the fix meanwhile", "# The fix.\n", **_SHIFTED, **_PROVISIONED)
        self.cdk.succeeded(fix)
        fixed = self._state().version != broken and self._ask("a") == 200
        self._check("the fix is released, and the URL answers 200", fixed, self._state())
        # Nothing scales here: provisioned concurrency is allocated as Auto Scaling would.
        function, _, alias = self._alias()
        self.cdk.aws.client("lambda").put_provisioned_concurrency_config(
            FunctionName=function, Qualifier=alias, ProvisionedConcurrentExecutions=1
        )

    def _rolled_back_then_again(self) -> None:
        before = self._state()
        stopped, answers = self._during_the_shift("with requests that fail", _FAULTY)
        check = "requests reach a faulty version, and its own alarm stops the release"
        counts = f"{answers.count(200)} times 200, {answers.count(502)} times 502, "
        holds = 502 in answers and stopped.count("alarms in ALARM: .*Crashes") > 0
        self._check(check, holds and stopped.status != 0, counts + stopped.last("in ALARM"))
        self._check_rolled_back(before)
        illness = {"last release": State.WARNING, "stacks": State.WARNING}
        check_illness(self.cdk, self.folder, illness)
        again, answers = self._during_the_shift("with the same commit", "a")
        self.cdk.succeeded(again)
        check = "the same commit is released, and keeps provisioned concurrency"
        holds = self._state().version != before.version and set(answers) == {200}
        count = len(self._provisioned())
        self._check(check, holds and count == 1, f"{self._state()}, {count} allocated")

    def _rolled_back_by_script(self) -> None:
        before = self._state()
        older = [version for version in before.versions if int(version) < int(before.version)]
        self.cdk.succeeded(self.cdk.roll_back("after a completed release"))
        after = self._state()
        check = "all requests go to the version before, and the released version is kept"
        holds = (after.version, after.weights) == (max(older, key=int), {})
        self._check(check, holds and after.versions == before.versions, after)
        again = self.cdk.roll_back("again")
        self._check("it changes nothing", again.count("rolled back already") == 1, again.last())

    def _parts(self) -> None:
        """Deploy and use each part; the next deploy is without their tables."""
        # MiniStack ignores a function's VPC, and publishes no version of an unchanged function.
        code = "# In a VPC.\n"
        self.cdk.succeeded(self._deploy("with all parts, not provisioned", code, **self.parts))
        provisioned = self._provisioned()
        check = "it removes the allocation, which the CDK alone would leave billing"
        self._check(check, not provisioned, provisioned)
        check_batch(self.cdk)
        check_front(self.cdk, self.cdk.outputs()["Url"])

    def _experiment(self) -> None:
        serving, checks = self._state().version, len(self.functions.checks)
        experiment = {"version": int(serving), "percent": 20}
        why = "with an experiment, without the tables of the parts"
        done = self._deploy(why, "# With an experiment.\n", experiment=experiment)
        self.cdk.succeeded(done)
        named = done.count("is still deployed.*scripts/destroy .* --removed")
        check = "it names their three stacks, and the command that destroys them"
        self._check(check, named == 3, done.last("--removed"))
        checked = len(self.functions.checks) > checks
        check = "a new version next to an experiment by weights is checked"
        self._check(check, checked and self._state().weights == {serving: 0.2}, self._state())

    def _during_the_shift(self, why: str, text: str) -> tuple[Finished, list[int]]:
        """Deploy the next release; return it, and the statuses of a text sent while it shifts."""
        # Asked once: a step is short, and the requests of a busy machine must fall into it.
        function, _, name = self._alias()
        url, client = self.cdk.outputs()["Url"], self.cdk.aws.client("lambda")
        answers, code = [], _FAULT.format(words=_FAULTY)
        with ThreadPoolExecutor(1) as pool:
            deploying = pool.submit(self._deploy, why, code, **_SHIFTED, **_PROVISIONED)
            while not deploying.done():
                alias = client.get_alias(FunctionName=function, Name=name)
                if alias.get("RoutingConfig", {}).get("AdditionalVersionWeights"):
                    answers.append(int(ask(self.cdk.aws, url, text).status_code))
                else:
                    time.sleep(0.05)
        return deploying.result(), answers

    def _deploy(self, why: str, code: str, **settings: Mapping[str, Any]) -> Finished:
        """Deploy with code that is appended to the handler's module, and settings by table."""
        tables = {"model": _OTHER_SPACE, "release": _AT_ONCE, **settings}
        with self.cdk.checkout.edit() as document:
            for table in (*_UNSET, *tables):
                document.pop(table, None)
            for table, keys in tables.items():
                document[table] = tomlkit.item(dict(keys))
        handler = self.cdk.checkout.root / HANDLER
        handler.write_text(f"{handler.read_text().partition(_MARK)[0]}{_MARK}{code}")
        return self.cdk.deploy(why)

    def _ask(self, text: str) -> int:
        return int(ask(self.cdk.aws, self.cdk.outputs()["Url"], text).status_code)

    def _check(self, text: str, holds: bool, found: object) -> None:
        self.cdk.report.check(text, holds, found)

    def _check_rolled_back(self, before: DeployedRelease) -> None:
        after = self._state()
        holds = after == replace(before, stack=_ROLLED_BACK)
        self._check("alias, versions and stack are rolled back", holds, after)

    def _state(self) -> DeployedRelease:
        return read_release(self.cdk)

    def _alias(self) -> tuple[str, str, str]:
        return self.cdk.outputs()["AliasArn"].rpartition(":")

    def _provisioned(self) -> list[dict[str, Any]]:
        client, (function, _, _) = self.cdk.aws.client("lambda"), self._alias()
        listed = client.list_provisioned_concurrency_configs(FunctionName=function)
        return list(listed["ProvisionedConcurrencyConfigs"])
