"""The cost of an environment: list prices and traffic in, US dollars a month out.

The command is `scripts/cost`. Prices are data of `embedding_kit.prices`.
"""


class CostError(ValueError):
    """Something is missing or wrong in what the user gave; the message says what is allowed."""
