"""`python -m tools.questions [SET ...]`: how well each mode of a search finds the right pages.

The pages are served as `scripts/serve --documents` does, and each question is sent to `POST
/search`. A page has the place of its first chunk among the answer's. A set's numbers are means over
its questions: nDCG@10, with a gain of 1 for a page that answers the question, and recall@10.

It needs apt, which downloads the pages.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from embedder.application import build_router
from embedder.core.search import passage
from embedder.core.settings import EmbedderSettings
from embedder.http.http_types import Request
from tools.local_endpoint.models import DEFAULT_MODEL, ROOT, artifact_of, documents_of
from tools.questions.pages import QUESTIONS, SETS, Question, read_questions, write_questions

_CACHE = ROOT / ".cache" / "questions"
#: Chunks that a search returns, as many as it finds by default before it fuses them.
_CHUNKS = 50
_BEST = 10
_MODES = ("dense", "sparse", "hybrid")
#: `bm25s` with its own words, as its page shows it; its texts and queries come as JSON.
_PEER = """
import bm25s, json, sys
texts, queries, count = json.load(sys.stdin)
index = bm25s.BM25()
index.index(bm25s.tokenize(texts, show_progress=False), show_progress=False)
words = bm25s.tokenize(queries, show_progress=False, return_ids=False)
best = [index.get_scores(query) if query else [] for query in words]
json.dump([sorted(range(len(s)), key=lambda n: -s[n])[:count] for s in best], sys.stdout)
"""

#: The names of pages for each question, best first.
_Ranked = list[list[str]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table, or draw the questions; return 0."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.questions", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("sets", nargs="*", metavar="SET", help=", ".join(SETS))
    parser.add_argument("--model", default=DEFAULT_MODEL, help="as of scripts/serve")
    parser.add_argument("--peer", metavar="PYTHON", help="a Python that has bm25s, to compare with")
    parser.add_argument(
        "--baseline", type=Path, metavar="FILE", help="what an earlier run wrote, to compare with"
    )
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="write the pages of each search"
    )
    parser.add_argument("--draw", action="store_true", help="write the questions that are drawn")
    options = parser.parse_args(arguments)
    names = options.sets or [*SETS]
    if options.draw:
        for name in names:
            if draw := SETS[name].draw:
                write_questions(QUESTIONS / f"{name}.jsonl", draw(_CACHE))
        return 0
    baseline = json.loads(options.baseline.read_bytes()) if options.baseline else {}
    artifact = artifact_of(options.model)
    output: dict[str, dict[str, _Ranked]] = {}
    print("|set|search|nDCG@10|recall@10|to dense|to the baseline|\n|---|---|---|---|---|---|")
    for name in names:
        questions = read_questions(QUESTIONS / f"{name}.jsonl")
        output[name] = _searched(name, questions, artifact, options.peer)
        for search, ranked in output[name].items():
            gains = ndcg(questions, ranked)
            compared = (output[name]["dense"], baseline.get(name, {}).get(search))
            differences = [
                difference(gains - ndcg(questions, earlier))
                if earlier and earlier != ranked
                else ""
                for earlier in compared
            ]
            numbers = [f"{gains.mean():.3f}", f"{recall(questions, ranked).mean():.3f}"]
            print(f"|{'|'.join([name, search, *numbers, *differences])}|", flush=True)
    if options.output:
        options.output.write_text(json.dumps(output), encoding="utf-8")
    return 0


def _searched(
    name: str, questions: Sequence[Question], artifact: Path, peer: str | None
) -> dict[str, _Ranked]:
    """Return the pages that each search finds."""
    # Sets of the same pages share a folder, and so its index.
    folder = _CACHE / SETS[name].pages.__name__
    folder.mkdir(parents=True, exist_ok=True)
    for page, content in SETS[name].pages(_CACHE).items():
        (folder / page).write_text(content, encoding="utf-8")
    index = documents_of(str(folder), artifact, cache=_CACHE)
    router = build_router(EmbedderSettings(artifact=str(artifact), index=str(index)))

    def found(question: Question, mode: str) -> list[str]:
        body = {"query": question.query, "mode": mode, "top_k": _CHUNKS, "rerank": False}
        answer = router.handle(Request("POST", "/search", body=orjson.dumps(body)))
        if answer.status != 200:
            raise ValueError(f"{mode}: {answer.body.decode()}")
        return pages_in(orjson.loads(answer.body)["results"])

    searches = {mode: [found(question, mode) for question in questions] for mode in _MODES}
    if peer:
        entries = json.loads((index / "entries.json").read_bytes())
        texts = [passage(entry["text"], entry["metadata"]) for entry in entries]
        corpus = json.dumps([texts, [question.query for question in questions], _CHUNKS])
        done = subprocess.run(
            [peer, "-c", _PEER], input=corpus, capture_output=True, text=True, check=True
        )
        searches["bm25s"] = [
            pages_in([{"source": entries[number]["metadata"]["document"]} for number in best])
            for best in json.loads(done.stdout)
        ]
    return searches


def pages_in(results: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the pages of chunks, each at its first place."""
    return [*dict.fromkeys(result["source"] for result in results)]


def ndcg(questions: Sequence[Question], ranked: _Ranked) -> npt.NDArray[np.float64]:
    """Return the nDCG@10 of each question: K. Jarvelin, J. Kekalainen, ACM TOIS 20, 2002."""
    discounts = 1 / np.log2(np.arange(2, _BEST + 2))
    values = []
    for question, pages in zip(questions, ranked, strict=True):
        gains = np.array([page in question.pages for page in pages[:_BEST]])
        values.append(gains @ discounts[: len(gains)] / discounts[: len(question.pages)].sum())
    return np.array(values)


def recall(questions: Sequence[Question], ranked: _Ranked) -> npt.NDArray[np.float64]:
    """Return the part of each question's pages that are among the best ten."""
    return np.array(
        [
            len({*question.pages} & {*pages[:_BEST]}) / len(question.pages)
            for question, pages in zip(questions, ranked, strict=True)
        ]
    )


def difference(values: npt.NDArray[np.float64]) -> str:
    """Return a mean with its 95% interval, by bootstrap over the questions."""
    drawn = np.random.default_rng(0).integers(0, len(values), (5000, len(values)))
    low, high = np.percentile(values[drawn].mean(1), [2.5, 97.5])
    return f"{values.mean():+.3f} [{low:+.3f}, {high:+.3f}]"


if __name__ == "__main__":
    sys.exit(main())
