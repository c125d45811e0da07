"""The cost of an environment: list prices and traffic in, US dollars a month out.

The command is `scripts/cost`. Prices are data of `embedding_kit.prices`.
"""
