"""Deploy an environment's copy to AWS, measure it, and delete it: `scripts/prove NAME`.

It shows the price and asks first. After an interruption, the same command continues where it
stopped; with `--delete` it only deletes what the run left in AWS. The results are written to
docs/measured-on-aws.json, and to the table on the page about performance.
"""

import argparse
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import tomlkit
from botocore.session import Session

from embedding_client import SigV4Auth
from embedding_client.cli import between, whole
from embedding_kit.prices import HOURS, load_prices, priced
from embedding_kit.programs import exit_with
from embedding_kit.settings import Provisioned, SnapStart
from operations.command import ENVIRONMENTS, command_parser, read_environment, run_command
from operations.cost.alternatives import Scenario
from operations.cost.bill import added_items
from operations.cost.workload import Month
from operations.deployed import DeployedStacks
from operations.environment_session import confirm, read_account_and_region, session_for
from stacks.environment import EnvironmentSettings
from stacks.standing_cost import capacity_items
from tools.cost import resources_of
from tools.prove.measure import LENGTHS, REPEATS, SIZES, VECTORS, Endpoint, Measured, find_endpoint

_ROOT = ENVIRONMENTS.parent
_RESULTS = _ROOT / "docs" / "measured-on-aws.json"
_PAGE = "docs/performance.md"
#: What a run takes with a deploy and a destroy, in hours, at most; and a snapshot's least time.
_HOURS, _SNAPSHOT_HOURS = 2.0, 3.0
#: Billed seconds of a start and of a request, at most: 2,048 tokens take two.
_START_SECONDS, _REQUEST_SECONDS = 10.0, 5.0
#: Tables of parts that are not measured, cost money, or may exist once.
_WITHOUT = ("alarms", "batch", "budget", "experiment", "front", "server")


class Run:
    """The run for an environment: the name and file of its copy, and the results by step.

    The copy is another environment, `NAME-prove`, so no run changes or deletes what the user has
    deployed. Both files outlive the process, so the same command continues an interrupted run.
    """

    def __init__(self, source: str, root: Path) -> None:
        self.name = f"{source}-prove"
        self.file = root / "environments" / f"{self.name}.toml"
        self._state = root / ".cache" / "prove" / f"{source}.json"
        self.done: dict[str, Any] = {}
        if self.exists:
            self.done = json.loads(self._state.read_text(encoding="utf-8"))

    @property
    def exists(self) -> bool:
        """Whether the run has begun and not ended."""
        return self._state.is_file()

    def begin(self, content: str) -> None:
        """Write the environment's file. The state comes first: it says that the file is a run's."""
        self._write_state()
        self.file.write_text(content, encoding="utf-8")

    def finish(self, step: str, result: Any) -> None:
        """Keep the result of a step."""
        self.done[step] = result
        self._write_state()

    def end(self) -> None:
        """Remove both files."""
        self.file.unlink(missing_ok=True)
        self._state.unlink(missing_ok=True)

    def _write_state(self) -> None:
        self._state.parent.mkdir(parents=True, exist_ok=True)
        written = self._state.with_suffix(".new")
        written.write_text(json.dumps(self.done), encoding="utf-8")
        written.replace(self._state)


def derived(content: str, *, account: str, region: str) -> str:
    """Return the file of a run's environment."""
    document = tomlkit.parse(content.removeprefix("\ufeff"))
    for table in _WITHOUT:
        document.pop(table, None)
    # A function's share of the account's concurrency may be taken by the user's own environment.
    document.get("function", {}).pop("reserved_concurrency", None)
    # A schedule could change the capacity during the run.
    document.get("cold_start", {}).pop("schedule", None)
    settings = {
        "account": account,
        "region": region,
        "removal_policy": "destroy",
        "termination_protection": False,
    }
    for key in settings:
        document.pop(key, None)
    return f"{tomlkit.dumps(settings)}{tomlkit.dumps(document)}"


