"""Finding a model: in a folder, and on a hub on this machine that speaks the few requests."""

import os
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from model_compiler.errors import LicenseError, SourceError, UnsupportedModelError
from model_compiler.files.folder import file_sha256
from model_compiler.graph.builder import Precision
from model_compiler.model.cross_encoder import read_cross_encoder
from model_compiler.model.folder import read_model_folder
from model_compiler.model.reading import reading_of
from model_compiler.source import catalog, find
from model_compiler.source.catalog import CATALOG, CatalogEntry, HubRepository, License
from model_compiler.source.find import find_source, is_repository_name
from tests.model_compiler.files.test_adapter import put_adapter
from tests.model_compiler.goldens.files import edit_json
from tests.model_compiler.goldens.reranker_models import write_reranker
from tests.model_compiler.goldens.static_models import write_sentence_transformers
from tests.model_compiler.local_hub import COMMIT, sha256_of
from tests.model_compiler.model.test_onnx_import import export


def test_a_folders_files_are_hashed_once(tiny_folder, monkeypatch):
    """A file is hashed once, however many models of the catalog the folder is compared with."""
    hashed: Counter[str] = Counter()

    def counted(path: Path) -> str:
        hashed[path.name] += 1
        return file_sha256(path)

    monkeypatch.setattr(find, "file_sha256", counted)
    assert sum("model.safetensors" in entry.sha256 for entry in CATALOG) > 1
    assert find_source(str(tiny_folder)).entry is None
    assert max(hashed.values()) == 1


def test_weights_that_never_end(tiny_folder):
    """A pipe is not a model's file and is not read."""
    (tiny_folder / "model.safetensors").unlink()
    os.mkfifo(tiny_folder / "model.safetensors")
    assert find_source(str(tiny_folder)).entry is None


@pytest.mark.parametrize("merged", [False, True])
def test_checkpoints_next_to_the_result(tiny_folder, tmp_path, merged):
    """What a trainer keeps in other folders than the modules' plays no part in a result."""
    merged_copy = shutil.copytree(tiny_folder, tmp_path / "whole")
    if not merged:
        put_adapter(tiny_folder)
    space = find_and_check(tiny_folder)
    for name in ("checkpoint-500", "checkpoint-500/nested", "old"):
        checkpoint = put_adapter(tiny_folder / name, base_model_name_or_path="acme/base")
        shutil.copy(merged_copy / "modules.json", checkpoint)
    assert find_and_check(tiny_folder) == space
    own = put_adapter(tmp_path / "own", base_model_name_or_path=str(tiny_folder))
    if merged:
        assert find_source(str(own)).base == "tiny"
    else:
        with pytest.raises(UnsupportedModelError, match="has an adapter itself"):
            find_source(str(own))


def find_and_check(folder: Path) -> tuple[Path, bool]:
    """Find a model, read its weights, and return its folder and whether it is adapted."""
    source = find_source(str(folder))
    source.folder.check_adapters()
    read_model_folder(source.folder).check()
    return source.folder.path, source.base is not None


def test_a_repositorys_checkpoints_are_not_downloaded(served, tiny):
    """They may have ten times the bytes of the model."""
    shutil.copytree(tiny, tiny / "checkpoint-500")
    find_source("acme/tiny")
    assert not any("checkpoint" in path for path in served.paths())


@pytest.mark.parametrize(("place", "name"), [("checkpoint-500", "acme/known"), (".", "repository")])
def test_a_folder_of_the_catalog_with_an_adapter(tiny, listed, place, name):
    """It has another name than the catalog's only if the adapter is the model's own."""
    hashes = {"config.json": sha256_of((tiny / "config.json").read_bytes())}
    listed(name="acme/known", sha256=hashes)
    put_adapter(tiny / place)
    assert find_source(str(tiny)).name == name


