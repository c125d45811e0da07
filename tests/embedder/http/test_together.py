"""An embedding model and a reranker in one function: loaded, served, checked and downloaded."""

from pathlib import Path

import pytest

from embedder.application import build_router
from embedder.aws_lambda.snapshot import before_snapshot
from embedder.core.artifact import SET_FILE, load_artifacts
from embedder.core.artifact_download import download
from embedder.core.errors import ArtifactError, SettingsError
from embedder.core.settings import EmbedderSettings
from model_compiler.artifact.together import main
from tests.embedder.calls import post
from tests.fixtures.models_together import write_set
from tests.fixtures.s3_object_server import REGION, serving_object
from zip_builder.model import build_object, manifests_in


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_set(tmp_path_factory.mktemp("pair"), ("embed", "rerank"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "is not a list of artifacts"),
        ('{"artifacts": {"dance": "x"}}', "must name tasks of embed, rerank, sparse; found dance"),
        ('{"artifacts": {"embed": "x"}}', "with the checksum x; found embed, "),
    ],
)
def test_another_artifact_than_the_named_one(pair, tmp_path, text, message):
    """A set that was changed, or put together from two builds, does not start."""
    (tmp_path / SET_FILE).write_text(text)
    (tmp_path / "embed").symlink_to(pair / "embed")
    with pytest.raises(ArtifactError, match=message):
        load_artifacts(tmp_path)


def test_two_models_of_one_kind(pair, tmp_path, capsys):
    """`[reranker]` must be a reranker, and `[model]` next to it an embedding model."""
    (tmp_path / "rerank").symlink_to(pair / "embed")
    assert main([str(tmp_path)]) == 2
    assert "embed-model must be a reranker, [reranker]; found an embedding model." in (
        capsys.readouterr().err
    )


def test_models_that_do_not_fit_into_the_memory_together(pair):
    """The start says how much both need; outside of Lambda there is no limit to compare with."""
    with pytest.raises(SettingsError, match=r"embed-model and rerank-model do .* found 62 MB;"):
        build_router(EmbedderSettings(artifact=str(pair), memory_mb=62))
    assert build_router(EmbedderSettings(artifact=str(pair), memory_mb=128)).models[1:]


def test_a_snapshot_has_run_both(pair, monkeypatch):
    """Restored copies start with both models warm, and with no vector or score of a caller."""
    router = build_router(EmbedderSettings(artifact=str(pair), cache_entries=10))
    post(router, "/", {"text": "a date"})
    post(router, "/rerank", {"query": "a date", "texts": ["a time"]})
    assert [len(model.loaded.cache) for model in router.models] == [1, 1]
    warmed = []
    for model in router.models:
        monkeypatch.setattr(model.loaded, "warm", lambda model=model: warmed.append(model))
    before_snapshot(router)
    assert warmed == [*router.models]
    assert [len(model.loaded.cache) for model in router.models] == [0, 0]


def test_both_are_downloaded_from_one_object(pair, tmp_path, monkeypatch):
    """A package with the manifests gets the files of both, and a second start finds them."""
    package = tmp_path / "package"
    for file in [*manifests_in(pair), pair / SET_FILE]:
        path = package / file.relative_to(pair)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.read_bytes())
    with serving_object(build_object(pair, cache=tmp_path).read_bytes()) as server:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", server.keys[0])
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", server.keys[1])
        monkeypatch.setenv("AWS_SESSION_TOKEN", str(server.token))
        for _ in range(2):
            folder = download(
                server.location,
                package=package,
                temporary=tmp_path,
                region=REGION,
                endpoint=server.url,
            )
            artifacts = load_artifacts(folder)
        requests = len(server.requests)
    assert [artifact.manifest for artifact in artifacts] == [
        artifact.manifest for artifact in load_artifacts(pair)
    ]
    sizes = [entry.bytes for artifact in artifacts for entry in artifact.manifest.files.values()]
    assert requests == sum(size > 0 for size in sizes)
