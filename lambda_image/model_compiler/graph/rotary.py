"""The tables of the rotary position embedding (Su et al., 2021, https://arxiv.org/abs/2104.09864)."""

from collections.abc import Iterable, Mapping

import numpy as np

from model_compiler.graph.builder import GraphBuilder

__all__ = ["rotary_tables", "rotary_tables_by_kind"]


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


def rotary_tables_by_kind(
    builder: GraphBuilder,
    bases: Mapping[bool, float],
    *,
    kinds: Iterable[bool],
    head_size: int,
    positions: int,
    by_row: bool = False,
) -> dict[bool, tuple[str, str]]:
    """Add the tables of sliding layers and those of full layers; see `rotary_tables`.

    Args:
        builder: The graph.
        bases: The base of full layers (False) and that of sliding ones (True).
        kinds: For each layer, whether it is a sliding one. A kind without a layer has no tables.
        head_size: Width of a head; even.
        positions: The number of positions.
        by_row: Whether a run should read only the rows of its text.
    """
    return {
        sliding: rotary_tables(
            builder,
            base=bases[sliding],
            head_size=head_size,
            positions=positions,
            name="rope.sliding" if sliding else "rope.full",
            by_row=by_row,
        )
        for sliding in sorted(set(kinds))
    }