def test_checkpoints_of_an_export(served, tiny):
    """Their adapters are not the export's."""
    put_adapter(tiny / "checkpoint-500")
    edit_json(tiny / "config.json", model_type="deberta-v2")
    (tiny / "model.safetensors").unlink()
    export(tiny / "model.onnx")
    source = find_source(str(tiny))
    assert reading_of(source.folder, None).path == "export"


Listed = Callable[..., CatalogEntry]


def add_exports(folder: Path, *names: str) -> None:
    """Write files in the place of exports, each of other bytes."""
    (folder / "onnx").mkdir()
    for name in names:
        (folder / "onnx" / name).write_text(name)


def test_a_repository_is_fetched_at_its_commit(served, tiny):
    """Only files that the compiler reads are downloaded; commit and license are recorded."""
    source = find_source("acme/tiny")
    assert source.revision == COMMIT
    assert source.newest
    assert not find_source("acme/tiny", revision=COMMIT).newest
    assert source.license == "mit"
    assert (source.folder.path / "model.safetensors").read_bytes() == (
        tiny / "model.safetensors"
    ).read_bytes()
    assert served.paths() == [
        "1_Pooling/config.json",
        "config.json",
        "config_sentence_transformers.json",
        "model.safetensors",
        "modules.json",
        "sentence_bert_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
    ]


def test_a_second_fetch_comes_from_the_cache(served, tiny):
    """The files of a commit are downloaded once."""
    find_source("acme/tiny", revision=COMMIT)
    fetched = len(served.paths())
    find_source("acme/tiny", revision=COMMIT)
    assert len(served.paths()) == fetched


def test_an_export_is_fetched_in_one_variant(served, tiny):
    """Of a dozen variants, only the selected export and its reference are downloaded."""
    edit_json(tiny / "config.json", model_type="deberta-v2")
    (tiny / "model.safetensors").unlink()
    names = ("model", "model_quantized", "model_q4", "model_fp16")
    add_exports(tiny, *(f"{name}.onnx{end}" for name in names for end in ("", "_data")))
    find_source("acme/tiny", precision=Precision.INT8)
    assert [path for path in served.paths() if "onnx" in path] == [
        "onnx/model.onnx",
        "onnx/model.onnx_data",
        "onnx/model_quantized.onnx",
        "onnx/model_quantized.onnx_data",
    ]


def test_an_export_of_a_known_family(served, tiny, tmp_path):
    """It is downloaded in full precision, if it alone has weights; of a reranker it never is."""
    (tiny / "model.safetensors").unlink()
    add_exports(tiny, "model.onnx", "model_quantized.onnx")
    find_source("acme/tiny", precision=Precision.INT8)
    assert [path for path in served.paths() if "onnx" in path] == ["onnx/model.onnx"]
    served.asked.clear()
    folder = write_reranker(tmp_path / "reranker")
    add_exports(folder, "model.onnx")
    served.repositories["acme/reranker"] = folder
    read_cross_encoder(find_source("acme/reranker").folder).check()
    assert "onnx/model.onnx" not in served.paths()


def test_an_export_beside_weights(served, tiny):
    """It is downloaded only if the weights are of an unknown family."""
    add_exports(tiny, "model.onnx", "model_quantized.onnx")
    find_source("acme/tiny")
    assert "model.safetensors" in served.paths()
    assert not any("onnx" in path for path in served.paths())
    served.asked.clear()
    edit_json(tiny / "config.json", model_type="deberta-v2")
    served.commit = "1" * 40
    find_source("acme/tiny")
    assert "model.safetensors" not in served.paths()
    assert [path for path in served.paths() if "onnx" in path] == ["onnx/model.onnx"]


def test_a_static_model_beside_its_export(served, tmp_path):
    """The table and its tokenizer are downloaded from their own folder, and no export."""
    folder = write_sentence_transformers(tmp_path / "static", new_files=False)
    add_exports(folder, "model.onnx")
    served.repositories["acme/static"] = folder
    find_source("acme/static")
    assert served.paths() == [
        "0_StaticEmbedding/model.safetensors",
        "0_StaticEmbedding/tokenizer.json",
        "config_sentence_transformers.json",
        "modules.json",
    ]


