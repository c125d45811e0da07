"""The image of a function with three models, and the requests of each kind that it answers.

A small random reranker and sparse encoder go with an embedding model of the catalog and an index of
a few texts. The release check runs on this machine, against the function in the container.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from aws_cdk import App, Stack
from aws_cdk import aws_lambda as lambda_

from embedder.core.artifact import load_manifests
from embedding_kit.image import image_code
from embedding_kit.settings import Model, ModelSource
from jobs.release_check.handler import Answer, ReleaseRefusedError, check_version
from tests.model_compiler.goldens.reranker_models import write_reranker
from tests.model_compiler.goldens.sparse_models import write_sparse
from tools.rehearsal.image.asset import image_assets
from tools.rehearsal.image.runtime import Tested, body_of, event
from tools.rehearsal.image.target import Target

_ENTRIES = ["Water boils at 100 degrees.", "A violin has four strings.", "hello world"]


def together_image(output: Path, *, endpoint: Target) -> Target:
    """Synthesize a function of three models with an endpoint's variables; return its image."""
    texts = output / "texts" / "texts.json"
    texts.parent.mkdir(parents=True)
    texts.write_text(json.dumps(_ENTRIES), encoding="utf-8")
    # In int8, random weights of 32 channels are no model to be faithful to.
    reranker = ModelSource(folder=write_reranker(output / "small-reranker"), precision="fp32")
    sparse = ModelSource(folder=write_sparse(output / "small-sparse"), precision="fp32")
    name = "sentence-transformers/all-MiniLM-L6-v2"
    model = Model(name=name, index=texts, reranker=reranker, sparse=sparse)
    app = App(outdir=str(output / "cdk.out"), analytics_reporting=False)
    lambda_.DockerImageFunction(Stack(app, "Together"), "Function", code=image_code(model))
    app.synth()
    (asset,) = image_assets(output / "cdk.out")
    return replace(endpoint, name="together", asset=asset, check=_check_together)


def _check_together(tested: Tested) -> None:
    """Run the release check, and a request of each kind."""
    asked = [
        event("POST", "/search", {"query": "How many strings has a violin?", "top_k": 2}),
        event("POST", "/rerank", {"query": "hello", "texts": ["hello world", "the date"]}),
        event("POST", "/embed_sparse", {"inputs": "hello world"}),
    ]
    report = tested.report
    manifests = load_manifests(tested.task / "artifact").values()
    with (
        report.step("starting three models in the emulator, and sending requests"),
        tested.running() as container,
    ):

        def new(method: str, path: str, body: Mapping[str, Any] | None) -> Answer:
            (answer,) = container.invoke([event(method, path, body)])
            return Answer(answer["statusCode"], body_of(answer))

        try:
            found, refused = check_version(new, *manifests, starts=1), ""
        except ReleaseRefusedError as error:
            found, refused = "", str(error)
        answers = container.invoke(asked)
    check = "the release check takes the three models"
    report.check(check, found.count(" + ") == 2, refused or found)
    statuses = [answer.get("statusCode") for answer in answers]
    check = "POST /search, /rerank and /embed_sparse answer 200"
    report.check(check, statuses == [200] * 3, statuses if statuses == [200] * 3 else answers)
    searched = body_of(answers[0]) if statuses[0] == 200 else {}
    scores = [set(each["scores"]) for each in searched.get("results", [])]
    check = "a search asks both indexes and the reranker"
    report.check(check, scores == [{"dense", "sparse", "fused", "rerank"}] * 2, scores)
