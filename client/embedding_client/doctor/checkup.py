"""All checks, in the order of the report, and how they run."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as LateError
from typing import NamedTuple

from embedding_client.doctor import (
    access,
    alarms,
    artifact,
    capacity,
    image,
    keys,
    logs,
    network,
    parts,
    permissions,
    release,
    speed,
    vectors,
)
from embedding_client.doctor.facts import Facts
from embedding_client.doctor.findings import Finding, SkippedError, skipped, warning
from embedding_client.doctor.outside import AwsError

__all__ = ["CHECKS", "Check", "Result", "examine", "run_check"]

#: Most checks wait for AWS, and those of the endpoint for each other.
_THREADS = 8
#: Each request has a timeout of its own; this bounds their number.
_SECONDS = 180


class Check(NamedTuple):
    """A check: its group and name in the report, and its function."""

    group: str
    name: str
    run: Callable[[Facts], Finding]


class Result(NamedTuple):
    """A check's finding."""

    check: Check
    finding: Finding


CHECKS = (
    Check("Access", "credentials", access.check_credentials),
    Check("Access", "dns", access.check_dns),
    Check("Access", "tls", access.check_tls),
    Check("Access", "unsigned", access.check_unsigned),
    Check("Access", "signed", access.check_signed),
    Check("Access", "permissions", permissions.check_permissions),
    Check("Vectors", "vector space", vectors.check_space),
    Check("Vectors", "golden vectors", vectors.check_golden),
    Check("Speed", "warm call", speed.check_warm),
    Check("Speed", "cold start", speed.check_cold),
    Check("Capacity", "throttling", capacity.check_throttling),
    Check("Capacity", "autoscaling", capacity.check_autoscaling),
    Check("Capacity", "provisioned", capacity.check_provisioned),
    Check("Capacity", "spillover", capacity.check_spillover),
    Check("Release", "stacks", release.check_stacks),
    Check("Release", "last release", release.check_release),
    Check("Release", "weights", release.check_weights),
    Check("Release", "version", release.check_version),
    Check("Release", "base image", image.check_image),
    Check("Release", "artifact", artifact.check_artifact),
    Check("Monitoring", "alarms", alarms.check_alarms),
    Check("Monitoring", "notices", alarms.check_notices),
    Check("Monitoring", "keys", keys.check_keys),
    Check("Monitoring", "log format", logs.check_format),
    Check("Monitoring", "log retention", logs.check_retention),
    Check("Monitoring", "metrics", logs.check_metrics),
    Check("Monitoring", "traces", logs.check_traces),
    Check("Network", "subnets", network.check_subnets),
    Check("Network", "invoke", network.check_invoke),
    Check("Parts", "front", parts.check_front),
    Check("Parts", "batch", parts.check_batch),
    Check("Parts", "index", parts.check_index),
    Check("Parts", "server", parts.check_server),
)


def examine(facts: Facts, done: Callable[[], object] = lambda: None) -> Iterator[Result]:
    """Run all checks, several at a time, and yield their results in order.

    Args:
        facts: What the checks read.
        done: Called whenever a check has ended.
    """
    pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="embed-doctor")
    end = time.monotonic() + _SECONDS
    running: list[Future[Finding]] = []
    try:
        for check in CHECKS:
            future = pool.submit(run_check, check, facts)
            future.add_done_callback(lambda _: done())
            running.append(future)
        for check, future in zip(CHECKS, running, strict=True):
            try:
                finding = future.result(timeout=max(0.0, end - time.monotonic()))
            except LateError:
                finding = skipped(f"no result after {_SECONDS} s")
            yield Result(check, finding)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def run_check(check: Check, facts: Facts) -> Finding:
    """Run a check; its failure is a finding too, and does not stop the others."""
    try:
        return check.run(facts)
    except SkippedError as error:
        return skipped(str(error))
    except AwsError as error:
        return warning(f"the check could not run: {error}", "run it again")
    except Exception as error:
        return warning(
            f"the check failed: {type(error).__name__}: {error}",
            "check this by hand, and report the error",
        )
