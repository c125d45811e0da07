"""`embed doctor`: check a deployed endpoint from outside, and print what to do.

Each module has the checks of one subject. `Snapshot` reads everything once, through `Probes`, with
timeouts.
"""
