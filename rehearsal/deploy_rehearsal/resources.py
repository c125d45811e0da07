"""Check each resource of the stacks: compare its template with its service's API.

Resources that MiniStack cannot create (`RECORDED`) are read from the plugin's record, with the
properties that CloudFormation resolved. The report says so.
"""

from botocore.exceptions import ClientError

from deploy_rehearsal.deployed import DeployedStacks, Resource
from deploy_rehearsal.differences import differences, literals
from deploy_rehearsal.emulator import Emulator
from deploy_rehearsal.function_checks import FUNCTION_CHECKS
from deploy_rehearsal.monitoring_checks import MONITORING_CHECKS
from image_rehearsal.report import Report

__all__ = ["CHECKS", "RECORDED", "check_resources"]

CHECKS = FUNCTION_CHECKS | MONITORING_CHECKS

#: Types that the plugin only records, and how far they are used.
RECORDED = {
    "AWS::ApplicationAutoScaling::ScalableTarget": "capacity: nothing is scaled here",
    "AWS::ApplicationAutoScaling::ScalingPolicy": "capacity: nothing is scaled here",
    "AWS::CodeDeploy::Application": "releases use it",
    "AWS::CodeDeploy::DeploymentConfig": "releases use it",
    "AWS::CodeDeploy::DeploymentGroup": "releases use it",
    "AWS::Logs::QueryDefinition": "saved queries: no query runs here",
}

_SILENT = {"AWS::CDK::Metadata"}


def check_resources(report: Report, aws: Emulator, deployed: DeployedStacks) -> None:
    """Check each resource of the stacks; a type without a check is a failure."""
    for resource in deployed.resources:
        if resource.type in _SILENT:
            continue
        exists = resource.physical_id is not None and resource.status.endswith("_COMPLETE")
        if not exists:
            by = "CloudFormation"
            report.check(resource.name, "is deployed", False, by=by, found=resource.status)
        elif resource.type in RECORDED:
            _check_recorded(report, aws, resource)
        elif resource.type in CHECKS:
            _check_made(report, aws, deployed, resource)
        else:
            report.check(resource.name, "has a check", False, by="this table", found="it has none")


def _check_made(
    report: Report, aws: Emulator, deployed: DeployedStacks, resource: Resource
) -> None:
    try:
        checked, by, faults = CHECKS[resource.type](aws, deployed, resource)
    except (ClientError, KeyError, IndexError, ValueError) as error:
        checked, by, faults = "can be read back", "the service's API", [repr(error)]
    report.check(resource.name, checked, not faults, by=by, found="; ".join(faults))


def _check_recorded(report: Report, aws: Emulator, resource: Resource) -> None:
    kept = [r for r in aws.recorded(resource.type) if r["logical_id"] == resource.logical_id]
    properties = kept[0]["properties"] if kept else {}
    faults = differences(literals(resource.properties), properties) if kept else ["not recorded"]
    report.check(
        resource.name,
        "its properties equal the template's, with every reference resolved",
        not faults,
        by="the plugin's record; " + RECORDED[resource.type],
        found="; ".join(faults),
    )
