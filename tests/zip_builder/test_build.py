"""The builder makes a zip of its parts, caches them, and leaves nothing after a failure."""

import json
import sys
import zipfile
from collections.abc import Mapping
from typing import Any

import pytest

from zip_builder import ZipError
from zip_builder.build import build_artifact_object, build_zip
from zip_builder.model import Models

MODEL = {"name": "org/model"}
MODELS = Models({"model": MODEL})
FOLDERS = ("artifact", "index")
TAG = sys.implementation.cache_tag

pytestmark = pytest.mark.usefixtures("local_wheels", "this_python")


@pytest.fixture
def build(recipe, tmp_path):
    def make(content: Mapping[str, Any] = MODELS.content, *, cache="cache", **options):
        return build_zip(Models(content), recipe=recipe, cache=tmp_path / cache, **options)

    return make


def test_it_has_packages_artifact_and_code(build):
    """The zip has byte code for each module, and no tests, scripts, server or unused library."""
    names = zipfile.ZipFile(build()).namelist()
    assert names == sorted(names)
    assert set(names) == {
        "artifact/manifest.json",
        "artifact/model.onnx.data",
        "embedder/__init__.py",
        f"embedder/__pycache__/__init__.{TAG}.pyc",
        f"embedder/aws_lambda/__pycache__/handler.{TAG}.pyc",
        "embedder/aws_lambda/handler.py",
        "embedder/core/operator.aarch64.so",
        "numpy/__init__.py",
        f"numpy/__pycache__/__init__.{TAG}.pyc",
        "numpy/core.so",
        "jobs/__init__.py",
        f"jobs/__pycache__/__init__.{TAG}.pyc",
        "jobs/release_check/__init__.py",
        f"jobs/release_check/__pycache__/__init__.{TAG}.pyc",
    }


def test_a_model_without_tables_gets_the_tokenizer_library(build, recipe, local_wheels):
    """A model without tables imports `tokenizers` at its start, and only its zip has it."""
    compiler = recipe / "model_compiler" / "__main__.py"
    compiler.write_text(compiler.read_text().replace("wordpiece", "tokenizers"))
    assert "tokenizers/core.so" in zipfile.ZipFile(build()).namelist()
    assert "tokenizers==2" in local_wheels[-1]


def test_two_builds_give_the_same_bytes(build, runs):
    """The bytes do not depend on the folder or the time: each entry has the same time and mode."""
    built, again = build(), build(cache="other")
    assert built.read_bytes() == again.read_bytes()
    assert built.name == again.name
    assert len(runs.read_text().splitlines()) == 2
    entries = zipfile.ZipFile(built).infolist()
    assert {(entry.date_time, entry.external_attr >> 16) for entry in entries} == {
        ((1980, 1, 1, 0, 0, 0), 0o100644)
    }


def test_a_change_of_code_downloads_and_compiles_nothing(build, recipe, runs, local_wheels):
    """Only the code of the compiler and the embedder changes the artifact."""
    before = build()
    (recipe / "jobs" / "release_check" / "__init__.py").write_text("CHANGED = True\n")
    after = build()
    assert before != after
    assert len(runs.read_text().splitlines()) == len(local_wheels) == 1
    assert b"CHANGED" in zipfile.ZipFile(after).read("jobs/release_check/__init__.py")


def test_a_repeated_build_returns_the_same_file(build, runs):
    """`scripts/deploy` builds the zip, and the CDK's command takes it from the cache."""
    built = build()
    time = built.stat().st_mtime_ns
    assert build() == built
    assert built.stat().st_mtime_ns == time
    assert len(runs.read_text().splitlines()) == 1


def test_a_copy_of_the_recipe_builds_the_same_zip(build, recipe, runs):
    """The recipe in a cloud assembly builds the same bytes as the repository."""
    built = build()
    (recipe / "embedder" / "server" / "__init__.py").unlink()
    (recipe / "embedder" / "__pycache__").mkdir(exist_ok=True)
    (recipe / "embedder" / "__pycache__" / "handler.pyc").write_bytes(b"other")
    assert build() == built
    assert len(runs.read_text().splitlines()) == 1


def test_the_choices_reach_the_compiler(build, tmp_path):
    """The compiler gets the same file as in the build of an image, and reads the model's folder."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "modules.json").write_text("[]")
    content = {"model": MODEL | {"dimensions": [256, 128], "folder": str(folder)}}
    before = build(content)
    said = json.loads(zipfile.ZipFile(before).read("artifact/manifest.json"))["said"]
    assert said == content["model"]
    (folder / "modules.json").write_text("[1]")
    assert build(content) != before


def test_other_texts_compile_nothing_again(build, tmp_path, runs):
    """A Router's documents are compiled for the index, and other texts make only that again."""
    texts = tmp_path / "texts.txt"
    pair = {key: {"name": f"org/{key}"} for key in ("model", "documents")}
    zips = []
    for text in ("a text", "another text"):
        texts.write_text(text)
        zips.append(zipfile.ZipFile(build(pair | {"texts": str(texts)})))
    assert zips[0].filename != zips[1].filename
    assert runs.read_text().split() == ["org/model", "org/documents"]
    said = [json.loads(zips[1].read(f"{folder}/manifest.json"))["said"] for folder in FOLDERS]
    assert said == [pair["model"], pair["documents"]]


