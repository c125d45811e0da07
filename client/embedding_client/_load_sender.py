"""The generator of `embed load`: requests at a fixed rate.

Each request is sent when it is due, whether or not those before it were answered, and its latency
counts from then. So a stall of the endpoint appears in the latencies of all requests that were due
during it, instead of in one (no coordinated omission).
"""

import asyncio
import json
import random
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx
import numpy as np
import numpy.typing as npt

from embedding_client._errors import ConfigurationError
from embedding_client._protocol import embed_body

try:
    import aiohttp
except ModuleNotFoundError as error:
    raise ConfigurationError("embed load needs: pip install 'embedding-client[load]'.") from error

#: Words that are one token each in the usual vocabularies (WordPiece, SentencePiece, BPE).
_WORDS = Path(__file__).with_name("load_words.txt").read_text("utf-8").split()
#: The most tokens of a query to a reranker; its passages have the rest of a pair.
QUERY_TOKENS = 8
#: Tokens that a model adds at the beginning and at the end of a text.
_ADDED = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The requests of a test."""

    #: Rising times in seconds from the beginning, float64 (requests,).
    due: npt.NDArray[np.float64]
    #: The tokens of each text, int64 (requests,).
    tokens: npt.NDArray[np.int64]
    seconds: float
    #: Whether the limit of requests ends the plan before its time.
    capped: bool


def make_plan(
    *, rate: float, seconds: float, tokens: tuple[int, int], most: int, seed: int
) -> Plan:
    """Draw a plan: Poisson arrivals, as of callers that know nothing of each other."""
    # Separate seeds, so that the lengths do not depend on the number of arrivals.
    arrivals, lengths = np.random.default_rng(seed), np.random.default_rng([seed, 1])
    # A test exceeds this number of arrivals with a probability below 1e-20.
    expected = rate * seconds
    enough = int(min(expected + 10 * expected**0.5 + 50, most + 1))
    due = np.cumsum(arrivals.exponential(1 / rate, enough))
    due = due[due < seconds]
    low, high = tokens
    drawn = np.exp(lengths.uniform(np.log(low), np.log(high + 1), len(due)))
    return Plan(
        due=due[:most],
        tokens=np.clip(drawn.astype(np.int64), low, high)[:most],
        seconds=seconds,
        capped=len(due) > most,
    )


class Texts:
    """Makes the bodies of requests from common English words; one seed gives one sequence."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311  (texts, not secrets)

    def body(self, tokens: int, *, passages: int = 0) -> bytes:
        """Return the body of `POST /` for one text, or of a reranker's for a query and passages."""
        if not passages:
            return embed_body([self._text(tokens - _ADDED)], {})
        room = max(2, tokens - _ADDED - 1)
        query = min(QUERY_TOKENS, room // 2)
        texts = [self._text(room - query) for _ in range(passages)]
        body = {"query": self._text(query), "texts": texts, "truncate": True}
        return json.dumps(body).encode()

    def _text(self, words: int) -> str:
        return " ".join(self._random.choices(_WORDS, k=max(1, words)))


#: Seconds until a connection must be open.
_CONNECT_SECONDS = 10.0
#: For the last request to end by its own timeout.
_SLACK_SECONDS = 1.0
#: Seconds that open requests have after Ctrl-C.
_GRACE_SECONDS = 3.0


class End(StrEnum):
    """The reason why a test ended."""

    TIME = "time"
    REQUESTS = "requests"
    INTERRUPTED = "interrupted"


class Kind(StrEnum):
    """How a request ended."""

    #: 200, with a number of tokens.
    OK = "ok"
    #: 429: over the function's concurrency, or over a server's limits.
    THROTTLED = "throttled"
    #: Another status below 500: the signature, the permission or the request is wrong.
    REFUSED = "refused"
    #: A status from 500 up, or a 200 without vectors.
    FAILED = "failed"
    #: No answer within the time limit.
    TIMEOUT = "timeout"
    #: No connection, or it broke.
    UNREACHABLE = "unreachable"
    #: The test ended before the answer.
    UNANSWERED = "unanswered"
    #: All connections were in use from when it was due until the test ended.
    UNSENT = "unsent"


class Outcome(NamedTuple):
    """The result of one request; times in seconds from the beginning of the test."""

    kind: Kind
    #: The HTTP status; 0 without one.
    status: int
    #: When it was due by the plan.
    due: float
    #: When the generator came to it: later than due if the generator was busy.
    taken: float
    sent: float
    ended: float
    #: The tokens that the endpoint counted; 0 without an answer.
    tokens: int
    cold: bool
    #: Whether all connections were in use when the generator came to it.
    waited: bool


class Sender:
    """Sends a plan. A request is never sent twice: a retry would hide what it met."""

    def __init__(
        self,
        plan: Plan,
        *,
        url: str,
        auth: httpx.Auth,
        connections: int,
        timeout: float,
        seed: int,
        passages: int = 0,
    ) -> None:
        #: The requests that have ended, in that order.
        self.outcomes: list[Outcome] = []
        self.end: End | None = None
        #: An error of this process, such as credentials that expired; it ends the test.
        self.failure: BaseException | None = None
        self._plan, self._timeout, self._auth = plan, timeout, auth
        self._url = httpx.URL(f"{url}rerank" if passages else url)
        self._proxy, self._passages = _proxy(url), passages
        self._texts = Texts(seed)
        self._began = 0.0
        self._now = asyncio.get_running_loop().time
        self._slots = asyncio.Semaphore(connections)
        self._open: set[asyncio.Task[None]] = set()
        self._stop, self._abort = asyncio.Event(), asyncio.Event()

    @property
    def seconds(self) -> float:
        """Seconds since the beginning."""
        return self._now() - self._began if self._began else 0.0

    def stop(self) -> None:
        """End the test: at the first call after a grace period, at the second immediately."""
        (self._abort if self._stop.is_set() else self._stop).set()

    async def run(self) -> None:
        """Send the plan, and wait for the answers."""
        async with aiohttp.ClientSession(
            # Waiting for a connection is counted here, so the pool needs no limit.
            connector=aiohttp.TCPConnector(limit=0, ssl=httpx.create_ssl_context()),
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
            task = asyncio.create_task(self._send(session, due, tokens))
            self._open.add(task)
            task.add_done_callback(self._ended)
        return End.REQUESTS if plan.capped else End.TIME

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._open.discard(task)
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
        if not self._open:
            return
        everything = asyncio.gather(*self._open, return_exceptions=True)
        # Those that wait for a connection may still be sent: without them, a stall at the end of a
        # test would be missing from the latencies.
        await _either(everything, self._stop, seconds=self._timeout + _SLACK_SECONDS)
        if self._stop.is_set():
            self.end = End.INTERRUPTED
            await _either(everything, self._abort, seconds=_GRACE_SECONDS)
        for task in self._open:
            task.cancel()
        await everything

    async def _send(self, session: aiohttp.ClientSession, due: float, tokens: int) -> None:
        taken, waited = self.seconds, self._slots.locked()
        sent: float | None = None
        kind, status, counted, cold = Kind.UNSENT, 0, 0, False
        try:
            async with self._slots:
                if self._stop.is_set():
                    raise asyncio.CancelledError  # noqa: TRY301  (handled as one from outside)
                body = self._texts.body(tokens, passages=self._passages)
                headers = _headers(self._auth, self._url, body)
                sent, kind = self.seconds, Kind.UNANSWERED
                async with session.post(
                    str(self._url),
                    data=body,
                    headers=headers,
                    allow_redirects=False,
                    proxy=self._proxy,
                ) as answer:
                    status, cold = answer.status, "x-cold-start" in answer.headers
                    kind = _kind_of(status)
                    content = await answer.read()
                    if kind is Kind.OK:
                        counted = _tokens(content, answer.headers, passages=self._passages)
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
            self.outcomes.append(
                Outcome(kind, status, due, taken, sent, ended, counted, cold, waited)
            )


class _Request:
    """The attributes that the client's auth reads, without the time of an `httpx.Request`."""

    method = "POST"

    def __init__(self, url: httpx.URL, content: bytes) -> None:
        self.url, self.content = url, content
        host = url.netloc.decode("ascii")
        self.headers = {"content-type": "application/json", "host": host}

    def read(self) -> bytes:
        return self.content


def _headers(auth: httpx.Auth, url: httpx.URL, body: bytes) -> dict[str, str]:
    request = _Request(url, body)
    next(auth.sync_auth_flow(request))  # type: ignore[arg-type]  # the attributes that it reads
    return request.headers


def _proxy(url: str) -> str | None:
    """Return the environment's proxy; aiohttp would look for it for each request, in a thread."""
    parts = urlsplit(url)
    return None if proxy_bypass(parts.netloc) else getproxies().get(parts.scheme)


def _kind_of(status: int) -> Kind:
    if status == 200:
        return Kind.OK
    if status == 429:
        return Kind.THROTTLED
    return Kind.FAILED if status >= 500 else Kind.REFUSED


async def _either(task: "asyncio.Future[Any]", event: asyncio.Event, *, seconds: float) -> None:
    """Wait until a task is done, an event is set, or the time is over."""
    waiting = asyncio.create_task(event.wait())
    either: set[asyncio.Future[Any]] = {task, waiting}
    await asyncio.wait(either, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()


def _tokens(body: bytes, headers: Mapping[str, str], *, passages: int) -> int:
    """Return the tokens that the endpoint counted; 0 if the body has no vectors or scores."""
    try:
        value = json.loads(body)
        if passages:
            scored = len(value) == passages and all("score" in entry for entry in value)
            return int(headers["x-compute-tokens"]) if scored else 0
        return int(value["tokens"]) if value["embeddings"] else 0
    except (ValueError, KeyError, TypeError):
        return 0
