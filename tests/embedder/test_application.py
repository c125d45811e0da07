"""The models and indexes that the settings name, with their router."""

import pytest

from embedder.application import build_router
from embedder.core.errors import ArtifactError, IndexFolderError
from embedder.core.settings import EmbedderSettings
from tests.embedder.calls import get, post, read


def test_a_service_is_built_from_settings(minilm_artifact):
    """The router loads the artifact and applies the settings."""
    router = build_router(EmbedderSettings(artifact=minilm_artifact.folder, truncate="left"))
    router.telemetry = None
    assert read(get(router, "/info"))["truncate"] == "left"
    assert len(read(post(router, "/", {"text": "hello world"}))["embedding"]) == 384


def test_what_cannot_be_served_fails_the_start(minilm_artifact, tmp_path):
    """A deployment with an invalid artifact or index fails at startup, not at the first request."""
    with pytest.raises(ArtifactError, match="is not an artifact"):
        build_router(EmbedderSettings(artifact=tmp_path))
    with pytest.raises(IndexFolderError, match="cannot be read"):
        build_router(EmbedderSettings(artifact=minilm_artifact.folder, index=tmp_path))
