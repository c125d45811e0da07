"""`embed compare`: the vectors, rankings and latencies of two endpoints for the same texts.

Both are asked by OpenAI's API, which Text Embeddings Inference, infinity, OpenAI and this kit have.
"""

import argparse
import json
import time
from contextlib import closing
from typing import Any, Self

import httpx2
import numpy as np
import numpy.typing as npt

from embedding_client._connect import auth_for
from embedding_client._flows import TIMEOUT
from embedding_client._readers import TextSource
from embedding_client._targets import check_url
from embedding_client.errors import (
    FileError,
    ResponseError,
    ServiceError,
    UnreachableError,
    counted,
)
from embedding_client.progress import progress_on

_NEIGHBORS = 10
#: The rows with the lowest cosines that the report names.
_NAMED = 5
_SHOWN = 200


def run_compare(args: argparse.Namespace) -> int:
    """Run the command: ask both endpoints for each text in turn, and print the report."""
    source = TextSource(args.file, kind=args.format, column=args.column)
    texts = source.texts()
    if len(texts) < 2:
        raise FileError(f"{source.name} has {counted(len(texts), 'text')}; allowed: 2 or more.")
    # A key belongs to one host; the other must not see it.
    keyless = argparse.Namespace(**{**vars(args), "api_key_env": None})
    with (
        _Endpoint(args.url_a, args) as a,
        _Endpoint(args.url_b, keyless) as b,
        closing(progress_on(source.name, total=len(texts), unit="texts")) as shown,
    ):
        for text in texts:
            for endpoint in (a, b):
                endpoint.embed(text)
            shown.update(1)
    report = compare(np.array(a.vectors, np.float32), np.array(b.vectors, np.float32))
    for name, endpoint in (("a", a), ("b", b)):
        low, high = np.percentile(endpoint.milliseconds, (50, 99))
        report[f"{name}_p50_ms"], report[f"{name}_p99_ms"] = round(low, 2), round(high, 2)
    if args.json:
        print(json.dumps({"a": a.url, "b": b.url, **report}))
        return 0
    print(f"A {a.url}\nB {b.url}\n")
    print(f"texts          {report['texts']}")
    print(f"dimensions     A {report['dimensions'][0]}, B {report['dimensions'][1]}")
    if report["cosine_lowest"] is None:
        print("cosine         none between vectors of different lengths")
    else:
        print(f"cosine         lowest {report['cosine_lowest']}, mean {report['cosine_mean']}")
        print(f"lowest rows    {', '.join(map(str, report['lowest_rows']))}")
    print(f"top {report['neighbors']:<11}{report['overlap_percent']}% in common")
    for name in ("a", "b"):
        print(
            f"latency {name.upper()}      p50 {report[f'{name}_p50_ms']} ms, "
            f"p99 {report[f'{name}_p99_ms']} ms, one text a request"
        )
    return 0


def compare(a: npt.NDArray[np.float32], b: npt.NDArray[np.float32]) -> dict[str, Any]:
    """Return the report on two arrays of vectors of the same texts, each [texts, dimensions]."""
    unit_a, unit_b = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in (a, b))
    texts, count = len(a), min(_NEIGHBORS, len(a) - 1)
    shared = sum(
        len({*_nearest(unit_a, at, count)} & {*_nearest(unit_b, at, count)}) for at in range(texts)
    )
    report: dict[str, Any] = {
        "texts": texts,
        "dimensions": [a.shape[1], b.shape[1]],
        "cosine_lowest": None,
        "cosine_mean": None,
        "lowest_rows": [],
        "neighbors": count,
        "overlap_percent": round(100 * shared / (count * texts), 2),
    }
    if a.shape == b.shape:
        cosines = np.einsum("ij,ij->i", unit_a, unit_b)
        report["cosine_lowest"] = round(float(cosines.min()), 6)
        report["cosine_mean"] = round(float(cosines.mean()), 6)
        report["lowest_rows"] = (1 + np.argsort(cosines)[:_NAMED]).tolist()
    return report


def _nearest(vectors: npt.NDArray[np.float32], at: int, count: int) -> npt.NDArray[np.intp]:
    scores = vectors @ vectors[at]
    scores[at] = -np.inf
    return np.argsort(-scores, kind="stable")[:count]


class _Endpoint:
    """One endpoint: its vectors, and the milliseconds of each request."""

    def __init__(self, url: str, args: argparse.Namespace) -> None:
        self.url = check_url(url, allow_plain_http=args.allow_plain_http)
        self._http = httpx2.Client(auth=auth_for(self.url, args), timeout=TIMEOUT)
        self.vectors: list[list[float]] = []
        self.milliseconds: list[float] = []

    def __enter__(self) -> Self:
        # infinity has its routes without /v1, and wants the name of a model that it serves.
        answers = {path: self._send("GET", f"{path}/models") for path in ("/v1", "")}
        self._path = next((path for path, answer in answers.items() if answer.is_success), "/v1")
        try:
            self._model = str(answers[self._path].json()["data"][0]["id"])
        except (ValueError, LookupError, TypeError):
            self._model = "model"
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def embed(self, text: str) -> None:
        """Ask for a text's vector."""
        body = {"input": [text], "model": self._model}
        began = time.perf_counter()
        answer = self._send("POST", f"{self._path}/embeddings", json=body)
        self.milliseconds.append(1000 * (time.perf_counter() - began))
        if not answer.is_success:
            raise ResponseError(
                f"{self.url} answered {answer.status_code}: {answer.text[:_SHOWN]}",
                status=answer.status_code,
            )
        try:
            vector = [float(number) for number in answer.json()["data"][0]["embedding"]]
        except (ValueError, LookupError, TypeError) as error:
            raise ServiceError(
                f"{self.url} answered without a vector in OpenAI's form.", status=answer.status_code
            ) from error
        self.vectors.append(vector)

    def _send(self, method: str, path: str, **more: Any) -> httpx2.Response:
        try:
            return self._http.request(method, self.url + path, **more)
        except httpx2.TransportError as error:
            raise UnreachableError(f"{self.url} did not respond: {error}") from error
