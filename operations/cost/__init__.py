"""What an environment costs: list prices and traffic in, US dollars a month and a picture out.

The command is `scripts/cost`. Prices are data of `embedding_kit.prices`; all formulas are pure
functions from prices and usage to line items.
"""
