"""Makes the router safe to be copied: Lambda SnapStart restores one snapshot many times.

https://docs.aws.amazon.com/lambda/latest/dg/snapstart-uniqueness.html
"""

import gc
import sys

# Comes with the runtime, `awslambdaric`; it has no types.
from snapshot_restore_py import register_after_restore, register_before_snapshot

from embedder.http.router import Router


def prepare(router: Router) -> None:
    """Register the hooks that run before the snapshot and after each restore."""
    register_before_snapshot(before_snapshot, router)
    register_after_restore(after_restore, router)


def before_snapshot(router: Router) -> None:
    """Warm the models and drop per-instance state before the snapshot."""
    for model in router.models:
        model.loaded.warm()
        model.loaded.cache.clear()
    if router.model.search_index is not None:
        router.model.search_index.forget()
    gc.collect()


def after_restore(router: Router) -> None:
    """Reset a restored copy: its first request is a cold start, its random numbers are new.

    Ids need no renewal: they come from Lambda, or from the kernel.
    """
    if router.telemetry is not None:
        router.telemetry.cold = True
    for name in ("random", "numpy.random"):
        module = sys.modules.get(name)
        if module is not None:
            module.seed()
