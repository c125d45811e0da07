"""Rules that span several settings, checked when they are read, and notes on an account's quotas.

AWS would reject these combinations later, or bill them without use. `../function.py` checks
changes that an app makes to the resources afterwards.

Sources: https://docs.aws.amazon.com/lambda/latest/dg/snapstart.html (limitations),
https://docs.aws.amazon.com/lambda/latest/dg/provisioned-concurrency.html,
https://docs.aws.amazon.com/lambda/latest/dg/configuring-alias-routing.html
"""

from collections.abc import Iterator

from embedding_kit.settings.base import format_duration, rule_error
from embedding_kit.settings.batch import BatchSettings
from embedding_kit.settings.cold_start import ColdStart, Provisioned, SnapStart
from embedding_kit.settings.function import (
    NEW_ACCOUNT_MEMORY_MB,
    UNRESERVED_MINIMUM,
    FunctionSettings,
)
from embedding_kit.settings.index import VectorIndexSettings, check_dimension, index_dimension
from embedding_kit.settings.model import ModelSettings
from embedding_kit.settings.observability import AlarmSettings
from embedding_kit.settings.package import check_package
from embedding_kit.settings.release import Experiment, Release


def check_endpoint(
    *,
    model: ModelSettings,
    function: FunctionSettings,
    cold_start: ColdStart | None,
    release: Release,
    experiment: Experiment | None,
    alarms: AlarmSettings,
) -> None:
    """Refuse settings of an endpoint that would fail a deploy or be billed without use."""
    if isinstance(cold_start, SnapStart) and experiment is not None:
        raise rule_error(
            "with SnapStart every kept version is billed, so old ones are not kept to compare with",
            found='experiment with cold_start.kind = "snapstart"',
            allowed="no experiment, or another cold_start.kind",
        )
    if isinstance(cold_start, Provisioned):
        _check_provisioned(function, cold_start, experiment)
    if experiment and experiment.percent and release.in_steps:
        raise rule_error(
            "CodeDeploy owns the alias's weights while it shifts traffic",
            found=f'release.kind = "{release.kind}" with experiment.percent',
            allowed='release.kind = "all-at-once", or no experiment.percent',
        )
    threshold = alarms.duration_p99
    if threshold is not None and threshold >= function.timeout:
        raise rule_error(
            "Lambda ends a request at the timeout, so the alarm could never fire",
            found=f"alarms.duration_p99 = {format_duration(threshold)} "
            f"with function.timeout = {format_duration(function.timeout)}",
            allowed=f"less than {format_duration(function.timeout)}, or a longer timeout",
        )
    check_memory(model, function)
    check_truncation(model, function)
    check_package(model, function, cold_start)


def check_memory(
    model: ModelSettings, function: FunctionSettings | BatchSettings, *, table: str = "function"
) -> None:
    """Refuse less memory than the models need to load, as far as the need is known.

    A start of several models checks what all of them take. `table` has the settings of the function
    in the environment's file.
    """
    needs = [(source, source.needed_memory_mb or 0) for source in model.sources]
    needed = sum(need for _, need in needs)
    if function.memory_mb < needed:
        named = " and ".join(
            f"{source.name} as {source.precision or 'int8'}" for source, need in needs if need
        )
        raise rule_error(
            f"{named} does not fit into the function's memory",
            found=f"{table}.memory_mb = {function.memory_mb}",
            allowed=f"{needed} or more",
        )


def check_truncation(model: ModelSettings, function: FunctionSettings) -> None:
    """Refuse to cut the starts of texts next to a reranker, which cuts their ends."""
    if model.reranker and function.truncate == "left":
        raise rule_error(
            "a reranker cuts the ends of texts",
            found='function.truncate = "left" with [reranker]',
            allowed='"refuse" or "right"',
        )


def check_standby(
    standby: ModelSettings,
    model: ModelSettings,
    index: VectorIndexSettings | None,
    function: FunctionSettings,
) -> None:
    """Refuse a second model without an index, without images, or with the vectors of the first."""
    if index is None:
        raise rule_error(
            "a second model has its own index in S3 Vectors",
            found="[standby] without [index]",
            allowed="both tables, or none of them",
        )
    if function.package == "zip":
        raise rule_error(
            "a second model runs from images, which Docker builds",
            found='[standby] with function.package = "zip"',
            allowed='function.package = "image", or no [standby]',
        )
    check_dimension(standby, index)
    check_memory(standby, function)
    check_truncation(standby, function)
    model_space, standby_space = (
        (
            source.name.lower(),
            source.revision,
            source.precision,
            source.folder,
            index_dimension(source),
        )
        for source in (model, standby)
    )
    if model_space == standby_space:
        raise rule_error(
            "a second model has other vectors, or another number of dimensions",
            found=f"{standby.name} in [model] and [standby]",
            allowed="another name, revision, precision, folder or index_dimension in [standby]",
        )


