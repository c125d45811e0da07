"""The checks that need an AWS account, each with its substitute in the rehearsal."""

from image_rehearsal.report import Report

__all__ = ["AWS_ONLY", "add_aws_only"]

#: Subject, check, substitute. `docs/rehearsal.md` has the commands for each check.
AWS_ONLY = (
    (
        "cold start",
        "the duration of a cold start: on demand, provisioned or from a snapshot",
        "scripts/bench, as ratios on this machine",
    ),
    (
        "image pull",
        "Lambda pulls the image under the conditions of the repository policy",
        "the policy evaluator, on the synthesized policy",
    ),
    (
        "permissions",
        "a caller needs both permissions: the emulated AWS accepts one of them",
        "the permissions as deployed; the policy evaluator, on both",
    ),
    (
        "release",
        "AWS's CodeDeploy and PublishVersion behave as documented, and how fast they are",
        "an emulation written from AWS's documentation",
    ),
    (
        "capacity",
        "provisioned concurrency is allocated, and follows utilization and schedule",
        "target and policy with resolved references; snapshots",
    ),
    (
        "alarms",
        "alarms go into ALARM in time: the emulator treats all data of an alarm as one data point",
        "tests compare their metrics with the handler's and AWS's lists",
    ),
    (
        "metric filters",
        "they match the platform's log records, which the emulator does not write",
        "tests on recorded and documented records",
    ),
    (
        "tracing and logs",
        "traces and log lines arrive",
        "the role's policy; the function's settings",
    ),
    (
        "notices",
        "a notification reaches its address, and the key allows the publishers to encrypt",
        "topic, key and policies as deployed",
    ),
    (
        "budget",
        "costs carry the tag, which must be activated once in the paying account",
        "the budget as deployed",
    ),
    (
        "Amazon Linux",
        "the image runs on the AWS base image, if that could not be pulled",
        "scripts/verify-image on a substitute with the same Python version",
    ),
)


def add_aws_only(report: Report) -> None:
    """Add a row for each check."""
    for subject, checked, instead in AWS_ONLY:
        report.not_shown(subject, checked, instead=instead)
