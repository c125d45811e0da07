"""Test the rules of `package = "zip"`: what fits, and what needs an image."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from embedding_kit.settings import (
    FunctionSettings,
    ModelSettings,
    ModelSource,
    Provisioned,
    SnapStart,
    artifact_in_s3,
)
from embedding_kit.settings.package import (
    LARGEST_ARTIFACT,
    artifact_bytes,
    check_package,
    storage_mb,
)
from stacks.environment_file import EnvironmentFileError, load_environment
from tests.model_compiler.goldens.tiny_models import write_router

ZIP = FunctionSettings(package="zip")
MINILM = "sentence-transformers/all-MiniLM-L6-v2"


@pytest.mark.parametrize(
    "name", [MINILM, "gte-modernbert-base", "BAAI/bge-base-en-v1.5", "owner/unknown"]
)
def test_small_models_and_those_of_unknown_size_are_accepted(name):
    """The builder weighs what it has built, so an unknown model is not refused at synth."""
    check_package(ModelSettings(name=name), ZIP, None)
    assert not artifact_in_s3(ModelSettings(name=name), ZIP)


GEMMA = ModelSettings(name="google/embeddinggemma-300m", accept_license="gemma")


@pytest.mark.parametrize("cold_start", [SnapStart(), Provisioned()])
def test_a_large_artifact_comes_from_s3(cold_start):
    """No request waits for the download, so a model that does not fit needs no other setting."""
    check_package(GEMMA, ZIP, cold_start)
    assert artifact_in_s3(GEMMA, ZIP)
    assert not artifact_in_s3(GEMMA, FunctionSettings())


def test_an_artifact_of_any_size_may_be_in_s3():
    """A model of unknown size may not fit, and then the setting is the remedy."""
    settings = FunctionSettings(package="zip", artifact="s3")
    for name in (MINILM, "owner/unknown"):
        check_package(ModelSettings(name=name), settings, SnapStart())
        assert artifact_in_s3(ModelSettings(name=name), settings)
        with pytest.raises(ValueError, match=r'by function\.artifact = "s3"; allowed: .*"package"'):
            check_package(ModelSettings(name=name), settings, None)


def test_the_artifact_must_fit_the_disk():
    """It is downloaded to /tmp, which SnapStart limits."""
    fp32 = GEMMA.model_copy(update={"precision": "fp32"})
    with pytest.raises(ValueError, match="is downloaded to /tmp") as refused:
        check_package(fp32, ZIP, SnapStart())
    assert "found: an artifact of about 1294 MB" in str(refused.value)
    check_package(fp32, ZIP, Provisioned())
    assert 1235 < storage_mb(fp32, in_s3=True, snap_start=False) < 1260
    unknown = ModelSettings(name="owner/unknown")
    assert storage_mb(unknown, in_s3=True, snap_start=False) == 10_240
    assert storage_mb(unknown, in_s3=True, snap_start=True) == 512
    assert storage_mb(fp32, in_s3=False, snap_start=False) == 512


@pytest.fixture
def folder(tmp_path) -> Path:
    """Return a model's folder with 300,000 weights in two files."""
    (tmp_path / "1_Dense").mkdir()
    save_file({"a": np.zeros((500, 400), np.float32)}, tmp_path / "model.safetensors")
    save_file({"b": np.zeros(100_000, np.float16)}, tmp_path / "1_Dense" / "model.safetensors")
    for checkpoint in ("checkpoint-500", "checkpoint-500/1_Dense"):
        (tmp_path / checkpoint).mkdir()
        save_file({"c": np.zeros(9, np.float32)}, tmp_path / checkpoint / "model.safetensors")
    return tmp_path


def test_the_weights_of_a_folder_are_counted_in_its_files(folder):
    """A name of the catalog does not decide for a folder that is given."""
    own = ModelSettings(name=MINILM, folder=folder)
    assert artifact_bytes(own) == 300_000
    assert artifact_bytes(own.model_copy(update={"precision": "fp32"})) == 1_200_000


def test_only_the_weights_of_the_route_are_counted(tmp_path):
    """A function holds one part of a Router; what the compiler will refuse has no known size."""
    router = write_router(tmp_path / "pair")
    save_file({"w": np.zeros(1000, np.float32)}, router / "document_1_Pooling" / "x.safetensors")
    whole_router, query, document = (
        artifact_bytes(ModelSettings(folder=router, route=route))
        for route in (None, "query", "document")
    )
    assert document == query + 1000
    assert whole_router == query + document
    (router / "router_config.json").write_text("[]")
    assert artifact_bytes(ModelSettings(folder=router, route="query")) is None


def test_a_second_model_adds_to_the_size(folder):
    """The sum decides on the zip; with a model of unknown size it is unknown."""
    own = ModelSettings(name=MINILM, folder=folder)
    pair = own.model_copy(update={"reranker": ModelSource(name="acme/ranker", folder=folder)})
    assert artifact_bytes(pair) == 2 * artifact_bytes(own)
    pair = own.model_copy(update={"reranker": ModelSource(name="acme/ranker")})
    assert artifact_bytes(pair) is None


@pytest.mark.parametrize("content", [b"", b"\xff" * 8, b"\x02" + bytes(7) + b"[]"])
def test_a_broken_file_of_weights_is_left_to_the_compiler(folder, content):
    """Synth does not fail at what the compiler explains."""
    for file in folder.rglob("*.safetensors"):
        file.write_bytes(content)
    assert artifact_bytes(ModelSettings(name=MINILM, folder=folder)) is None


def test_an_export_is_served_as_it_is(tmp_path):
    """Of several exports one is taken, and its size is not known before."""
    (tmp_path / "model.onnx").write_bytes(bytes(100))
    (tmp_path / "model.onnx_data").write_bytes(bytes(900))
    model = ModelSettings(name=MINILM, folder=tmp_path)
    assert artifact_bytes(model) == 1000
    (tmp_path / "model_quantized.onnx").write_bytes(bytes(100))
    assert artifact_bytes(model) is None


def test_a_folder_is_weighed_from_where_the_file_is(tmp_path):
    """A relative path of a file leads from its own folder, for the rules of sizes as well."""
    (tmp_path / "tuned").mkdir()
    (tmp_path / "tuned" / "modules.json").write_text("[]")
    header = json.dumps({"weights": {"shape": [LARGEST_ARTIFACT + 1]}}).encode()
    weights = len(header).to_bytes(8, "little") + header
    (tmp_path / "tuned" / "model.safetensors").write_bytes(weights)
    (tmp_path / "dev.toml").write_text(
        '[model]\nname = "own"\nfolder = "tuned"\n[function]\npackage = "zip"\n'
    )
    with pytest.raises(EnvironmentFileError, match="every cold start would wait for it"):
        load_environment("dev", folder=tmp_path)