def check_server(model: ModelSettings) -> None:
    """Refuse a server of several models: its queue is one model's."""
    if model.companions:
        tables = " and ".join(f"[{table}]" for table in model.companions)
        raise rule_error(
            "a server runs one model",
            found=f"a server with {tables}",
            allowed=f"no {tables}, or another environment with that model under [model]",
        )


def check_batch(
    batch: BatchSettings, function: FunctionSettings, cold_start: ColdStart | None
) -> None:
    """Refuse a batch that could take the concurrency that callers need, or more than there is."""
    quota, reserved = function.account_concurrency, function.reserved_concurrency
    taken = reserved or (cold_start.ceiling if isinstance(cold_start, Provisioned) else 0)
    if batch.reserved_concurrency is not None:
        limit = quota - UNRESERVED_MINIMUM - taken
        if batch.reserved_concurrency > limit:
            raise rule_error(
                f"Lambda keeps {UNRESERVED_MINIMUM} of the account's concurrency unreserved",
                found=f"batch.reserved_concurrency = {batch.reserved_concurrency} with "
                f"{taken} of the endpoint, of account_concurrency = {quota}",
                allowed=f"1 to {limit}" if limit >= 1 else "none; ask AWS for a higher quota first",
            )
        return
    # Without a reservation, callers share the rest with the batch: they keep half of it.
    limit = quota - reserved if reserved else quota // 2
    if batch.max_concurrency > limit:
        raise rule_error(
            "a batch must leave concurrency to callers: half of the account's, or the function's "
            "reserved concurrency",
            found=f"batch.max_concurrency = {batch.max_concurrency} "
            f"of account_concurrency = {quota}",
            allowed=f"1 to {limit}, or batch.reserved_concurrency",
        )


def _check_provisioned(
    function: FunctionSettings, cold_start: Provisioned, experiment: Experiment | None
) -> None:
    if experiment and experiment.percent:
        raise rule_error(
            "AWS refuses to change the provisioned concurrency of an alias that has weights, so it "
            "could not be allocated or scaled for as long as the experiment runs",
            found='experiment.percent with cold_start.kind = "provisioned"',
            allowed="no experiment.percent, or another cold_start.kind",
        )
    # A release's check invokes the new version by its number.
    of, available, less = "reserved_concurrency", function.reserved_concurrency, 1
    if available is None:
        of, available, less = (
            "account_concurrency",
            function.account_concurrency,
            UNRESERVED_MINIMUM,
        )
    if cold_start.ceiling > available - less:
        raise rule_error(
            "provisioned concurrency is part of the concurrency that the function may use, and "
            "the check of a new version needs some that is not provisioned",
            found=f"a maximum of {cold_start.ceiling}",
            allowed=f"up to {available - less}, which is function.{of} less {less}, or more of "
            "that",
        )


def needed_concurrency(
    function: FunctionSettings, cold_start: ColdStart | None, batch: BatchSettings | None = None
) -> int:
    """Return the quota of concurrent executions that the account needs for a deploy.

    A reservation, or provisioned concurrency without one, and the batch's reservation are added to
    the concurrency that Lambda keeps unreserved. Return 0 if none is set.
    """
    taken = function.reserved_concurrency or 0
    if not taken and isinstance(cold_start, Provisioned):
        taken = cold_start.ceiling
    if batch is not None:
        taken += batch.reserved_concurrency or 0
    return taken + UNRESERVED_MINIMUM if taken else 0


def quota_notes(function: FunctionSettings, cold_start: ColdStart | None) -> Iterator[str]:
    """Yield a note for each setting above a new account's quotas, unless the file has the quota.

    New accounts have reduced quotas of concurrency and memory, which AWS raises with use or on
    request: https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html
    """
    if function.memory_mb > NEW_ACCOUNT_MEMORY_MB:
        yield (
            f"memory_mb = {function.memory_mb}, and a new AWS account may allow a function "
            f"{NEW_ACCOUNT_MEMORY_MB} MB: ask AWS Support for more, or set memory_mb to "
            f"{NEW_ACCOUNT_MEMORY_MB} or less."
        )
    needed = needed_concurrency(function, cold_start)
    if needed and "account_concurrency" not in function.model_fields_set:
        yield (
            f"the account needs a quota of {needed} concurrent executions, and a new AWS account "
            f"may have less than the {function.account_concurrency} that are assumed: look it up "
            "(aws lambda get-account-settings) and set account_concurrency to it."
        )
