"""An image that is built once is deployed by other environments, against an emulated registry."""

import hashlib
import json
from uuid import uuid4

import httpx2
import pytest

from embedding_kit.image_identity import build_arguments
from embedding_kit.settings import ModelSettings
from operations.built_images import built_images
from operations.packages import ImageRepository, read_address
from operations.promotion import Reference, images_context, promote
from stacks.environment import EnvironmentSettings
from tools.rehearsal.deploy.docker_client import push_empty

MODEL = "sentence-transformers/all-MiniLM-L6-v2"
MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"


@pytest.fixture
def environment(aws):
    """Return a function that makes an environment with a repository of its own."""
    made = []

    def make(**settings):
        name = f"e{uuid4().hex[:12]}"
        found = EnvironmentSettings(name=name, **{"model": ModelSettings(name=MODEL), **settings})
        aws.client("ecr").create_repository(
            repositoryName=f"embedding-kit-{name}", imageTagMutability="IMMUTABLE"
        )
        made.append(f"embedding-kit-{name}")
        return found

    yield make
    for name in made:
        aws.client("ecr").delete_repository(repositoryName=name, force=True)


@pytest.fixture
def push(aws, session):
    """Return a function that pushes an image with a layer, and names it as `scripts/build` does."""

    def push(environment, *, target="endpoint", model=None, labels=None, media_type=MANIFEST):
        base = f"{aws.url}/v2/embedding-kit-{environment.name}"
        arguments = build_arguments(model or environment.model)
        found = {f"embedding-kit.{name.lower()}": value for name, value in arguments.items()}
        found["embedding-kit.target"] = target
        config = json.dumps({"config": {"Labels": found if labels is None else labels}}).encode()
        files = []
        for content in (config, b"layer of " + target.encode()):
            digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
            httpx2.post(f"{base}/blobs/uploads/", params={"digest": digest}, content=content)
            files.append({"digest": digest, "size": len(content)})
        manifest = json.dumps({"schemaVersion": 2, "config": files[0], "layers": files[1:]})
        answer = httpx2.put(
            f"{base}/manifests/{uuid4().hex}",
            content=manifest,
            headers={"Content-Type": media_type},
        )
        assert answer.is_success
        digest = answer.headers["docker-content-digest"]
        return Reference.parse(f"{read_address(session, environment).uri}@{digest}")

    return push


def _images(aws, environment) -> dict[str, list[str]]:
    found = aws.client("ecr").describe_images(repositoryName=f"embedding-kit-{environment.name}")
    return {image["imageDigest"]: image["imageTags"] for image in found["imageDetails"]}


def test_an_image_has_the_same_digest_in_the_next_environment(aws, session, environment, push):
    """It is copied once, with a tag, so that the lifecycle does not delete it."""
    dev, staging = environment(), environment()
    image = push(dev)
    digest = image.digest
    for _ in range(2):
        assert promote(session, staging, [image]) == {"endpoint": digest}
        assert _images(aws, staging) == {digest: [f"promoted-{digest.removeprefix('sha256:')}"]}
    layer = f"sha256:{hashlib.sha256(b'layer of endpoint').hexdigest()}"
    copied = httpx2.get(f"{aws.url}/v2/embedding-kit-{staging.name}/blobs/{layer}")
    assert copied.content == b"layer of endpoint"


def test_a_copied_image_is_deployed_without_the_first_repository(aws, session, environment, push):
    """As for a deploy again, after the environment that built it has lost the image."""
    dev, staging = environment(), environment()
    image = push(dev)
    found = promote(session, staging, [image])
    aws.client("ecr").batch_delete_image(
        repositoryName=f"embedding-kit-{dev.name}", imageIds=[{"imageDigest": image.digest}]
    )
    assert promote(session, staging, [image]) == found


def test_a_check_changes_nothing(aws, session, environment, push):
    """It comes before the repository's own deploy, so the repository may be missing."""
    dev, staging = environment(), environment()
    image = [push(dev)]
    aws.client("ecr").delete_repository(repositoryName=f"embedding-kit-{staging.name}")
    assert promote(session, staging, image, check=True)
    with pytest.raises(ValueError, match="NAME_UNKNOWN"):
        promote(session, staging, image)
    aws.client("ecr").create_repository(repositoryName=f"embedding-kit-{staging.name}")
    assert promote(session, staging, image)


def test_images_are_the_context_of_the_app(aws, session, environment, push):
    """A check copies nothing."""
    dev, staging = environment(), environment()
    image = push(dev)
    address = [f"{read_address(session, dev).uri}@{image.digest}"]
    for check, copies in ((True, 0), (False, 1)):
        context = images_context(session, staging, address, check=check)
        assert context == f"endpoint={image.digest}"
        assert len(_images(aws, staging)) == copies


def test_a_copy_that_broke_off_continues(aws, session, environment, push, monkeypatch):
    """Files that are there are not sent again."""
    dev, staging = environment(), environment()
    image = [push(dev)]
    upload = ImageRepository._upload
    sent: list[str] = []

    def breaks_off(self, digest, source):
        if len(sent) == 1:
            raise ValueError("broke off")
        sent.append(digest)
        upload(self, digest, source)

    monkeypatch.setattr(ImageRepository, "_upload", breaks_off)
    with pytest.raises(ValueError, match="broke off"):
        promote(session, staging, image)
    assert _images(aws, staging) == {}

    def continues(self, digest, source):
        sent.append(digest)
        upload(self, digest, source)

    monkeypatch.setattr(ImageRepository, "_upload", continues)
    promote(session, staging, image)
    assert len(sent) == len(set(sent)) == 2


