"""Test the image's recipe: which inputs change its hash, and which do not."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Stack
from aws_cdk import aws_lambda as lambda_

from embedding_kit import ModelSettings, ModelSource, SparseSource, package, programs
from embedding_kit.image_identity import compare_labels, files_digest, model_labels
from embedding_kit.package import build_secrets, image_code, server_image
from embedding_kit.programs import image_folder
from embedding_kit.settings import model as model_settings
from model_compiler import command
from model_compiler.files.models_file import ModelsFile
from model_compiler.routes import ROUTES
from zip_builder.build import CERTIFICATES


@pytest.fixture
def docker_image(tmp_path):
    """Synthesize a function with a model's image; return its hash and its source for the CLI."""
    count = 0

    def build(model: ModelSettings, **options: Any) -> tuple[str, dict]:
        nonlocal count
        count += 1
        out = tmp_path / f"out{count}"
        app = App(outdir=str(out))
        code = image_code(model, **options)
        lambda_.DockerImageFunction(Stack(app, "Stack"), "Function", code=code)
        app.synth()
        images = json.loads((out / "Stack.assets.json").read_text())["dockerImages"]
        ((name, asset),) = images.items()
        return name, asset["source"]

    return build


@pytest.fixture
def model_folder(tmp_path) -> Path:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "modules.json").write_text("[]")
    (folder / "model.safetensors").write_bytes(b"weights")
    return folder


def _models(source: dict) -> dict[str, Any]:
    """Return the content of models.json, which the image's build gets as an argument."""
    return json.loads(source["dockerBuildArgs"]["MODELS"])


@pytest.mark.parametrize(
    "choices",
    [
        # The compiler chooses the precision.
        {},
        {"precision": "fp32", "accept_license": "gemma"},
        {"revision": "a" * 40},
        {"dimensions": [768, 512, 256, 128]},
        {"route": "document"},
        {"task": "classify"},
    ],
)
def test_each_choice_of_a_model_reaches_the_compiler(docker_image, tmp_path, choices):
    """It has the name of the setting and of the compiler's option, and makes another image."""
    model = ModelSettings.model_validate({"name": "mine/model", **choices})
    name, source = docker_image(model)
    assert source["dockerBuildArgs"].keys() == {"MODELS"}
    assert source["platform"] == "linux/arm64"
    assert _models(source) == {"model": {"name": "mine/model", **choices}}
    file = tmp_path / "models.json"
    file.write_text(source["dockerBuildArgs"]["MODELS"])
    words = ModelsFile.read(file).models["model"].options
    assert command._parser().parse_args(["compile", "mine/model", *words])
    assert (name == docker_image(ModelSettings(name="mine/model"))[0]) is (not choices)


def test_the_compiler_has_an_option_for_each_choice(capsys):
    """A setting of the model is an option of its compile, or is named as none."""
    with pytest.raises(SystemExit):
        command.main(["compile", "--help"])
    options = capsys.readouterr().out
    choices = ModelSettings.model_fields.keys() - model_settings._NOT_COMPILED - {"name"}
    assert [name for name in choices if f"--{name.replace('_', '-')} " not in options] == []


def test_all_models_of_a_function_are_in_one_file(docker_image, model_folder):
    """Paths are those of the build, so that the image is the same on every machine."""
    ranker = ModelSource(name="acme/ranker", folder=model_folder, precision="fp32")
    splade = SparseSource(name="acme/splade")
    model = ModelSettings(name="acme/model")
    alone, _ = docker_image(model)
    three, source = docker_image(model.model_copy(update={"reranker": ranker, "sparse": splade}))
    assert alone != three
    assert source["dockerBuildContexts"] == {"reranker": str(model_folder)}
    assert source["dockerBuildArgs"]["FILES"] == files_digest([model_folder])
    assert _models(source) == {
        "model": {"name": "acme/model"},
        "reranker": {"name": "acme/ranker", "precision": "fp32", "folder": "sources/reranker"},
        "sparse": {"name": "acme/splade"},
    }


def test_bm25_is_a_choice_of_the_image(docker_image, tmp_path):
    """An image without it is not that of the settings."""
    texts = tmp_path / "faq.txt"
    texts.write_text("a text")
    alone = ModelSettings(name="acme/model", index=texts)
    model = alone.model_copy(update={"sparse": SparseSource(kind="bm25")})
    models = _models(docker_image(model)[1])
    assert models.pop("sparse") == {"kind": "bm25"}
    assert models == _models(docker_image(alone)[1])
    assert compare_labels(model_labels(alone), model) == [
        "[model] and [sparse]: found: not set; allowed: --kind bm25"
    ]


