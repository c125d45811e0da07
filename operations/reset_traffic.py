"""Clear weights that a failed release left on the alias: `scripts/reset-traffic NAME`.

While a release shifts traffic, the alias routes to two versions by weight. If a new version cannot
start under provisioned concurrency, the release fails and the weights can stay. Then AWS refuses
every further release and every change of provisioned concurrency: "Alias with weights can not be
used with Provisioned Concurrency" (https://github.com/hashicorp/terraform/issues/24957,
https://github.com/gradientedge/cdk-utils/pull/1110).
"""

import argparse
from dataclasses import dataclass

from botocore.session import Session

from embedding_client.doctor.release import traffic_shares
from embedding_kit.programs import exit_with
from operations.command import command_parser, run_command
from operations.deployed import Deployed, find_deployed
from operations.environment_session import session_for
from stacks.environment import EnvironmentSettings


@dataclass(frozen=True, slots=True)
class TrafficWeights:
    """Two versions that an alias routes to, and the alias's revision at that time."""

    alias: str
    #: The share of the requests by version; the alias's own version comes first.
    shares: dict[str, float]
    revision: str

    @property
    def favorite(self) -> str:
        """The version that gets most of the requests; the alias's own if both get half."""
        return max(self.shares, key=lambda version: self.shares[version])

    def __str__(self) -> str:
        shares = ", ".join(f"version {name}: {share:.0%}" for name, share in self.shares.items())
        return f"the alias {self.alias} divides its traffic ({shares})"


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit status."""
    parser = command_parser("scripts/reset-traffic", __doc__)
    text = "the version that gets all requests; the one with most of them by default"
    parser.add_argument("--version", help=text)
    return run_command(parser, _clear, arguments, failure="the weights of {}")


def _clear(environment: EnvironmentSettings, options: argparse.Namespace) -> None:
    session = session_for(environment, changes=True)
    print(clear_weights(session, environment, version=options.version))


def clear_weights(
    session: Session, environment: EnvironmentSettings, *, version: str | None
) -> str:
    """Route all requests to one version, in one call; return a description of the change.

    Without a version, the one that gets most requests gets them all: clearing only the weights
    could send them all to a version that cannot start.
    """
    deployed = find_deployed(session, environment)
    if deployed is None:
        return f"{environment.name} is not deployed; nothing was changed"
    weights = _read(deployed)
    if weights is None:
        return f"the alias {deployed.alias} has no weights of a release; nothing was changed"
    if running := _running(deployed):
        raise ValueError(
            f"{weights}, and {running} is running; wait until it ends, or stop it; "
            "nothing was changed"
        )
    chosen = version or weights.favorite
    if chosen not in weights.shares:
        allowed = " or ".join(weights.shares)
        raise ValueError(
            f"--version: found: {chosen}; allowed: {allowed}, to which the alias routes"
        )
    deployed.client("lambda").update_alias(
        FunctionName=deployed.function,
        Name=deployed.alias,
        FunctionVersion=chosen,
        RoutingConfig={"AdditionalVersionWeights": {}},
        # AWS refuses this if the alias has changed since it was read.
        RevisionId=weights.revision,
    )
    return f"{weights}; now version {chosen} gets all of it"


def find_stuck_weights(session: Session, environment: EnvironmentSettings) -> TrafficWeights | None:
    """Return weights that neither a running release nor an experiment explains."""
    deployed = find_deployed(session, environment)
    weights = _read(deployed) if deployed else None
    return None if deployed is None or weights is None or _running(deployed) else weights


def _read(deployed: Deployed) -> TrafficWeights | None:
    """Return the weights; None without, or if the template has them, as an experiment's."""
    alias = deployed.read_alias()
    shares = traffic_shares(alias)
    if len(shares) == 1 or any(
        resource["Type"] == "AWS::Lambda::Alias" and "RoutingConfig" in resource["Properties"]
        for resource in deployed.template()["Resources"].values()
    ):
        return None
    return TrafficWeights(alias=deployed.alias, shares=shares, revision=alias["RevisionId"])


def _running(deployed: Deployed) -> str | None:
    """Return a description of the process that is changing the alias now, or None."""
    if deployed.status.endswith("_IN_PROGRESS"):
        return f"the stack {deployed.stack} ({deployed.status})"
    deployments = deployed.running()
    return f"the deployment {deployments[0]}" if deployments else None


if __name__ == "__main__":
    exit_with(main)
