"""With `-c images=...` the stacks use images that are in the repository, and build none."""

import json
import re

import pytest
from aws_cdk import App

from stacks.environment_stacks import EnvironmentStacks
from stacks.promoted import parse_images

from .conftest import ROOT

ENDPOINT, BATCH, SERVER = (f"sha256:{character * 64}" for character in "abc")
_OF_TWO = ("endpoint", "batch", "standby-endpoint", "standby-batch")


@pytest.fixture
def synth(tmp_path):
    """Synthesize an environment with images; return its templates and the images to build."""
    context = json.loads((ROOT / "cdk.json").read_text())["context"]

    def synth(environment, images):
        app = App(context=context, analytics_reporting=False, outdir=str(tmp_path))
        EnvironmentStacks(app, environment, images=images)
        templates = {stack.stack_name: stack.template for stack in app.synth().stacks}
        manifests = [json.loads(file.read_text()) for file in tmp_path.glob("*.assets.json")]
        return templates, [image for manifest in manifests for image in manifest["dockerImages"]]

    return synth


def test_the_functions_run_the_image_and_none_is_built(synth, environments):
    """The endpoint and the check of its releases; everything else is as without the image."""
    templates, built = synth(environments["dev"], {"endpoint": ENDPOINT})
    resources = templates["EmbeddingKit-dev-Endpoint"]["Resources"].values()
    codes = [r["Properties"]["Code"] for r in resources if r["Type"] == "AWS::Lambda::Function"]
    uris = [json.dumps(code["ImageUri"]) for code in codes if "ImageUri" in code]
    assert [f"/embedding-kit-dev@{ENDPOINT}" in uri for uri in uris] == [True, True]
    assert built == []


def test_each_model_runs_its_own_images(synth, environments):
    """The endpoint and its check have one, and the function to compare with the other."""
    images = {name: f"sha256:{number:064d}" for number, name in enumerate(_OF_TWO)}
    templates, built = synth(environments["standby"], images)
    used = {
        resource["Properties"]["Description"]: [
            name for name, digest in images.items() if digest in json.dumps(resource)
        ]
        for template in templates.values()
        for resource in template["Resources"].values()
        if resource.get("Properties", {}).get("PackageType") == "Image"
    }
    one, other = "sentence-transformers/all-MiniLM-L6-v2", "BAAI/bge-small-en-v1.5"
    assert used == {
        f"Embeddings by {one}": ["endpoint"],
        "Warms and checks a new version before the alias moves to it": ["endpoint"],
        f"Documents embedded by {one}": ["batch"],
        f"Embeddings by {other}": ["standby-endpoint"],
        f"Documents embedded by {other}": ["standby-batch"],
    }
    assert built == []


def test_an_image_that_is_missing_is_named(synth, environments):
    """The deploy's own check comes first; this is for the CDK's command without it."""
    with pytest.raises(RuntimeError, match="needs an image of the target endpoint; found: batch"):
        synth(environments["dev"], {"batch": BATCH})
    with pytest.raises(RuntimeError, match="needs an image of the target standby-"):
        synth(environments["standby"], {"endpoint": ENDPOINT, "batch": BATCH})


def test_the_context_has_a_digest_of_each_target():
    """As `scripts/deploy --image` writes it."""
    written = f"endpoint={ENDPOINT},batch={BATCH},server={SERVER}"
    assert parse_images(written) == {"endpoint": ENDPOINT, "batch": BATCH, "server": SERVER}
    assert parse_images(None) == {}


@pytest.mark.parametrize("value", [ENDPOINT, "endpoint=latest", f"endpoint={ENDPOINT},", 1])
def test_another_value_is_refused(value):
    """Such as a tag, which may move to another image."""
    with pytest.raises(ValueError, match=re.escape(f"context images: found: {value!r}; allowed:")):
        parse_images(value)
