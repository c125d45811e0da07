"""What no emulator can show, and what stands in for it until the first real deploy."""

from image_rehearsal.report import Report

__all__ = ["UNPROVEN", "tell_unproven"]

#: Subject, what is not shown, what is looked at instead. `docs/rehearsal.md` has the commands that
#: show each in an account.
UNPROVEN = (
    (
        "cold start",
        "how long an environment takes to start, on demand, provisioned or from a snapshot",
        "scripts/bench, as ratios on this machine",
    ),
    (
        "image pull",
        "that Lambda, as a service, pulls the image under the repository policy's conditions",
        "the policy evaluator over the synthesized policy",
    ),
    (
        "permissions",
        "that a caller needs both: the emulated AWS lets a request through with one of them",
        "both read back; the policy evaluator over both",
    ),
    (
        "release",
        "that AWS's CodeDeploy and PublishVersion act as documented, at their own pace",
        "an emulation by AWS's documentation, in which releases are refused and rolled back",
    ),
    (
        "capacity",
        "that provisioned concurrency is allocated and follows its use and the schedule",
        "target and policy as resolved; snapshots",
    ),
    (
        "alarms",
        "that they go into ALARM in time: all data of an alarm's periods count as one data point",
        "their metrics against the handler's and AWS's own lists, in the tests",
    ),
    (
        "metric filters",
        "that they find the platform's records: no platform writes any here",
        "recorded and documented records, in the tests",
    ),
    (
        "tracing and logs",
        "that traces and log lines arrive",
        "the role's policy; the function's settings",
    ),
    (
        "notices",
        "that a notice reaches an address, and that the key lets the publishers encrypt",
        "topic, key and policies read back",
    ),
    (
        "budget",
        "that costs carry the tag: it must be activated once in the account that pays",
        "the budget read back",
    ),
    (
        "Amazon Linux",
        "that the image runs on AWS's base where that could not be pulled",
        "scripts/verify-image on a stand-in of the same Python",
    ),
)


def tell_unproven(report: Report) -> None:
    """Add a row for each."""
    for subject, checked, instead in UNPROVEN:
        report.unproven(subject, checked, instead=instead)