def main(
    arguments: list[str] | None = None, *, transport: httpx2.BaseTransport | None = None
) -> int:
    """Run the command; return its exit status."""
    parser = command_parser("scripts/prove", __doc__)
    parser.add_argument("--starts", type=whole(1, 1000), default=20, help="of each size of memory")
    parser.add_argument(
        "--pause", type=between(0, 3600), default=15, help="seconds between two starts"
    )
    parser.add_argument("--no-doctor", action="store_true", help="as for scripts/deploy")
    parser.add_argument("--delete", action="store_true", help="only delete what a run left in AWS")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    act = partial(_act, transport=transport)
    return run_command(parser, act, arguments, failure="{} could not be measured")


def _act(
    source: EnvironmentSettings, options: argparse.Namespace, transport: httpx2.BaseTransport | None
) -> int:
    if source.branch_of is not None:
        raise ValueError(
            f"a run measures a file's environment; found: {source.argument}; allowed: "
            f"{source.branch_of}"
        )
    run = Run(source.name, _ROOT)
    continues = "agreed" in run.done
    if run.file.exists() and not run.exists:
        raise ValueError(
            f"environments/{run.file.name} must be the file of a run; found: another; "
            "allowed: none of that name"
        )
    session = session_for(source)
    account, region = read_account_and_region(session, source)
    if not run.file.exists():
        text = (ENVIRONMENTS / f"{source.name}.toml").read_text(encoding="utf-8")
        run.begin(derived(text, account=account, region=region))
    may_be_deployed = continues
    try:
        environment = read_environment(run.name)
        # A run continues only in the account where it began, which its file names.
        session = session_for(environment)
        if options.delete:
            may_be_deployed = True
            _script("scripts/destroy", run.name, *(["--force"] if options.yes else []))
            may_be_deployed = False
            return 0
        if not continues and (stacks := DeployedStacks(session, environment).all):
            raise ValueError(
                f"{run.name} must not be deployed yet; found: {stacks[0].name}; allowed: first "
                f"scripts/prove {source.name} --delete, which asks"
            )
        # A start with its update takes some seconds, a deploy minutes.
        minutes = 20 + int(len(SIZES) * options.starts * (options.pause + 5) / 60)
        question = (
            f"Go on with {run.name} (done: {', '.join([*run.done][1:]) or 'nothing'})"
            if continues
            else f"Deploy {run.name} with its IAM roles, measure it for about "
            f"{minutes} minutes, and delete it,"
        )
        usd = price_of(environment, starts=options.starts)
        question += f" in {account}, {region}, for at most ${usd:.2f}?"
        if not options.yes and not confirm(question):
            return 1
        may_be_deployed = True
        run.finish("agreed", f"{datetime.now(UTC):%Y-%m-%d}")
        _prove(run, session, environment, options, transport)
        may_be_deployed = False
    except KeyboardInterrupt:
        return 130
    finally:
        if may_be_deployed:
            print(
                f"note: {run.name} may be deployed, and is billed until it is deleted; 'scripts/"
                f"prove {source.name}' goes on, with --delete it only deletes",
                file=sys.stderr,
            )
        else:
            run.end()
    return 0


def price_of(environment: EnvironmentSettings, *, starts: int) -> float:
    """Return US dollars of a run at most, at `scripts/cost`'s list prices, without a free tier."""
    prices = load_prices(*([environment.region] if environment.region else []))
    requests = REPEATS * (len(LENGTHS) + 1)
    seconds = starts * _START_SECONDS + requests * _REQUEST_SECONDS
    # Callers through the URL, and searches, are requests of the environment's own size.
    gigabytes = (*SIZES, 2 * environment.function.memory_mb)
    month = Month(requests=5 * (starts + requests), vectors=VECTORS)
    scenario = Scenario(
        month=month, core_seconds=_REQUEST_SECONDS, memory_mb=environment.function.memory_mb
    )
    items = (
        priced(prices, "lambda_duration", "duration", seconds * sum(gigabytes) / 1024),
        priced(prices, "lambda_requests", "requests", month.requests),
        *added_items(environment, resources_of(environment), prices, scenario),
    )
    # Amounts of a month are billed by the hour; requests and data once.
    used = sum(
        item.usd * (_HOURS / HOURS if item.unit.endswith(("-month", "hour")) else 1)
        for item in items
    )
    hours = _SNAPSHOT_HOURS if isinstance(environment.cold_start, SnapStart) else _HOURS
    standing = sum(item.usd for item in capacity_items(environment, prices)) * hours / HOURS
    return used + standing