def test_an_image_of_other_settings_is_refused(session, environment, push):
    """The error names each setting, and nothing is copied. Without a pin, any base is allowed."""
    dev = environment()
    pinned = environment(model=ModelSettings(name=MODEL, base_image=f"base@sha256:{'a' * 64}"))
    message = r"\[model\] base_image: found: not set; allowed: base@sha256:a"
    with pytest.raises(ValueError, match=message):
        promote(session, pinned, [push(dev)])
    assert _images(session.aws, pinned) == {}
    assert promote(session, dev, [push(pinned)])


def test_other_files_of_a_model_are_refused(session, environment, push, tmp_path):
    """A fine-tuned model is known by its files, not by its name."""
    texts = tmp_path / "texts.json"
    texts.write_text('["one"]')
    dev = environment(model=ModelSettings(name=MODEL, index=texts))
    image = [push(dev)]
    assert promote(session, dev, image)
    texts.write_text('["two"]')
    with pytest.raises(ValueError, match="the files of folder and index: found: "):
        promote(session, dev, image)


def test_what_is_no_image_of_the_kit_is_refused(session, environment, push):
    """Neither an image without labels, nor an index of images, nor one that is not there."""
    dev = environment()
    with pytest.raises(ValueError, match=r"no label embedding-kit\.target"):
        promote(session, dev, [push(dev, labels={})])
    index = push(dev, media_type="application/vnd.oci.image.index.v1+json")
    with pytest.raises(ValueError, match="Lambda runs no index of images"):
        promote(session, dev, [index])
    nowhere = Reference.parse(f"{read_address(session, dev).uri}@sha256:{'0' * 64}")
    with pytest.raises(ValueError, match=f"looked in: .*/embedding-kit-{dev.name}; allowed"):
        promote(session, dev, [nowhere])


def test_each_target_has_its_image(session, environment, push):
    """With batch jobs two images are promoted; one that is not needed is not copied."""
    dev = environment(batch={"input": "s3://texts-of-dev/in", "output": "s3://vectors-of-dev/out"})
    endpoint = push(dev)
    with pytest.raises(ValueError, match="Missing: batch"):
        promote(session, dev, [endpoint])
    batch = push(dev, target="batch")
    digests = {"endpoint": endpoint.digest, "batch": batch.digest}
    assert promote(session, dev, [batch, endpoint]) == digests
    staging = environment()
    assert promote(session, staging, [batch, endpoint]) == {"endpoint": endpoint.digest}
    with pytest.raises(ValueError, match="two images of the target endpoint"):
        promote(session, staging, [endpoint] * 2)


def test_each_of_two_models_has_its_images(session, environment, push):
    """By what is in them: after an exchange of the two, the same images are accepted."""
    one, other = ModelSettings(name=MODEL), ModelSettings(name="BAAI/bge-small-en-v1.5")
    dev = environment(standby=other, index={})
    images = [push(dev, model=model) for model in (other, one)]
    standby, endpoint = (image.digest for image in images)
    assert promote(session, dev, images) == {"endpoint": endpoint, "standby-endpoint": standby}
    exchanged = environment(model=other, standby=one, index={})
    assert promote(session, exchanged, images)["endpoint"] == standby
    with pytest.raises(ValueError, match="Missing: standby-endpoint"):
        promote(session, dev, images[1:])
    with pytest.raises(ValueError, match="two images of the target standby-endpoint"):
        promote(session, dev, [images[0]] * 2)
    third = push(dev, model=ModelSettings(name="acme/third"))
    with pytest.raises(ValueError, match=r"\[model\] name: .*\n.*\[standby\] name: "):
        promote(session, dev, [third])


@pytest.mark.parametrize("text", ["latest", "sha256:" + "a" * 64, "docker.io/x@sha256:" + "a" * 64])
def test_an_image_is_named_by_its_digest(text):
    """A tag, no repository, or another registry is refused."""
    with pytest.raises(ValueError, match=r"--image: found: .*; allowed: an image as"):
        Reference.parse(text)


def test_the_images_of_a_commit_are_found_by_their_tags(aws, session, environment, tmp_path):
    """They are those of the synthesized stacks; the endpoint's comes first."""
    dev = environment()
    name = f"embedding-kit-{dev.name}"
    for tag, target in (("bbb", None), ("aaa", "batch")):
        push_empty(f"localhost:{aws.port}/{name}:{tag}")
        source = {"dockerBuildTarget": target} if target else {}
        destinations = {"here": {"repositoryName": name, "imageTag": tag}}
        content = {"dockerImages": {tag: {"source": source, "destinations": destinations}}}
        (tmp_path / f"{tag}.assets.json").write_text(json.dumps(content))
    digests = {tags[0]: digest for digest, tags in _images(aws, dev).items()}
    uri = f"{aws.account}.dkr.ecr.{aws.region}.amazonaws.com/{name}"
    assert built_images(session, dev, tmp_path) == [
        f"{uri}@{digests['bbb']}",
        f"{uri}@{digests['aaa']}",
    ]
