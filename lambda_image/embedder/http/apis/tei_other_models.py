"""TEI's routes for other kinds of models: they return TEI's own error.

TEI serves every route for every model, and answers 424 with the type `Backend` where the model is
of another kind (router/src/http/server.rs and core/src/infer.rs at 0d124dc).
"""

from embedder.core.errors import WrongModelError
from embedder.http.apis.operation import Api, Call, Operation
from embedder.http.apis.tei import Tei
from embedder.http.http_types import Response

__all__ = ["EmbedAll", "EmbedSparse", "Predict", "Rerank"]


class _OtherModel(Operation):
    """Answers the error, whatever the body is."""

    api: type[Api] = Tei
    #: TEI's message.
    message: str

    def respond(self, _call: Call, /) -> Response:
        raise WrongModelError(f"Backend error: {self.message}")

    @property
    def result(self) -> None:
        """See `Operation`."""


class Predict(_OtherModel):
    """Classification."""

    name = "tei_predict"
    summary = "For classifiers: answers 424."
    message = "Model is not a classifier model"


class Rerank(_OtherModel):
    """Reranking."""

    name = "tei_rerank"
    summary = "For rerankers: answers 424."
    message = "model is not a re-ranker model"


class EmbedSparse(_OtherModel):
    """SPLADE."""

    name = "tei_embed_sparse"
    summary = "For SPLADE models: answers 424."
    message = "Model is not an embedding model with SPLADE pooling"


class EmbedAll(_OtherModel):
    """One vector for each token, which a compiled graph does not give: it pools by itself."""

    name = "tei_embed_all"
    summary = "For models that give a vector for each token: answers 424."
    message = "`embed_all` is not available: the compiled model pools its tokens in the graph"