def test_the_index_of_a_routers_queries_needs_its_documents(docker_image, tmp_path):
    """The other route is compiled too, and only for the index."""
    texts = tmp_path / "faq.txt"
    texts.write_text("a text")
    routes = {
        route: _models(
            docker_image(
                ModelSettings.model_validate({"name": "acme/pair", "route": route, "index": texts})
            )[1]
        )
        for route in ROUTES
    }
    assert "documents" not in routes["document"]
    assert routes["query"]["documents"] == routes["document"]["model"]


def test_a_server_runs_one_model():
    """Its queue is of one model, so a second one is refused by the name of its table."""
    model = ModelSettings(name="acme/model", reranker=ModelSource(name="acme/ranker"))
    with pytest.raises(ValueError, match=r"found: a server with \[reranker\]; allowed: no"):
        server_image(Stack(App(), "S"), "Image", model)


SECRET_VARIABLES = {
    "HF_TOKEN": "hf_secret",
    "PIP_INDEX_URL": "https://me:secret@index.example.com/simple",
    "PIP_EXTRA_INDEX_URL": "https://secret@more.example.com/simple",
}


def test_secrets_are_variables_and_files_by_name(docker_image, monkeypatch, tmp_path):
    """Synth writes no secret, and where packages come from does not change the image."""
    for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT", *SECRET_VARIABLES):
        monkeypatch.delenv(name, raising=False)
    plain, source = docker_image(ModelSettings(name="mine/gated"))
    assert "dockerBuildSecrets" not in source
    authority = tmp_path / "ca.pem"
    authority.write_text("an authority")
    for name, value in SECRET_VARIABLES.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PIP_CERT", "ca.pem")
    named, source = docker_image(ModelSettings(name="mine/gated", hub_token_variable="HF_TOKEN"))
    assert source["dockerBuildSecrets"] == {
        "hub_token": "env=HF_TOKEN",
        "index_url": "env=PIP_INDEX_URL",
        "extra_index_url": "env=PIP_EXTRA_INDEX_URL",
        "certificates": f"src={authority}",
    }
    assert "secret@" not in json.dumps(source)
    assert "hf_secret" not in json.dumps(source)
    assert named == plain


def test_image_and_zip_trust_by_the_same_variables():
    """Neither imports the other's code, so each has their names, in one order."""
    assert package._CERTIFICATES == CERTIFICATES


def test_certificates_are_the_first_of_three_variables(tmp_path):
    """That of Python's ssl serves pip and the hub; a file that is missing is named."""
    first, second = tmp_path / "first.pem", tmp_path / "second.pem"
    first.touch()
    model, variables = (
        ModelSettings(name="mine/model"),
        {"PIP_CERT": str(second), "SSL_CERT_FILE": str(first)},
    )
    assert build_secrets(model, variables) == {"certificates": f"src={first}"}
    assert build_secrets(model, {"PIP_INDEX_URL": "", "SSL_CERT_FILE": ""}) == {}
    with pytest.raises(ValueError, match=r"REQUESTS_CA_BUNDLE names a file .*second\.pem; allowed"):
        build_secrets(model, {"PIP_CERT": str(first), "REQUESTS_CA_BUNDLE": str(second)})


def test_what_the_models_folder_holds_makes_the_image(docker_image, model_folder, tmp_path):
    """Other weights give another image; the same weights in another folder do not."""
    before, source = docker_image(ModelSettings(name="mine/tuned", folder=model_folder))
    assert source["dockerBuildContexts"] == {"model": str(model_folder)}
    assert _models(source)["model"] == {"name": "mine/tuned", "folder": "sources/model"}
    moved = tmp_path / "moved"
    shutil.copytree(model_folder, moved)
    assert docker_image(ModelSettings(name="mine/tuned", folder=moved))[0] == before
    (moved / "model.safetensors").write_bytes(b"weight5")
    assert docker_image(ModelSettings(name="mine/tuned", folder=moved))[0] != before


def test_the_indexs_texts_make_the_image(docker_image, tmp_path):
    """The index is built together with the image, with the model that it belongs to."""
    texts = tmp_path / "faq.json"
    texts.write_text('["one"]')
    before, source = docker_image(ModelSettings(name="any/model", index=texts))
    assert _models(source)["texts"] == "sources/texts/faq.json"
    assert source["dockerBuildContexts"] == {"texts": str(tmp_path)}
    texts.write_text('["two"]')
    assert docker_image(ModelSettings(name="any/model", index=texts))[0] != before