def _prove(
    run: Run,
    session: Session,
    environment: EnvironmentSettings,
    options: argparse.Namespace,
    transport: httpx2.BaseTransport | None,
) -> None:
    """Do the steps that are not done yet."""
    doctor = ["--no-doctor"] if options.no_doctor else []
    deploy = ("scripts/deploy", run.name, "--require-approval", "never", *doctor)
    _once(run, "deploy", partial(_script, *deploy))
    # An interrupted destroy leaves a part of the environment, of which all is measured.
    if "written" not in run.done:
        with httpx2.Client(
            transport=transport, auth=SigV4Auth(session=session), timeout=60
        ) as http:
            steps = _measurements(find_endpoint(session, environment), options, http)
            for number, (step, measure) in enumerate(steps.items()):
                _once(run, step, measure, of_all=number / len(steps))
        _write(environment, run.done["agreed"], {step: run.done[step] for step in steps})
        run.finish("written", None)
    _script("scripts/destroy", run.name, "--force")


def _measurements(
    endpoint: Endpoint, options: argparse.Namespace, http: httpx2.Client
) -> dict[str, Callable[[], Measured]]:
    """Return the measurements by the names of their steps."""
    memory = partial(endpoint.memory, starts=options.starts, pause=options.pause)
    environment = endpoint.environment
    measurements: dict[str, Callable[[], Measured]] = {
        **{f"memory {size}": partial(memory, size) for size in SIZES},
        "callers": partial(endpoint.callers, http),
    }
    if isinstance(environment.cold_start, SnapStart):
        measurements["restores"] = endpoint.restores
    if isinstance(environment.cold_start, Provisioned):
        measurements["provisioned"] = endpoint.provisioned
    if environment.index is not None:
        measurements["search"] = endpoint.search
    return measurements


def _once(run: Run, step: str, action: Callable[[], Any], *, of_all: float = 0) -> None:
    """Do a step that is not done yet, and show which share of all is done."""
    if step not in run.done:
        print(f"{run.name}: {of_all:.0%}, {step} ...", flush=True)
        run.finish(step, action())


def _write(environment: EnvironmentSettings, day: str, measured: dict[str, Measured]) -> None:
    """Write the results of an environment to the file, and the table to the page."""
    results = json.loads(_RESULTS.read_text(encoding="utf-8")) if _RESULTS.exists() else {}
    results[environment.name.removesuffix("-prove")] = {
        "model": environment.model.name,
        "region": environment.region,
        "date": day,
        "memory_mb": environment.function.memory_mb,
        **measured,
    }
    _RESULTS.write_text(f"{json.dumps(results, indent=1)}\n", encoding="utf-8")
    subprocess.run([sys.executable, "docs/generate.py", _PAGE], cwd=_ROOT, check=True)  # noqa: S603


def _script(*command: str) -> None:
    """Run a script of the repository, which says after Ctrl-C what AWS continues."""
    interrupts: list[int] = []
    # The script gets the same signal. Ignored, it would be ignored by the script, too.
    before = signal.signal(signal.SIGINT, lambda number, _: interrupts.append(number))
    try:
        status = subprocess.run(command, cwd=_ROOT, check=False).returncode  # noqa: S603
    finally:
        signal.signal(signal.SIGINT, before)
    if interrupts:
        raise KeyboardInterrupt
    if status:
        raise subprocess.CalledProcessError(status, command)


if __name__ == "__main__":
    exit_with(main)