def test_a_second_adapter(served, tiny):
    """An adapter besides the encoder is rejected before weights are downloaded."""
    (tiny / "1_Pooling" / "adapter_config.json").write_text("{}")
    with pytest.raises(UnsupportedModelError, match="acme/tiny has an adapter"):
        find_source("acme/tiny")
    assert "model.safetensors" not in served.paths()


def test_a_gated_repository(served, tiny, monkeypatch):
    """Without the token the error says where to accept the terms and what to set."""
    served.gated.add("acme/tiny")
    with pytest.raises(SourceError, match=r"acme/tiny is gated: accept its terms.*set HF_TOKEN"):
        find_source("acme/tiny")
    monkeypatch.setenv("HF_TOKEN", "right")
    assert find_source("acme/tiny").revision == COMMIT


def test_what_is_not_there(served, tiny):
    """A repository and a revision that do not exist are named."""
    with pytest.raises(SourceError, match=r"acme/none does not exist, or is private"):
        find_source("acme/none")
    with pytest.raises(SourceError, match=r"acme/tiny has no revision 'v9'"):
        find_source("acme/tiny", revision="v9")


def test_a_hub_that_cannot_be_reached(monkeypatch):
    """The error names the address of the hub."""
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(SourceError, match=r"http://127.0.0.1:9/acme/tiny cannot be reached"):
        find_source("acme/tiny")


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> Listed:
    """Put a model into the catalog."""

    def add(**options: object) -> CatalogEntry:
        values: dict[str, object] = {
            "name": "acme/tiny",
            "license": License("mit", "https://example.com/mit"),
            "repositories": (HubRepository("acme/tiny", revision=COMMIT),),
            **options,
        }
        entry = CatalogEntry(**values)  # type: ignore[arg-type]
        monkeypatch.setattr(catalog, "CATALOG", (entry,))
        return entry

    return add


def test_the_catalogs_hashes_are_checked(served, tiny, listed):
    """The error for a file with another hash has both hashes."""
    right = sha256_of((tiny / "config.json").read_bytes())
    listed(sha256={"config.json": right})
    assert find_source("tiny").revision == COMMIT
    assert not find_source("tiny").newest
    listed(sha256={"config.json": "0" * 64})
    with pytest.raises(
        SourceError, match=f"config.json has sha256 {right}; {'0' * 64} was expected"
    ):
        find_source("tiny")


def test_mirrors_are_tried_in_turn(served, tiny, listed):
    """If the original is gated, a mirror is used; if none works, the error has each reason."""
    served.repositories["acme/original"] = tiny
    served.gated.add("acme/original")
    original = HubRepository("acme/original", gated=True)
    listed(name="acme/original", repositories=(original, HubRepository("acme/tiny")))
    assert find_source("original").name == "acme/original"
    listed(name="acme/original", repositories=(original, HubRepository("acme/gone")))
    with pytest.raises(SourceError, match=r"acme/original is gated.*acme/gone does not exist"):
        find_source("original")


def test_terms_have_to_be_accepted(served, tiny, listed):
    """Nothing is downloaded before that, and the error explains how to accept them."""
    listed(license=License("gemma", "https://ai.google.dev/gemma/terms", must_be_accepted=True))
    with pytest.raises(LicenseError) as refused:
        find_source("acme/tiny", accepted_licenses=["mit"])
    message = str(refused.value)
    assert "https://ai.google.dev/gemma/terms" in message
    assert "--accept-license gemma" in message
    assert 'accept_license = "gemma"' in message
    assert served.asked == []
    assert find_source("acme/tiny", accepted_licenses=["gemma"]).license == "gemma"


def test_names_of_repositories():
    """A name has two parts with a slash between them, and is not a path."""
    assert is_repository_name("google/embeddinggemma-300m")
    assert not is_repository_name("embeddinggemma-300m")
    assert not is_repository_name("./models/mine")
    assert not is_repository_name("a/b/c")
