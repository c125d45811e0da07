"""Runs work in a pool of threads or processes."""

import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Executor, as_completed
from contextlib import contextmanager
from typing import TypeVar

__all__ = ["run_all"]

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


def run_all(
    pool: Executor, work: Callable[[Item], Outcome], items: Iterable[Item]
) -> Iterator[Outcome]:
    """Work on items, and yield the outcome of each as soon as it is done.

    An item that fails does not stop the others. The first failure is raised after them.

    Args:
        pool: Its size decides how many items are worked on at a time. It is shut down at the end.
        work: Gets an item.
        items: The items.

    Raises:
        BrokenExecutor: At once, if a process of the pool ended.
        Exception: The first failure of an item.
    """
    failed: Exception | None = None
    try:
        with _interrupt_later():
            futures = [pool.submit(work, item) for item in items]
        for future in as_completed(futures):
            try:
                yield future.result()
            except BrokenExecutor:
                raise
            except Exception as error:
                failed = failed or error
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    if failed is not None:
        raise failed


@contextmanager
def _interrupt_later() -> Iterator[None]:
    """Let Ctrl-C wait until a pool has started: one that has started in part cannot be shut down.

    Processes that start meanwhile inherit the mask, so Ctrl-C does not end them while they import.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, before)
    if pressed:
        raise KeyboardInterrupt
