"""A build for several environments is refused if one would not accept it later."""

import pytest

from operations import command
from operations.built_images import check_accepts
from operations.command import read_environment, report_errors

MINILM = "sentence-transformers/all-MiniLM-L6-v2"
PIN = f"base@sha256:{'a' * 64}"
BATCH = '[batch]\ninput = "s3://texts-of-all/in"\noutput = "s3://vectors-of-all/out"\n'
ZIP = '[function]\npackage = "zip"\n'
IN_S3 = '[function]\npackage = "zip"\nartifact = "s3"\n[cold_start]\nkind = "snapstart"\n'


@pytest.fixture
def check(tmp_path, monkeypatch):
    """Return a function that checks environments, given the text of their files."""
    (tmp_path / "environments").mkdir()
    monkeypatch.setattr(command, "ENVIRONMENTS", tmp_path / "environments")

    def check(**files: str) -> int:
        for name, text in files.items():
            (tmp_path / "environments" / f"{name}.toml").write_text(text)

        def accept() -> None:
            built, *receivers = map(read_environment, files)
            for receiver in receivers:
                check_accepts(receiver, built)

        return report_errors(accept, failure="")

    return check


def model(name: str = MINILM, **settings: str) -> str:
    """Return the text of `[model]`."""
    lines = (f'{key} = "{value}"' for key, value in {"name": name, **settings}.items())
    return "\n".join(["[model]", *lines, ""])


def test_equal_models_have_one_image(check):
    """Other settings of the environments may differ, and the image may be based on any base."""
    larger = model() + "[function]\nmemory_mb = 3538\n"
    assert check(dev=model(base_image=PIN) + BATCH, staging=larger, production=model()) == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (model("mine/other"), f"[model] name: found: {MINILM}; allowed: mine/other"),
        (model(precision="fp32"), "[model] precision: found: not set; allowed: fp32"),
        (
            model("mine/pair", route="query"),
            (
                f"[model] name: found: {MINILM}; allowed: mine/pair\n"
                "  [model] route: found: not set; allowed: query"
            ),
        ),
        (
            model() + '[reranker]\nname = "acme/ranker"\nprecision = "int8"\n',
            "[model] and [reranker]: found: not set; allowed: acme/ranker --precision int8",
        ),
        (model(base_image=PIN), f"[model] base_image: found: not set; allowed: {PIN}"),
        (model() + BATCH, "packages: found: endpoint; allowed: endpoint, batch"),
        (model() + ZIP, "packages: found: endpoint; allowed: zip"),
    ],
)
def test_what_differs_is_named(check, capsys, settings, message):
    """The first environment builds; each other one is compared with it."""
    assert check(dev=model(), staging=model(), production=settings) == 1
    error = capsys.readouterr().err
    assert f"error: production would not accept what dev builds:\n  {message}\n" in error
    assert error.endswith("nothing was built\n")


def test_images_of_two_models_are_accepted_in_either_role(check, capsys):
    """A promotion before an exchange of the two, and one after it, needs no other image."""
    minilm, candidate = model(), model("mine/other")
    index = "index_dimension = 10\n[index]\n"
    with_standby = minilm + candidate.replace("[model]", "[standby]") + index
    exchanged = minilm.replace("[model]", "[standby]") + candidate + index
    assert check(dev=with_standby, staging=exchanged) == 0
    assert check(dev=with_standby, staging=minilm) == 1
    assert "[standby] name: found: mine/other; allowed: not set\n" in capsys.readouterr().err
    assert check(dev=minilm, staging=with_standby) == 1
    error = capsys.readouterr().err
    assert f"  [standby] name: found: {MINILM}; allowed: mine/other\n" in error
    assert "packages: found: endpoint; allowed: endpoint, standby-endpoint\n" in error


def test_a_zip_with_its_artifact_is_another_one(check, capsys):
    """Neither takes the place of the other, although both have the same model."""
    assert check(dev=model() + ZIP, staging=model() + ZIP) == 0
    assert check(dev=model() + IN_S3, staging=model() + ZIP) == 1
    assert "packages: found: zip, artifact; allowed: zip\n" in capsys.readouterr().err


def test_other_texts_are_another_image(check, tmp_path, capsys):
    """They are compared by their content and name."""
    for name, text in (("one", "a"), ("two", "b")):
        (tmp_path / "environments" / f"{name}.txt").write_text(text)
    assert check(dev=model(index="one.txt"), staging=model(index="one.txt")) == 0
    assert check(dev=model(index="one.txt"), staging=model(index="two.txt")) == 1
    assert "the files of folder and index: found: " in capsys.readouterr().err
    assert check(dev=model(index="gone.txt"), staging=model()) == 1
    assert "gone.txt" in capsys.readouterr().err
