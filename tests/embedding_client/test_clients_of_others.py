"""Third-party clients with a real model behind a Function URL that checks signatures."""

import asyncio
import gzip
import json

import httpx
import httpx2
import huggingface_hub
import numpy as np
import openai
import pytest

from embedding_client import SigV4Auth

TEXTS = ["hello world", "the kettle is boiling", "Grüße aus Köln ☕"]


@pytest.fixture
def reference(client):
    """Return the vectors of TEXTS from the client of this package."""
    return client.embed(TEXTS)


@pytest.fixture(params=[httpx, httpx2], ids=["httpx", "httpx2"])
def library(request):
    """Httpx and its successor. SDKs use one or the other."""
    return request.param


@pytest.fixture
def openai_client(running, library):
    with library.Client(auth=SigV4Auth()) as http:
        yield openai.OpenAI(base_url=running.url + "/v1", api_key="sk-unused", http_client=http)


def test_openai_gives_the_same_vectors(openai_client, reference):
    """The official package, which requests base64, returns the endpoint's vectors."""
    response = openai_client.embeddings.create(model="all-MiniLM-L6-v2", input=TEXTS)
    assert np.array_equal(np.array([one.embedding for one in response.data], np.float32), reference)
    assert [one.index for one in response.data] == [0, 1, 2]
    assert response.usage.prompt_tokens > len(TEXTS)


def test_openai_with_token_ids(openai_client, running, client):
    """The token IDs of /tokenize can be sent instead of text."""
    with httpx.Client(auth=SigV4Auth()) as http:
        body = {"inputs": TEXTS[0]}
        (tokens,) = http.post(running.url + "/tokenize", json=body).raise_for_status().json()
    ids = [token["id"] for token in tokens]
    response = openai_client.embeddings.create(model="all-MiniLM-L6-v2", input=[ids])
    assert np.allclose(response.data[0].embedding, client.embed_one(TEXTS[0]), atol=1e-6)
    bare = openai_client.embeddings.create(
        model="all-MiniLM-L6-v2", input=[ids[1:-1]], extra_body={"add_special_tokens": True}
    )
    assert bare.data[0].embedding == response.data[0].embedding


@pytest.mark.parametrize("content_type", ["application/json", "application/octet-stream"])
def test_a_compressed_request_is_accepted(running, reference, content_type):
    """The Function URL passes it on as base64, and the function inflates it."""
    body = gzip.compress(json.dumps({"texts": TEXTS}).encode())
    headers = {"content-encoding": "gzip", "content-type": content_type}
    with httpx.Client(auth=SigV4Auth()) as http:
        answer = http.post(running.url + "/", content=body, headers=headers).raise_for_status()
    assert np.allclose(answer.json()["embeddings"], reference, atol=1e-6)


def test_responses_are_compressed_on_request(running):
    """The Function URL passes on `Accept-Encoding` and the binary response."""
    body = {"texts": [f"{n} {TEXTS[0]}" for n in range(20)]}
    with httpx.Client(auth=SigV4Auth()) as http:
        packed = http.post(running.url + "/", json=body).raise_for_status()
        plain = http.post(running.url + "/", json=body, headers={"accept-encoding": "identity"})
    assert packed.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in plain.headers
    assert int(packed.headers["content-length"]) < 0.6 * int(plain.headers["content-length"])
    assert packed.json() == plain.json()


def test_openai_async(running, library, reference):
    """The asynchronous client works with concurrent requests."""

    async def embed():
        async with library.AsyncClient(auth=SigV4Auth()) as http:
            made = openai.AsyncOpenAI(base_url=running.url + "/v1", api_key="-", http_client=http)
            calls = [made.embeddings.create(model="all-MiniLM-L6-v2", input=one) for one in TEXTS]
            return [response.data[0].embedding for response in await asyncio.gather(*calls)]

    vectors = np.array(asyncio.run(embed()), np.float32)
    assert np.allclose(vectors, reference, atol=1e-5)


def test_huggingface_feature_extraction(running, reference):
    """Hugging Face's InferenceClient works with the URL of /embed.

    It also sends a request to the hub with the same HTTP client, which is not signed.
    """
    to_hub = []

    def hub(request):
        to_hub.append(request)
        return httpx2.Response(503)

    def signing():
        return httpx2.Client(auth=SigV4Auth(), mounts={"https://": httpx2.MockTransport(hub)})

    huggingface_hub.set_client_factory(signing)
    try:
        inference = huggingface_hub.InferenceClient(model=running.url + "/embed")
        vectors = inference.feature_extraction(TEXTS, normalize=True)
        assert np.allclose(vectors, reference, atol=1e-5)
        assert np.allclose(inference.feature_extraction(TEXTS[0])[0], reference[0], atol=1e-5)
    finally:
        huggingface_hub.set_client_factory(httpx2.Client)
        huggingface_hub.close_session()
    assert not any("x-amz-date" in request.headers for request in to_hub)
