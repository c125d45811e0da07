"""`embed doctor`: check a deployed endpoint from outside, and print what to do.

Each module has the checks of one subject: a pure function `judge_…` that turns what was read into a
finding, and a function `check_…` that reads it. `Facts` reads everything once, with timeouts.
"""
