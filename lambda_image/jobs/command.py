"""Shared parts of the jobs on this machine: exit statuses, errors, a pool and its progress.

The code that needs the extra `batch` is imported when a job runs, so that a missing package is an
error of one line. This module needs the standard library alone.
"""

import json
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, as_completed
from contextlib import contextmanager
from typing import Any, TypeVar

from embedder.core.errors import EmbedderError
from jobs.errors import BatchError, RejectedRowsError

Item = TypeVar("Item")
Result = TypeVar("Result")

_INTERRUPTED = 130


def run_command(
    run: Callable[..., Any], arguments: Sequence[str] | None, *, interrupted: str
) -> int:
    """Run a job with the keywords of the first argument, and print its named tuple as JSON.

    The exit status is 0; 1 after an error; 3 if too many rows were rejected; 130 after Ctrl-C.
    """
    try:
        result = run(**json.loads((arguments or sys.argv[1:])[0]))
    except RejectedRowsError as error:
        return _failed(str(error), 3)
    except (BatchError, EmbedderError) as error:
        return _failed(str(error), 1)
    except ModuleNotFoundError as error:
        return _failed(f"{error.name} is missing: pip install 'embedding-kit[batch]'.", 1)
    except KeyboardInterrupt:
        print(f"\n{interrupted}", file=sys.stderr)
        return _INTERRUPTED
    print(json.dumps(result._asdict()))
    return 0


def _failed(problem: str, status: int) -> int:
    print(f"error: {problem}", file=sys.stderr)
    return status


def show_progress(
    outcomes: Iterable[Any], *, total: int, done: int, unit: str, counts: Sequence[str]
) -> None:
    """Wait for all `jobs.steps.ItemOutcome`, with a bar if the errors are shown in a terminal.

    `done` of the `total` items were done by earlier runs; `counts` names the counts that are shown.
    """
    from tqdm import tqdm  # noqa: PLC0415  (needs the extra)

    sums: Counter[str] = Counter()
    with tqdm(total=total, initial=done, unit=f" {unit}", disable=None) as bar:
        for outcome in outcomes:
            sums.update({name: getattr(outcome.counts, name) for name in counts})
            bar.set_postfix(sums, refresh=False)
            bar.update()


def run_all(
    pool: Executor, work: Callable[[Item], Result], items: Iterable[Item]
) -> Iterator[Result]:
    """Work on items, and yield the result of each as soon as it is done.

    The first failure of an item is raised after the others are done, and `BrokenExecutor`, for a
    process of the pool that ended, immediately. The pool is shut down at the end.
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
