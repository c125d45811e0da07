"""The tables of the rotary position embedding (Su et al., 2021, https://arxiv.org/abs/2104.09864)."""

import numpy as np

from model_compiler.graph.builder import GraphBuilder

__all__ = ["rotary_tables"]


def rotary_tables(
    builder: GraphBuilder,
    *,
    base: float,
    head_size: int,
    positions: int,
    name: str,
    by_row: bool = False,
) -> tuple[str, str]:
    """Add cosines and sines, float32 [positions, head_size / 2], in transformers' precision.

    Args:
        builder: The graph.
        base: The base of the angles' wavelengths, `rope_theta`.
        head_size: Width of a head; even.
        positions: The number of positions.
        name: The start of the tables' names.
        by_row: Whether the tables are so long that a run should read only the rows of its text; see
            `GraphBuilder.weight`.
    """
    exponents = np.arange(0, head_size, 2, dtype=np.float64) / head_size
    frequencies = (1.0 / base**exponents).astype(np.float32)
    angles = np.outer(np.arange(positions, dtype=np.float32), frequencies)
    return (
        builder.weight(f"{name}.cosines", np.cos(angles), by_row=by_row),
        builder.weight(f"{name}.sines", np.sin(angles), by_row=by_row),
    )
