"""The budget of a test: what is spent, and what the requests under way may still cost."""

from embedding_load.bill import Bill, Cost
from embedding_load.outcomes import Outcome

__all__ = ["Budget"]


class Budget:
    """Lets requests through while their cost fits.

    A request that is under way holds a reserve: a cold start and the longest time that any request
    took so far, or the time by the cost model if that is longer. The upper bound of its cost
    replaces the reserve when it ends. So what is spent stays within the budget, except for
    requests under way that take longer than all before them.

    Args:
        usd: The budget in US dollars.
        bill: The prices; None if requests cost nothing.
    """

    def __init__(self, usd: float, bill: Bill | None) -> None:
        self.usd = usd
        self.spent = Cost()
        self._bill = bill
        self._reserved = 0.0
        self._longest = 0.0

    def reserve(self, tokens: int) -> float | None:
        """Reserve the cost of a request; return the amount, or None if it does not fit."""
        if self._bill is None:
            return 0.0
        seconds = max(self._longest, self._bill.seconds(tokens))
        amount = self._bill.request + self._bill.cold_start + self._bill.second * seconds
        if self.spent.bound + self._reserved + amount > self.usd:
            return None
        self._reserved += amount
        return amount

    def settle(self, amount: float, outcome: Outcome) -> None:
        """Replace a reserve by the cost of the request."""
        self._reserved -= amount
        if self._bill is not None:
            self.spent += self._bill.of(outcome)
            self._longest = max(self._longest, outcome.service)
