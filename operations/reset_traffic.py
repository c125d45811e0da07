"""Clear weights that a failed release left on the alias: `scripts/reset-traffic NAME`.

While a release shifts traffic, the alias routes to two versions by weight. If a new version cannot
start under provisioned concurrency, the release fails and the weights can stay. Then AWS refuses
every further release and every change of provisioned concurrency: "Alias with weights can not be
used with Provisioned Concurrency" (https://github.com/hashicorp/terraform/issues/24957,
https://github.com/gradientedge/cdk-utils/pull/1110).
"""

import sys
from dataclasses import dataclass

from botocore.session import Session

from embedding_kit.environment import EnvironmentSettings
from operations.command import command_parser, run_version_command
from operations.deployed import (
    Deployed,
    deployed_template,
    find_alias,
    find_deployed,
    find_deployment_group,
)
from stacks.names import endpoint_stack_name


@dataclass(frozen=True, slots=True)
class Weights:
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
    default, failure = "the one with most of them", "the weights of {}"
    return run_version_command(parser, clear_weights, arguments, default=default, failure=failure)


def clear_weights(
    session: Session, environment: EnvironmentSettings, *, version: str | None
) -> str:
    """Route all requests to one version, in one call; return a description of the change.

    Without a version, the one that gets most requests gets them all: clearing only the weights
    could send them all to a version that cannot start.

    Raises:
        ValueError: A release is running, or the alias does not route to the version.
    """
    deployed = find_deployed(session, environment)
    if deployed is None:
        return f"{environment.name} is not deployed; nothing was changed"
    weights = _read(session, environment, deployed)
    if weights is None or _are_deployed(session, environment):
        return f"the alias {deployed.alias} has no weights of a release; nothing was changed"
    if running := _running(session, environment, deployed):
        raise ValueError(
            f"{weights}, and {running} is running; wait until it ends, or stop it; "
            "nothing was changed"
        )
    kept = version or weights.favorite
    if kept not in weights.shares:
        allowed = " or ".join(weights.shares)
        raise ValueError(f"--version: found: {kept}; allowed: {allowed}, to which the alias routes")
    client = session.create_client("lambda", region_name=environment.region)
    client.update_alias(
        FunctionName=deployed.function,
        Name=deployed.alias,
        FunctionVersion=kept,
        RoutingConfig={"AdditionalVersionWeights": {}},
        # AWS refuses this if the alias has changed since it was read.
        RevisionId=weights.revision,
    )
    return f"{weights}; now version {kept} gets all of it"


def find_stuck_weights(session: Session, environment: EnvironmentSettings) -> Weights | None:
    """Return weights that neither a running release nor an experiment explains."""
    deployed = find_deployed(session, environment)
    if deployed is None:
        return None
    weights = _read(session, environment, deployed)
    if weights is None or _are_deployed(session, environment):
        return None
    return None if _running(session, environment, deployed) else weights


def _read(session: Session, environment: EnvironmentSettings, deployed: Deployed) -> Weights | None:
    alias = find_alias(session, environment, deployed)
    others = alias.get("RoutingConfig", {}).get("AdditionalVersionWeights", {})
    if not others:
        return None
    shares = {alias["FunctionVersion"]: 1 - sum(others.values())} | others
    return Weights(alias=deployed.alias, shares=shares, revision=alias["RevisionId"])


def _are_deployed(session: Session, environment: EnvironmentSettings) -> bool:
    """Return whether the weights are in the deployed template, as an experiment's are."""
    return any(
        resource["Type"] == "AWS::Lambda::Alias" and "RoutingConfig" in resource["Properties"]
        for resource in deployed_template(session, environment)["Resources"].values()
    )


def _running(session: Session, environment: EnvironmentSettings, deployed: Deployed) -> str | None:
    """Return a description of the process that is changing the alias now, or None."""
    stack = endpoint_stack_name(environment.name)
    if deployed.status.endswith("_IN_PROGRESS"):
        return f"the stack {stack} ({deployed.status})"
    group = find_deployment_group(session, environment)
    if group is None:
        return None
    client = session.create_client("codedeploy", region_name=environment.region)
    deployments = group.running(client)
    return f"the deployment {deployments[0]}" if deployments else None


if __name__ == "__main__":
    sys.exit(main())