def test_a_path_that_is_not_there_is_named(tmp_path):
    """A misspelled path fails at synth, not in Docker."""
    with pytest.raises(FileNotFoundError, match=r"nowhere\.json, which the model's settings name"):
        image_code(ModelSettings(name="any/model", index=tmp_path / "nowhere.json"))


def test_another_base_image_makes_another_image(docker_image):
    """A patched base image is set by its digest; the default is the Dockerfile's own tag."""
    tag = "public.ecr.aws/lambda/python:3-arm64"
    digests = [f"{tag}@sha256:{character * 64}" for character in "ab"]
    images = [
        docker_image(ModelSettings(name="any/model", base_image=digest)) for digest in digests
    ]
    plain, source = docker_image(ModelSettings(name="any/model"))
    assert "BASE_IMAGE" not in source["dockerBuildArgs"]
    assert [source["dockerBuildArgs"]["BASE_IMAGE"] for _, source in images] == digests
    assert len({plain, *(name for name, _ in images)}) == 3


@pytest.fixture
def copied_folder(tmp_path, monkeypatch) -> Path:
    """Build the image from a copy of its folder, which may be written to."""
    copy = tmp_path / "lambda_image"
    shutil.copytree(
        image_folder(), copy, ignore=shutil.ignore_patterns("__pycache__", "tokenizers", "apis")
    )
    monkeypatch.setattr(package, "image_folder", lambda: copy)
    return copy


@pytest.mark.parametrize(
    ("file", "is_sent"),
    [
        ("embedder/__pycache__/engine.cpython-3.pyc", False),
        ("model_compiler/stray.pyc", False),
        ("notes.txt", False),
        (".env", False),
        ("artifact/model.onnx", False),
        ("embedder/aws_lambda/handler.py", True),
        ("requirements.txt", True),
        ("Dockerfile", True),
        ("model_compiler/compile.py", True),
    ],
)
def test_what_is_copied_makes_another_image(docker_image, copied_folder, file, is_sent):
    """Code, pins and recipe; byte code, notes and local artifacts are not sent to Docker."""
    before, _ = docker_image(ModelSettings(name="any/model"))
    path = copied_folder / file
    path.parent.mkdir(exist_ok=True)
    with path.open("a") as changed:
        changed.write("# changed\n")
    assert (docker_image(ModelSettings(name="any/model"))[0] != before) is is_sent


@pytest.mark.parametrize(
    ("target", "other", "file"),
    [
        ("batch", "server", "jobs/embed/worker.py"),
        ("batch", "server", "batch-requirements.txt"),
        ("batch", "server", "jobs/load/run.py"),
        ("batch", "server", "jobs/rows.py"),
        ("server", "batch", "embedder/server/app.py"),
        ("server", "batch", "server-requirements.txt"),
    ],
)
def test_what_only_one_target_runs_changes_only_its_image(
    docker_image, copied_folder, target, other, file
):
    """A change of the batch's or the server's code or pins does not release the endpoint."""
    model = ModelSettings(name="any/model")
    before, source = docker_image(model)
    others, _ = docker_image(model, target=other)
    own, of_target = docker_image(model, target=target)
    assert "dockerBuildTarget" not in source
    assert of_target["dockerBuildTarget"] == target
    with (copied_folder / file).open("a") as changed:
        changed.write("# changed\n")
    assert docker_image(model)[0] == before
    assert docker_image(model, target=other)[0] == others
    assert docker_image(model, target=target)[0] != own


def test_the_batchs_context_has_the_module_of_rows_and_no_link(tmp_path):
    """In a checkout it is a link, which Docker could not follow out of the context."""
    copied = {"aws:cdk:disable-asset-staging": False}
    app = App(outdir=str(tmp_path), post_cli_context=copied)
    code = image_code(ModelSettings(name="any/model"), target="batch")
    lambda_.DockerImageFunction(Stack(app, "Stack"), "Function", code=code)
    app.synth()
    (rows,) = tmp_path.glob("asset.*/jobs/rows.py")
    assert not rows.is_symlink()
    assert rows.read_bytes() == (image_folder() / "jobs" / "rows.py").read_bytes()


def test_a_missing_dockerfile_is_told_with_where_it_was_looked_for(tmp_path, monkeypatch):
    """The error for an installation without the image's folder names the folders searched."""
    monkeypatch.setattr(programs, "__file__", str(tmp_path / "a" / "b" / "package.py"))
    with pytest.raises(FileNotFoundError, match=r"Dockerfile is missing; looked in .* and .*"):
        image_folder()
