"""The catalogue: names that are found, and pins that can be pins."""

import re

import pytest

from model_compiler.source import hub
from model_compiler.source.catalogue import CATALOGUE, CatalogueEntry, find


@pytest.mark.parametrize("entry", CATALOGUE, ids=lambda entry: entry.name)
def test_an_entry_is_whole(entry: CatalogueEntry) -> None:
    """Commits are commits, hashes hashes, dimensions in order, and the default prompt can exist."""
    assert hub.is_repository_name(entry.name)
    assert entry.repositories
    for repository in entry.repositories:
        assert hub.is_repository_name(repository.name)
        assert repository.revision is None or re.fullmatch("[0-9a-f]{40}", repository.revision)
    assert all(re.fullmatch("[0-9a-f]{64}", value) for value in entry.sha256.values())
    assert list(entry.dimensions) == sorted(set(entry.dimensions), reverse=True)
    if entry.prompts and entry.default_prompt:
        assert entry.default_prompt in entry.prompts
    assert entry.license.url.startswith("https://")
    for golden in entry.golden:
        assert len(golden.head) >= 5
        assert 0 < golden.tolerance <= 1e-3


def test_names_are_found_in_full_in_short_and_in_any_case() -> None:
    """The organization may be omitted; two models never share a name."""
    for entry in CATALOGUE:
        for name in (entry.name, entry.short_name, entry.name.upper()):
            assert find(name) is entry
    assert find("MiniLM") is None


def test_only_gemma_has_terms_to_accept() -> None:
    """No other model has terms that must be accepted first."""
    asking = {entry.name for entry in CATALOGUE if entry.license.must_be_accepted}
    assert asking == {"google/embeddinggemma-300m", "onnx-community/embeddinggemma-300m-ONNX"}
