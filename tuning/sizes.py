"""The sizes that are measured."""

from dataclasses import dataclass

from embedding_costs.duration import VCPU_MB
from embedding_kit.environment import Environment

__all__ = ["SIZES", "Size", "sizes_of"]


@dataclass(frozen=True, slots=True)
class Size:
    """Memory, and the inference threads that its vCPUs can run."""

    memory_mb: int
    threads: int

    @property
    def gb(self) -> float:
        """The memory in GB, as Lambda bills it."""
        return self.memory_mb / 1024

    def __str__(self) -> str:
        return f"{self.memory_mb:,} MB, {self.threads} thread{'s' if self.threads > 1 else ''}"


#: One vCPU, the default, and two vCPUs. Less than one vCPU needs no measurement: time and price
#: change in proportion, so a request costs the same and takes longer.
SIZES = (Size(VCPU_MB, 1), Size(2048, 1), Size(2 * VCPU_MB, 2))


def sizes_of(environment: Environment) -> tuple[tuple[Size, ...], tuple[str, ...]]:
    """Return the sizes that the file says the account allows, and notes on the others."""
    most = environment.function.account_memory_mb or SIZES[-1].memory_mb
    return (
        tuple(size for size in SIZES if size.memory_mb <= most),
        tuple(
            f"{size} is left out: account_memory_mb = {most}"
            for size in SIZES
            if size.memory_mb > most
        ),
    )
