"""Makes the service safe to be copied: Lambda SnapStart restores one snapshot many times.

https://docs.aws.amazon.com/lambda/latest/dg/snapstart-uniqueness.html
"""

import gc
import sys

# Comes with the runtime, `awslambdaric`; it has no types.
from snapshot_restore_py import (
    register_after_restore,
    register_before_snapshot,
)

from embedder.http.router import Service

__all__ = ["prepare", "renew", "settle"]


def prepare(service: Service) -> None:
    """Register the hooks that run before the snapshot and after each restore."""
    register_before_snapshot(settle, service)
    register_after_restore(renew, service)


def settle(service: Service) -> None:
    """Warm the model and drop per-instance state before the snapshot."""
    service.model.engine.warm()
    service.model.engine.cache.clear()
    if service.model.search_index is not None:
        service.model.search_index.forget()
    gc.collect()


def renew(service: Service) -> None:
    """Reset a restored copy: its first request is a cold start, its random numbers are new.

    Ids need no renewal: they come from Lambda, or from the kernel.
    """
    if service.telemetry is not None:
        service.telemetry.cold = True
    for name in ("random", "numpy.random"):
        module = sys.modules.get(name)
        if module is not None:
            module.seed()