def test_a_change_of_one_model_compiles_no_other(build, tmp_path, runs):
    """Each is compiled once, and the file that names them is made after both."""
    pair = {"model": MODEL, "reranker": {"name": "org/ranker", "precision": "fp32"}}
    files = {"manifest.json", "model.onnx.data"}
    folders = ("artifact/model", "artifact/reranker")
    names = {name for name in zipfile.ZipFile(build(pair)).namelist() if "artifact" in name}
    assert names == {
        *(f"{folder}/{file}" for folder in folders for file in files),
        "artifact/artifacts.json",
    }
    build()
    without = zipfile.ZipFile(build(pair, with_artifact=False)).namelist()
    assert {name for name in without if "artifact" in name} == {
        *(f"{folder}/manifest.json" for folder in folders),
        "artifact/artifacts.json",
    }
    assert runs.read_text().split() == ["org/model", "org/ranker"]
    build({"model": MODEL, "reranker": {"name": "org/other"}})
    assert runs.read_text().split() == ["org/model", "org/ranker", "org/other"]


@pytest.mark.parametrize(
    ("end", "advice"),
    [
        ("sys.exit(2)", ""),
        ("import no_such_module", "; if a module is missing, install embedding-kit[zip]"),
    ],
)
def test_packages_are_missed_only_if_the_compiler_has_not_said_why_it_failed(
    build, recipe, end, advice
):
    """An error that the compiler explains, such as a full disk, is not of the installation."""
    compiler = recipe / "model_compiler" / "__main__.py"
    compiler.write_text(f"import sys\n{end}\n")
    with pytest.raises(ZipError) as error:
        build()
    failed = "model_compiler failed for org/model; its output is above"
    assert str(error.value) == failed + advice


def test_after_a_failure_the_same_command_works(build, recipe, runs, capfd):
    """The builder does not use what the compiler wrote before it failed."""
    compiler = recipe / "model_compiler" / "__main__.py"
    working = compiler.read_text()
    compiler.write_text(working + "sys.exit('error: out of memory')\n")
    with pytest.raises(ZipError, match="model_compiler failed for org/model"):
        build()
    assert "error: out of memory" in capfd.readouterr().err
    # The same sources, as after a killed process.
    compiler.write_text(working)
    assert zipfile.ZipFile(build()).testzip() is None
    assert len(runs.read_text().splitlines()) == 2


def test_what_lambda_would_not_unpack_is_refused_with_the_sizes(build, monkeypatch, recipe):
    """The error has the sizes of the built parts, and no zip is left in the cache."""
    monkeypatch.setattr("zip_builder.tree.LIMIT_BYTES", 1500)
    with pytest.raises(
        ZipError, match=r"up to 0\.0 MB; found: 0\.0 MB \(dependencies .* MB, artifact .* MB, code "
    ):
        build()
    monkeypatch.undo()


def test_old_zips_are_removed(build, recipe, tmp_path):
    """When a zip is built, the cache keeps the newest three before it."""
    for number in range(5):
        (recipe / "jobs" / "release_check" / "__init__.py").write_text(f"N = {number}\n")
        newest = build()
    zips = set((tmp_path / "cache" / "zips").iterdir())
    assert newest in zips
    assert len(zips) == 4


def test_an_artifact_for_s3_is_one_file_of_the_same_compilation(build, recipe, tmp_path, runs):
    """It is compiled once, for the object and for the zip, which has the manifest to check it."""
    with_artifact, without_artifact = build(), build(with_artifact=False)
    assert with_artifact.name != without_artifact.name
    names = zipfile.ZipFile(without_artifact).namelist()
    assert [name for name in names if name.startswith("artifact/")] == ["artifact/manifest.json"]
    packed = build_artifact_object(MODELS, recipe=recipe, cache=tmp_path / "cache")
    assert packed.read_bytes() == bytes(1000)
    assert len(runs.read_text().splitlines()) == 1
    assert build_artifact_object(MODELS, recipe=recipe, cache=tmp_path / "cache") == packed


def test_only_the_newest_object_is_kept(recipe, tmp_path):
    """An object is as large as a model, so the cache keeps only the newest one."""
    cache = tmp_path / "cache"
    objects = [
        build_artifact_object(Models({"model": {"name": name}}), recipe=recipe, cache=cache)
        for name in ("org/one", "org/two", "org/three")
    ]
    assert [file.exists() for file in objects] == [False, True, True]
