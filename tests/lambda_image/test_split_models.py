"""The models of the build argument in a file for each step of the image's build."""

import json

import pytest

from split_models import split


def test_each_step_gets_its_own_models(tmp_path):
    """A change of one file repeats one step; a Router's other route is part of the first."""
    models = {key: {"name": f"acme/{key}"} for key in ("model", "documents", "sparse")}
    text = json.dumps(models | {"texts": "sources/texts/faq.txt"})
    split(text, tmp_path)
    written = {file.stem: json.loads(file.read_text()) for file in tmp_path.iterdir()}
    assert written == {
        "model": {key: models[key] for key in ("model", "documents")},
        "reranker": {},
        "sparse": {"sparse": models["sparse"]},
        "models": json.loads(text),
    }


@pytest.mark.parametrize("text", ["", "minilm", "{}", '"minilm"'])
def test_without_a_model_nothing_is_built(tmp_path, text):
    """As of a `docker build` by hand without the argument."""
    with pytest.raises(ValueError, match=r"Expecting value|MODELS has the models to compile"):
        split(text, tmp_path)
