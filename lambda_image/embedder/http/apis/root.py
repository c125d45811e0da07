"""`POST /`: the kit's own API, and text-embeddings-inference's where the body has `inputs`.

TEI serves its `/embed` at the root as well, and clients such as `@huggingface/inference` with
`.endpoint(url)` send their requests there. The kit's own API has no field of that name.
"""

from collections.abc import Sequence

import orjson

from embedder.http.apis import native, tei
from embedder.http.apis.operation import Model, Operation
from embedder.http.http_types import Request

__all__ = ["Root"]


class Root(native.Embed):
    """The kit's own `Embed`, and TEI's for its requests."""

    summary = 'Embed a text, or several. A body with "inputs" is answered as by POST /embed.'

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self._tei = tei.Embed(model)

    def chosen(self, request: Request) -> Operation:
        return self._tei if _has_inputs(request.body) else self

    @property
    def choices(self) -> Sequence[Operation]:
        return (self, self._tei)


def _has_inputs(body: bytes) -> bool:
    # Hardly a request of the kit's own API holds the word, so hardly one is parsed twice.
    if b'"inputs"' not in body:
        return False
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return False
    return isinstance(value, dict) and "inputs" in value and not value.keys() & {"text", "texts"}
