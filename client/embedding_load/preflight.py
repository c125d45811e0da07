"""The question before a test: who are you, and may I?"""

import httpx

from embedding_client.client import EmbeddingClient
from embedding_client.flows import TIMEOUT
from embedding_load.summary import Endpoint
from embedding_load.target import Target

__all__ = ["ask"]


def ask(target: Target) -> Endpoint:
    """Ask an endpoint for its description, and the key's header from it.

    Raises:
        EmbeddingClientError: It cannot be reached, or refuses the caller.
    """
    cold = False

    def look(response: httpx.Response) -> None:
        nonlocal cold
        cold = cold or "x-cold-start" in response.headers

    with httpx.Client(timeout=TIMEOUT, event_hooks={"response": [look]}) as http:
        client = EmbeddingClient(
            target.url,
            auth=target.auth,
            allow_plain_http=target.allow_plain_http,
            http_client=http,
        )
        info = client.info()
    return Endpoint(
        url=target.url,
        model=str(info.get("model_id", "an unknown model")),
        vector_space=str(info.get("vector_space", "")),
        cold=cold,
        longest=int(info.get("max_input_length") or 0),
    )
