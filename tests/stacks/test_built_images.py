"""A build for several environments is refused if one would not accept it later."""

import pytest

from stacks import built_images

MINILM = "sentence-transformers/all-MiniLM-L6-v2"
PIN = f"base@sha256:{'a' * 64}"
BATCH = '[batch]\ninput = "s3://texts-of-all/in"\noutput = "s3://vectors-of-all/out"\n'


@pytest.fixture
def check(tmp_path, monkeypatch):
    """Return a function that checks environments, given the text of their files."""
    (tmp_path / "environments").mkdir()
    monkeypatch.setattr(built_images, "_ROOT", tmp_path)

    def check(**files: str) -> int:
        for name, text in files.items():
            (tmp_path / "environments" / f"{name}.toml").write_text(text)
        return built_images.main([*files, "--check"])

    return check


def model(name: str = MINILM, **settings: str) -> str:
    """Return the text of `[model]`."""
    lines = (f'{key} = "{value}"' for key, value in {"name": name, **settings}.items())
    return "\n".join(["[model]", *lines, ""])


def test_equal_models_have_one_image(check):
    """Other settings of the environments may differ, and the image may be based on any base."""
    other = model() + "[function]\nmemory_mb = 3538\n"
    assert check(dev=model(base_image=PIN) + BATCH, staging=other, production=model()) == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (model("mine/other"), f"[model] name: found: {MINILM}; allowed: mine/other"),
        (model(precision="fp32"), "[model] precision: found: not set; allowed: fp32"),
        (model(base_image=PIN), f"[model] base_image: found: not set; allowed: {PIN}"),
        (model() + BATCH, "images: found: endpoint; allowed: endpoint, batch"),
    ],
)
def test_what_differs_is_named(check, capsys, settings, message):
    """The first environment builds; each other one is compared with it."""
    assert check(dev=model(), staging=model(), production=settings) == 1
    error = capsys.readouterr().err
    assert f"error: production would not accept what dev builds:\n  {message}\n" in error
    assert error.endswith("nothing was built\n")


def test_other_texts_are_another_image(check, tmp_path, capsys):
    """They are compared by their content and name."""
    for name, text in (("one", "a"), ("two", "b")):
        (tmp_path / "environments" / f"{name}.txt").write_text(text)
    assert check(dev=model(index="one.txt"), staging=model(index="one.txt")) == 0
    assert check(dev=model(index="one.txt"), staging=model(index="two.txt")) == 1
    assert "the files of folder and index: found: " in capsys.readouterr().err


def test_a_file_that_is_missing_is_named(check, capsys):
    """As an error, not as a fault of the program."""
    assert check(dev=model(index="gone.txt"), staging=model()) == 1
    assert "gone.txt" in capsys.readouterr().err
