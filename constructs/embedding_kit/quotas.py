"""Notes at synth on quotas that a new AWS account may not have."""

from collections.abc import Iterator

from embedding_kit.settings import BatchSettings, ColdStart, FunctionSettings, Provisioned
from embedding_kit.settings.function import NEW_ACCOUNT_MEMORY_MB, UNRESERVED_MINIMUM


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
