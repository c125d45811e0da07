"""Sends the requests of a plan when they are due, whatever became of those before them."""

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from typing import Any

import aiohttp
import httpx

from embedding_load.limits import Budget
from embedding_load.outcomes import Kind, Outcome, kind_of
from embedding_load.schedule import Plan
from embedding_load.target import Target
from embedding_load.texts import Texts

__all__ = ["End", "Sender"]

#: Seconds until a connection must be there.
_CONNECT_SECONDS = 10.0
#: For the last request to end by its own timeout.
_SLACK_SECONDS = 1.0
#: Seconds that requests under way have after Ctrl-C.
_GRACE_SECONDS = 3.0


class End(StrEnum):
    """What ended a test."""

    TIME = "time"
    REQUESTS = "requests"
    BUDGET = "budget"
    INTERRUPTED = "interrupted"


class Sender:
    """Sends a plan. A request is never sent twice: a retry would hide what it met.

    Args:
        plan: What to send, and when.
        target: Where to.
        budget: Lets requests through while their cost fits.
        connections: The most connections, and so the most requests under way.
        timeout: Seconds that an answer may take.
        seed: Of the texts.

    Attributes:
        outcomes: The requests that have ended.
        sent: The requests that were sent so far.
        end: What ended the test; None before.
        failure: An error of this process, such as credentials that expired; it ends the test.
    """

    def __init__(
        self,
        plan: Plan,
        target: Target,
        budget: Budget,
        *,
        connections: int,
        timeout: float,
        seed: int,
    ) -> None:
        self.outcomes: list[Outcome] = []
        self.sent = 0
        self.end: End | None = None
        self.failure: BaseException | None = None
        self._plan, self._target, self._budget = plan, target, budget
        self._timeout = timeout
        self._texts = Texts(seed)
        self._began = 0.0
        self._now: Callable[[], float] = asyncio.get_running_loop().time
        self._slots = asyncio.Semaphore(connections)
        self._under_way: set[asyncio.Task[None]] = set()
        self._stop, self._abort = asyncio.Event(), asyncio.Event()

    @property
    def seconds(self) -> float:
        """Seconds since the first request was due."""
        return self._now() - self._began if self._began else 0.0

    @property
    def waiting(self) -> int:
        """Requests that were due, and have no answer."""
        return len(self._under_way)

    def stop(self) -> None:
        """End the test: at the first call after a grace, at the second at once."""
        (self._abort if self._stop.is_set() else self._stop).set()

    async def run(self) -> None:
        """Send the plan, and wait for the answers."""
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                # Waiting for a connection is counted here, so the pool needs no limit of its own.
                limit=0,
                ssl=httpx.create_ssl_context(),
            ),
            timeout=aiohttp.ClientTimeout(
                total=self._timeout,
                sock_connect=_CONNECT_SECONDS,
                # By default, aiohttp rounds timeouts over five seconds up.
                ceil_threshold=float("inf"),
            ),
        ) as session:
            self._began = self._now()
            self.end = await self._dispatch(session)
            await self._drain()

    async def _dispatch(self, session: aiohttp.ClientSession) -> End:
        """Start each request when it is due; return why no more are started."""
        plan = self._plan
        for due, tokens in zip(plan.due.tolist(), plan.tokens.tolist(), strict=True):
            # Also without a delay, so that a generator that is behind still reads answers.
            await self._sleep(self._began + due - self._now())
            if self._stop.is_set():
                return End.INTERRUPTED
            if self.seconds > plan.seconds:
                return End.TIME
            reserve = self._budget.reserve(tokens)
            if reserve is None:
                return End.BUDGET
            task = asyncio.create_task(self._send(session, due, tokens, reserve))
            self._under_way.add(task)
            task.add_done_callback(self._ended)
        return End.REQUESTS if plan.capped else End.TIME

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self.failure = self.failure or task.exception()
            self._stop.set()

    async def _sleep(self, seconds: float) -> None:
        """Sleep, or return as soon as the test is stopped."""
        if seconds < 1.0:
            await asyncio.sleep(max(0.0, seconds))
            return
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), seconds)

    async def _drain(self) -> None:
        """Wait for the answers to what was sent."""
        if not self._under_way:
            return
        everything = asyncio.gather(*self._under_way, return_exceptions=True)
        # Those that wait for a connection may still be sent: without them, a stall at the end of a
        # test would be missing from the latencies.
        await _either(everything, self._stop, seconds=self._timeout + _SLACK_SECONDS)
        if self._stop.is_set():
            self.end = End.INTERRUPTED
            await _either(everything, self._abort, seconds=_GRACE_SECONDS)
        for task in self._under_way:
            task.cancel()
        await everything

    async def _send(
        self, session: aiohttp.ClientSession, due: float, tokens: int, reserve: float
    ) -> None:
        """Send one request, and keep its outcome."""
        taken, waited = self.seconds, self._slots.locked()
        sent: float | None = None
        kind, status, counted, cold = Kind.UNSENT, 0, 0, False
        try:
            async with self._slots:
                if self._stop.is_set():
                    raise asyncio.CancelledError  # noqa: TRY301  (handled as one from outside)
                body = self._texts.body(tokens)
                headers = self._target.headers(body)
                sent, kind = self.seconds, Kind.UNANSWERED
                self.sent += 1
                async with session.post(
                    self._target.url,
                    data=body,
                    headers=headers,
                    allow_redirects=False,
                    proxy=self._target.proxy,
                ) as answer:
                    status, cold = answer.status, "x-cold-start" in answer.headers
                    kind = kind_of(status)
                    counted = _tokens(await answer.read()) if kind is Kind.OK else 0
                    if kind is Kind.OK and not counted:
                        kind = Kind.FAILED
        except aiohttp.ConnectionTimeoutError:
            kind = Kind.UNREACHABLE
        except TimeoutError:
            kind = Kind.TIMEOUT
        except (aiohttp.ClientError, OSError):
            kind = Kind.UNREACHABLE
        except asyncio.CancelledError:
            # The test is over; the outcome is all that is left to do.
            kind = Kind.UNSENT if sent is None else Kind.UNANSWERED
        finally:
            ended = self.seconds
            sent = ended if sent is None else sent
            outcome = Outcome(kind, status, due, taken, sent, ended, tokens, counted, cold, waited)
            self.outcomes.append(outcome)
            self._budget.settle(reserve, outcome)


async def _either(task: "asyncio.Future[Any]", event: asyncio.Event, *, seconds: float) -> None:
    """Wait until a task is done, an event is set, or the time is over."""
    waiting = asyncio.create_task(event.wait())
    either: set[asyncio.Future[Any]] = {task, waiting}
    await asyncio.wait(either, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()


def _tokens(body: bytes) -> int:
    """Return the tokens that the endpoint counted; 0 if the body is no answer with vectors."""
    try:
        value = json.loads(body)
        return int(value["tokens"]) if value["embeddings"] else 0
    except (ValueError, KeyError, TypeError):
        return 0
