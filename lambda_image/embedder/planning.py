"""Decides which inputs share a run of the model, so that little is padded and memory is bounded."""

from collections.abc import Sequence

__all__ = ["RUN_COST_TOKENS", "TOKEN_BUDGET", "plan"]

#: Tokens of one run, padding included: what is computed at once lies in memory at once.
TOKEN_BUDGET = 4096
#: What one more run costs, told in tokens: padding is worth its while up to there.
RUN_COST_TOKENS = 64


def plan(
    lengths: Sequence[int],
    *,
    budget: int = TOKEN_BUDGET,
    run_cost: int = RUN_COST_TOKENS,
) -> list[list[int]]:
    """Group inputs into runs.

    The inputs are taken from the longest to the shortest, so that neighbours are alike. A run ends
    where one more input would put it over the budget, or where its padding would cost more than
    another run.

    Args:
        lengths: tokens of each input, all positive.
        budget: the most tokens of a run, padding included; one input is always allowed.
        run_cost: the most tokens of padding in a run.

    Returns:
        The runs, each a list of positions in `lengths`, its longest first. Every position stands in
        exactly one run.
    """
    runs: list[list[int]] = []
    longest = padding = 0
    for position in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
        length = lengths[position]
        padding += longest - length
        if not runs or padding > run_cost or (len(runs[-1]) + 1) * longest > budget:
            runs.append([])
            longest, padding = length, 0
        runs[-1].append(position)
    return runs
