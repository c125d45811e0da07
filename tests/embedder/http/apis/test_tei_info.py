"""TEI's `/info`, with this router's limits."""

from collections.abc import Callable

from embedder import __version__
from embedder.http.router import Router
from embedder.http.vector_encoding import largest_batch
from tests.embedder.calls import get, post, read
from tests.embedder.small_model import PROMPTS, HashSession


def test_info_has_teis_fields(router: Router) -> None:
    """All fields of TEI's `Info` are present, with the values of this router."""
    info = read(get(router, "/info"))
    assert info["model_id"] == info["served_model_name"] == "example/small-model"
    assert info["model_sha"] == "abc123"
    assert info["model_dtype"] == "fp32"
    assert set(info["model_type"]) == {"embedding"}
    assert info["max_concurrent_requests"] == info["tokenization_workers"] == 1
    assert info["max_input_length"] == 16
    assert info["max_batch_requests"] is None
    assert info["auto_truncate"] is False
    assert info["version"] == __version__


def test_info_tells_our_limits(make_router: Callable[..., Router]) -> None:
    """The response has the space, dimensions, prompts, and the enforced batch limits by format."""
    router = make_router(prompts=PROMPTS, default_prompt="query", index=["a", "b"])
    info = read(get(router, "/info"))
    assert info["vector_space"] == "small-model@abc123/fp32/0123456789ab/32"
    assert info["dimensions"] == [32, 16, 8]
    assert info["prompts"] == list(PROMPTS)
    assert info["default_prompt"] == "query"
    assert info["max_characters"] == 4000
    assert info["max_request_bytes"] == 6 * 1024 * 1024
    assert info["index_entries"] == 2
    assert info["max_batch_sizes"]["16"]["int8"]["base64"] == largest_batch(16, "int8", "base64")
    assert info["max_client_batch_size"] == info["max_batch_sizes"]["32"]["float"]["float"]


def test_the_batch_that_is_told_always_fits(
    make_router: Callable[..., Router], session: HashSession
) -> None:
    """A client can rely on the reported batch size."""
    session.dimensions = 1024
    router = make_router(dimensions=(1024,))
    size = read(get(router, "/info"))["max_client_batch_size"]
    texts = [f"w{number % 50}" for number in range(size)]
    assert len(read(post(router, "/embed", {"inputs": texts}))) == size


def test_info_lists_the_golden_vectors(make_router: Callable[..., Router]) -> None:
    """As the manifest has them, for a comparison from outside."""
    router = make_router()
    golden = [entry._asdict() for entry in router.model.engine.manifest.golden]
    assert read(get(router, "/info"))["golden"] == [
        {**entry, "embedding_head": [*entry["embedding_head"]]} for entry in golden
    ]
